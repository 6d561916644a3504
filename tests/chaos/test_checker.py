"""Each invariant trips when it is broken, and only then: states of a Node as an API server would tell of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tests.chaos.checker import (
    AFTERMATH,
    DELETED,
    HALF,
    KINDS,
    LISTED,
    TOUCHED,
    UNEQUAL,
    UNWANTED,
    VANISHED,
    Checker,
    render_versions,
)
from tests.chaos.model import FOREIGN, LIST, ORIGINS, F, Rule, Truth, wanted_of

TRUTH = Truth("boot-1", devices={"0000:01:00.0": ("030200", "1eac")})
RULE = Rule("chaos-rule-0", "1eac", 5)
THEIRS = {f"{F}{FOREIGN}": "1", f"@{FOREIGN}.example/note": "x", f"%{FOREIGN}.example/taint": "y"}
WAVE = f"{F}chaos-wave-a"
Flat = dict[str, str]
_versions = count(1)


def flat(wanted: Mapping[str, Mapping[str, str]]) -> Flat:
    return {key: text for values in wanted.values() for key, text in values.items()}


def wanted(truth: Truth = TRUTH, rules: tuple[Rule, ...] = (RULE,), theirs: Flat = THEIRS) -> dict[str, dict[str, str]]:
    return wanted_of(truth, rules, theirs)


def node(state: Flat, listed: set[str] | None = None, boot: str = "boot-1") -> dict[str, Any]:
    """The object that has this state, listing all labels but foreign ones unless `listed` says otherwise."""
    labels = {key: text for key, text in state.items() if key[0] not in "@#%"}
    ours = sorted(listed if listed is not None else {key for key in labels if FOREIGN not in key})
    notes = {key[1:]: text for key, text in state.items() if key[0] == "@"}
    notes |= {LIST: ",".join(key.removeprefix(F) for key in ours), ORIGINS: f'{{"boot":"{boot}"}}'} if ours else {}
    return {
        "metadata": {"name": "n", "resourceVersion": str(next(_versions)), "labels": labels, "annotations": notes},
        "spec": {"taints": [{"key": key[1:], "value": text} for key, text in state.items() if key[0] == "%"]},
        "status": {"capacity": {key[1:]: text for key, text in state.items() if key[0] == "#"}},
    }


def labelled(now: Callable[[], float] = lambda: 0.0) -> Checker:
    """Of a Node that is as it should be, after it came empty and was labelled in one step."""
    checker = Checker(now)
    checker.expect_node("n", wanted(), "boot-1")
    checker.see("ADDED", node(THEIRS))
    assert not checker.settled("n")
    checker.see("MODIFIED", node(flat(wanted())))
    assert (checker.settled("n"), checker.violations) == (True, [])
    return checker


def without(*keys: str) -> Flat:
    return {key: text for key, text in flat(wanted()).items() if key not in keys}


def lose_a_label(checker: Checker) -> None:
    checker.see("MODIFIED", node(without(WAVE)))


def lose_an_amount(checker: Checker) -> None:
    checker.see("MODIFIED", node(without(f"#{F}chaos-rule-0-amount")))


def lose_it_while_it_changes(checker: Checker) -> None:
    checker.expect("n", wanted(replace(TRUTH, wave=3)), "boot-1")
    checker.see("MODIFIED", node(without(WAVE)))


def lose_it_in_a_failure_of_its_source(checker: Checker) -> None:
    checker.expect("n", wanted(replace(TRUTH, release=(13, 1))), "boot-1")
    checker.see("MODIFIED", node({key: text for key, text in flat(wanted()).items() if "/pci-" not in key}))


def change_a_part(checker: Checker) -> None:
    after = wanted(replace(TRUTH, wave=3))
    checker.expect("n", after, "boot-1")
    checker.see("MODIFIED", node(flat(wanted()) | {WAVE: "3"}))


def label_a_new_node_by_halves(checker: Checker) -> None:
    checker.expect_deletion("n", wanted(), "boot-1", joined=True)
    checker.see("DELETED", node(flat(wanted())))
    checker.see("ADDED", node(THEIRS))
    checker.see("MODIFIED", node({**THEIRS, **wanted()["cpu"]}))


def come_back(checker: Checker) -> None:
    """Once gone, a label is not there again."""
    after = wanted(replace(TRUTH, devices={}))
    checker.expect("n", after, "boot-1")
    checker.see("MODIFIED", node(flat(after)))
    assert checker.violations == []
    checker.see("MODIFIED", node(flat(wanted())))


def invent(checker: Checker) -> None:
    checker.see("MODIFIED", node(flat(wanted()) | {f"{F}pci-0302_10de.present": "true"}))


def touch(checker: Checker) -> None:
    checker.see("MODIFIED", node(without(f"{F}{FOREIGN}")))


def untaint(checker: Checker) -> None:
    checker.see("MODIFIED", node(without(f"%{FOREIGN}.example/taint")))


def list_too_few(checker: Checker) -> None:
    ours = {key for key in flat(wanted()) if FOREIGN not in key and key[0] not in "@#%"}
    checker.see("MODIFIED", node(flat(wanted()), ours - {WAVE}))


def list_a_foreign_one(checker: Checker) -> None:
    ours = {key for key in flat(wanted()) if key[0] not in "@#%"}
    checker.see("MODIFIED", node(flat(wanted()), ours))


def never_arrive(checker: Checker) -> None:
    checker.expect("n", wanted(replace(TRUTH, wave=3)), "boot-1")
    checker.final()


def keep_the_old_boot(checker: Checker) -> None:
    checker.expect("n", wanted(), "boot-2")
    checker.final()


def delete(checker: Checker) -> None:
    checker.see("DELETED", node(flat(wanted())))


BREACHES: tuple[tuple[Callable[[Checker], None], str], ...] = (
    (lose_a_label, VANISHED),
    (lose_an_amount, VANISHED),
    (lose_it_while_it_changes, VANISHED),
    (lose_it_in_a_failure_of_its_source, VANISHED),
    (change_a_part, HALF),
    (label_a_new_node_by_halves, HALF),
    (come_back, UNWANTED),
    (invent, UNWANTED),
    (touch, TOUCHED),
    (untaint, TOUCHED),
    (list_too_few, LISTED),
    (list_a_foreign_one, LISTED),
    (never_arrive, UNEQUAL),
    (keep_the_old_boot, UNEQUAL),
    (delete, DELETED),
)


@pytest.mark.parametrize(("breach", "kind"), BREACHES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_breach_is_told_as_what_it_is(breach: Callable[[Checker], None], kind: str) -> None:
    checker = labelled()
    breach(checker)
    assert {one.kind for one in checker.violations} == {kind}


def test_every_kind_has_a_breach() -> None:
    assert {kind for _, kind in BREACHES} == set(KINDS)


def test_what_is_right_is_no_violation() -> None:
    """Changes of several sources in any order, an old state that comes late, and a Node made again."""
    checker, now = labelled(), flat(wanted())
    truth = replace(TRUTH, wave=3, release=(13, 1))
    checker.expect("n", wanted(truth), "boot-1")
    checker.see("MODIFIED", node(now))
    checker.see("MODIFIED", node(now | wanted(truth)["system"]))
    checker.see("MODIFIED", node(flat(wanted(truth))))
    theirs = THEIRS | {f"{F}{FOREIGN}": "2"}
    checker.expect("n", wanted(truth, (), theirs), "boot-1")
    checker.see("MODIFIED", node(flat(wanted(truth, (RULE,), theirs))))
    checker.see("MODIFIED", node(flat(wanted(truth, (), theirs))))
    checker.expect_deletion("n", wanted(TRUTH, (), theirs), "boot-2", joined=True)
    checker.see("DELETED", node(flat(wanted(truth, (), theirs))))
    checker.see("ADDED", node(theirs))
    checker.see("MODIFIED", node(flat(wanted(TRUTH, (), theirs)), boot="boot-2"))
    checker.final()
    assert (checker.violations, checker.unsettled()) == ([], [])


def test_writes_of_the_driver_are_not_counted_as_ours() -> None:
    checker = labelled()
    before, change = checker.written, node(flat(wanted()))
    checker.mine("n", change["metadata"]["resourceVersion"])
    checker.see("MODIFIED", change)
    assert (before, checker.written) == (1, 1)


POISONED = {WAVE, "node-restriction.kubernetes.io/foreign"}


def test_a_poisoned_list_is_put_right_and_excuses_nothing_else() -> None:
    checker = labelled()
    checker.poison("n")
    poisoned = node(flat(wanted()), POISONED)
    checker.see("MODIFIED", node(flat(wanted())))  # one of before, seen late
    checker.see("MODIFIED", poisoned)
    checker.mine("n", poisoned["metadata"]["resourceVersion"])
    assert checker.violations == []
    checker.see("MODIFIED", node(without(f"{F}{FOREIGN}"), POISONED))
    assert [one.kind for one in checker.violations] == [TOUCHED]
    checker.see("MODIFIED", node(flat(wanted())))
    checker.see("MODIFIED", node(flat(wanted()), POISONED))
    assert {one.kind for one in checker.violations} == {TOUCHED, LISTED}


def test_a_list_that_stays_poisoned_is_a_violation_at_the_end() -> None:
    checker = labelled()
    checker.poison("n")
    checker.see("MODIFIED", node(flat(wanted()), POISONED))
    checker.final()
    assert {one.kind for one in checker.violations} == {UNEQUAL}


def test_while_a_policy_refuses_keys_a_change_may_come_in_parts_but_nothing_goes() -> None:
    checker = labelled()
    checker.refusing(True)
    checker.expect("n", wanted(rules=(replace(RULE, value=6),)), "boot-1")
    part = flat(wanted()) | {f"#{F}chaos-rule-0-amount": "6"}
    checker.see("MODIFIED", node(part))
    assert checker.violations == []
    checker.see("MODIFIED", node({key: text for key, text in part.items() if "rule-0-a" not in key}))
    assert {one.kind for one in checker.violations} == {VANISHED}


def test_what_a_policy_left_in_parts_stays_so_until_a_master_knows_the_features_and_no_other_part_comes() -> None:
    """If the leader ends before it tries again, no other one knows why the rule's keys are on the Node."""
    now = [0.0]
    checker = labelled(lambda: now[0])
    checker.refusing(True)
    checker.expect("n", wanted(rules=(replace(RULE, value=6),)), "boot-1")
    part = flat(wanted()) | {f"#{F}chaos-rule-0-amount": "6"}
    checker.see("MODIFIED", node(part))
    checker.refusing(False)
    now[0] = AFTERMATH + 1
    checker.see("MODIFIED", node(part))
    assert checker.violations == []
    checker.see("MODIFIED", node(part | {f"{F}chaos-rule-0-a": "6"}))
    assert [one.kind for one in checker.violations] == [HALF]
    checker.see("MODIFIED", node(flat(wanted())))
    checker.see("MODIFIED", node(part))
    assert [one.kind for one in checker.violations] == [HALF, HALF], "it had gone, and came again"
    checker.final()
    assert UNEQUAL in {one.kind for one in checker.violations}


