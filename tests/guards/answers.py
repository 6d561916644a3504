"""Guards of the rule that a status of success is no proof: what is not as asked for is no news."""

from __future__ import annotations

from tests.guards.guard import Guard

SHAPES = "tests/kube/test_answers.py::"
NONE = "tests/faults/test_lists_that_are_none.py::"

ANSWERS = (
    Guard(  # an empty list of something else is no empty list of ours
        "nfd/kube/check_responses.py",
        'whole = (found.get("apiVersion"), found.get("kind")) == (place.api_version, f"{place.kind}List")',
        "whole = True",
        SHAPES + "test_a_list_that_is_none",
    ),
    Guard(
        "nfd/kube/check_responses.py",
        "if not (whole and version and isinstance(token, str) and isinstance(items, list)):",
        "if not (whole and isinstance(token, str) and isinstance(items, list)):",
        SHAPES + "test_a_list_that_is_none",
    ),
    Guard(  # null is an empty list of metadata alone, and of nothing else
        "nfd/kube/check_responses.py",
        'if items is None and place.kind == METADATA and "items" in found:',
        "if items is None:",
        NONE + "test_lists_that_are_none",
    ),
    Guard(
        "nfd/kube/check_responses.py",
        "if not _is_named(item) or not _is_of(item, place, listed=True):",
        "if False:",
        SHAPES + "test_a_list_that_is_none",
    ),
    Guard(
        "nfd/kube/check_responses.py",
        "if kind not in EVENTS or not isinstance(item, Mapping) or not _is_of(item, place) or not version:",
        "if kind not in EVENTS or not isinstance(item, Mapping) or not version:",
        SHAPES + "test_an_event_that_is_none",
    ),
    Guard(  # a rule without a specification is no empty rule
        "nfd/master/rules/rule_store.py",
        "    specification(item, field)\n    return",
        "    return",
        NONE + "test_objects_without_a_spec",
    ),
    Guard(
        "nfd/master/rules/nodefeatures.py",
        "specification(item)\n    labels",
        '_mapping(item.get("spec"), "spec")\n    labels',
        NONE + "test_objects_without_a_spec",
    ),
    Guard(  # nobody leads by an answer that is no Lease
        "nfd/kube/leader_election.py",
        "        return self._checked(found, method, body)\n",
        "        return dict(found) if isinstance(found, dict) else {}\n",
        NONE + "test_nobody_leads_by_it",
    ),
    Guard(  # nor is anybody let in
        "nfd/kube/check_responses.py",
        '        and isinstance(_or(status.get("authenticated"), False), bool)\n',
        "",
        SHAPES + "test_a_review_that_is_none",
    ),
    Guard(
        "nfd/kube/token_reviews.py",
        'if status.get("allowed") is not True or',
        'if not status.get("allowed") or',
        NONE + "test_nobody_is_let_in_by_it",
    ),
    Guard(  # one object that brings out a defect does not make us deaf
        "nfd/kube/informer.py",
        '        except Exception as error:\n            failed("watch", error, path=f',
        '        except ZeroDivisionError as error:\n            failed("watch", error, path=f',
        NONE + "test_an_object_that_brings_out_a_defect",
    ),
)