def test_after_a_restart_of_the_api_server_a_resource_may_come_later_and_nothing_else() -> None:
    checker = labelled()
    checker.restarted()
    checker.expect("n", wanted(rules=(replace(RULE, value=6),)), "boot-1")
    part = flat(wanted(rules=(replace(RULE, value=6),))) | {f"#{F}chaos-rule-0-amount": "5"}
    checker.see("MODIFIED", node(part))
    assert checker.violations == []
    checker.see("MODIFIED", node(part | {f"{F}chaos-rule-0-a": "5"}))
    assert [one.kind for one in checker.violations] == [HALF]


def test_a_node_is_there_from_its_creation_to_its_deletion() -> None:
    checker = labelled()
    found = [checker.exists("n")]
    checker.expect_deletion("n", wanted(), "boot-1", joined=True)
    found.append(checker.exists("n"))
    checker.see("DELETED", node(flat(wanted())))
    found.append(checker.exists("n"))
    checker.see("ADDED", node(flat(wanted())))
    found.append(checker.exists("n"))
    assert found == [True, False, False, True]


def test_a_violation_shows_the_versions_before_it() -> None:
    checker = labelled()
    lose_a_label(checker)
    (found,) = checker.violations
    lines = [text for _, text in render_versions(found.versions)]
    assert len(lines) == 2, "the version without labels is the first"
    assert f"{{'@{LIST}': " in lines[1]
    assert f"'{WAVE}': None" in lines[1]
