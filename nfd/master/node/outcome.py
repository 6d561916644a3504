"""The outcome of a node: what it should carry, and why, from report, rules, objects and policy (pure).

`evaluate_node` is the way in, for the master and for every command that shows what a master would do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from nfd.master.node.desired import (
    ALL_FRESH,
    GIVEN,
    RULE_ORIGIN,
    Desired,
    Freshness,
    derive_desired,
    derive_freshness,
    find_overwrites,
)
from nfd.master.node.ownership import parse_owned
from nfd.master.node.plan import Goal, plan_node
from nfd.master.node.proof import ASSUMED, Proof
from nfd.master.rules.evaluation import Evaluation, evaluation_steps
from nfd.master.rules.nodefeatures import (
    AWAITED,
    REPORTED,
    REPORTED_BEFORE,
    Admitted,
    FeatureObject,
    Joining,
    admit_objects,
    join_objects,
    report_of,
    speak_alone,
)
from nfd.master.rules.ruleset import PlacedRule, RuleSet, exhaust
from nfd.report import Report
from nfd.rules.evaluate import Watch
from nfd.rules.output_keys import Overwrite
from nfd.rules.policy import Policy, refers
from nfd.runtime.cache import LruCache
from nfd.store.base import Node

CACHED = 256
"""Desired states that are cached; the least recently used is dropped."""
NO_RULES = RuleSet()
"""With unknown rules: keys that a rule set before are kept as if it still existed."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A report merged with its objects, and the evaluation of rules on both.

    `current` is False where a cache has only the evaluation of earlier rules or of an earlier report.
    """

    joined: Report
    evaluation: Evaluation
    current: bool = True


Evaluate = Callable[[Report, Sequence[FeatureObject], bool], Evaluated]
"""Merges objects into a report and runs the rules. With the last argument True, nothing is stored for the node."""


@dataclass(frozen=True, slots=True)
class Known:
    """What else is known of the cluster and the node.

    `lists` says which lists of rules and objects are complete and which objects are invalid; its `blind` says whether
    an invalid object is for this node. `instance` and `proof` identify this master's bookkeeping on the Node.
    `changing` are objects, by namespace and name, that changed since the first list. `before` is the report of the last
    evaluation.
    """

    lists: Freshness = ALL_FRESH
    instance: str = ""
    proof: Proof = ASSUMED
    changing: AbstractSet[tuple[str, str]] = frozenset()
    before: Report | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The desired state of a Node and its reasons.

    `report` includes the merged objects and is empty if there is no report. `fresh` says what the absence of a key
    proves. `unused` is the reason why the object of NFD's own worker, if there is one, is not used as the report.
    `surplus` are the origins of objects that are not used, since the node has too many.
    Report and contributions are the same objects as before as long as nothing changed.
    """

    report: Report
    fresh: Freshness
    evaluation: Evaluation
    policy: Policy
    unused: str = ""
    surplus: frozenset[str] = frozenset()

    def derive_desired(self) -> Desired:
        """Keys and values, the origin of each key, and what was rejected and why."""
        return derive_desired(self.report, self.policy, self.evaluation.contributions, self.evaluation.matched)

    def failed(self, rules: RuleSet) -> list[tuple[PlacedRule, str]]:
        """The evaluated rules that failed, and why."""
        return [(rules.rules[index], texts[0]) for index, texts in self.evaluation.failed().items()]

    def overwrites(self, *, with_vars: bool = False) -> list[Overwrite]:
        """Keys that a rule sets to another value than an earlier rule or the report."""
        return find_overwrites(self.report, self.policy, self.evaluation.contributions, with_vars=with_vars)


@dataclass(frozen=True, slots=True)
class _Derived:
    """A desired state and its inputs. Their identities are the key, so the entry keeps them alive."""

    inputs: tuple[Any, ...]
    desired: Desired


class DesiredCache:
    """The desired states of outcomes under one policy. Reports that share their values share an entry."""

    def __init__(self) -> None:
        self._known = LruCache[tuple[int, ...], _Derived](CACHED)

    def derive(self, outcome: Outcome) -> Desired:
        report, contributions = outcome.report, outcome.evaluation.contributions
        inputs = (report.labels, report.annotations, report.origins, tuple(contributions))
        key, order = tuple(map(id, inputs)), report.order
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            boot_id, at = (order.boot_id, (order.started, order.sequence)) if order is not None else ("", None)
            return replace(known.desired, boot_id=boot_id, at=at)
        desired = derive_desired(report, outcome.policy, contributions, outcome.evaluation.matched)
        if not refers(report.labels, report.annotations) and not any(one.refers for one in contributions):
            self._known.put(key, _Derived(inputs, desired))
        return desired


def evaluate_node(
    node: Node,
    report: Report | None,
    rules: RuleSet,
    objects: Sequence[FeatureObject] | Admitted,
    joining: Joining,
    known: Known = Known(),  # frozen
    evaluate: Evaluate | None = None,
) -> Outcome:
    """The desired state of the Node, the origin of each key, and what was rejected and why.

    `report` is the worker's, None if there is none yet. `objects` are those for the node in selected namespaces, all or
    what `admit_objects` has found among them.
    `evaluate` returns the evaluation of rules from a cache, for example. What objects gave that are too many stays, as
    what invalid objects gave.
    """
    admitted = objects if isinstance(objects, Admitted) else admit_objects(objects, joining)
    surplus, objects = admitted.origins, admitted.objects
    evaluate = evaluate or at_once(rules, joining)
    others, unused = tuple(one for one in objects if not joining.is_workers(one)), REPORTED
    if report is None:
        report, unused = _report_of_object(node, objects, joining, known)
    alone = report is None and _speak_alone(node, others, joining, known, evaluate)
    if alone:
        report = Report(node.name)
    lists, existing = known.lists.without_objects(surplus), None if rules is NO_RULES else rules.origins
    if report is None:
        joined = join_objects(Report(node.name), others, joining)
        fresh = replace(lists, rules=existing, sources={}, blind=True, reported=False)
        return Outcome(joined, fresh, Evaluation(), joining.policy, unused, surplus)
    found, fresh = evaluate(report, others, False), derive_freshness(report)
    evaluated = found.evaluation.complete and found.current
    blind = fresh.blind or lists.blind or not evaluated
    unreadable = any(one.startswith(RULE_ORIGIN) for one in lists.uncertain)
    unsure = found.evaluation.unsure | rules.relying_on(fresh, unreadable)
    fresh = replace(
        lists,
        rules=existing,
        sources=fresh.sources,
        blind=blind,
        alone=alone,
        uncertain=lists.uncertain | unsure,
        partial=fresh.failed | {GIVEN} if unsure or unreadable else fresh.failed,
        evaluated=evaluated,
    )
    return Outcome(found.joined, fresh, found.evaluation, joining.policy, unused, surplus)


def evaluate_report(report: Report, rules: RuleSet, policy: Policy, watch: Watch | None = None) -> Outcome:
    """The outcome of a node from a report alone; `watch` is called with the result of each rule."""
    joining = Joining(policy)
    return evaluate_node(Node.bare(report.node), report, rules, (), joining, evaluate=at_once(rules, joining, watch))


def at_once(rules: RuleSet, joining: Joining, watch: Watch | None = None) -> Evaluate:
    """Evaluate without a cache; `watch` is called with the result of each rule."""

    def evaluate(report: Report, objects: Sequence[FeatureObject], _tentative: bool) -> Evaluated:
        joined = join_objects(report, objects, joining)
        steps = evaluation_steps(rules.rules, rules.groups, joined.features, joining.policy, watch=watch)
        return Evaluated(joined, exhaust(steps))

    return evaluate


def _report_of_object(
    node: Node, objects: Sequence[FeatureObject], joining: Joining, known: Known
) -> tuple[Report | None, str]:
    """The report in the object of NFD's own worker, or the reason why it is not used.

    The object is not used if the node's worker is known to report to this master. Where that is likely, it is used once
    it changes.
    """
    one = next((one for one in objects if joining.is_workers(one)), None)
    if one is None:
        return None, ""
    before = known.before
    if before is None or before.features is not one.features or before.labels is not one.labels:
        owned = parse_owned(node.annotations, known.instance, node.uid, known.proof)
        if owned.boot_id:
            return None, REPORTED_BEFORE
        if owned.hint and not one.kept and (one.namespace, one.name) not in known.changing:
            return None, AWAITED
    return report_of(one), ""


def _speak_alone(
    node: Node, objects: Sequence[FeatureObject], joining: Joining, known: Known, evaluate: Evaluate
) -> bool:
    """Whether objects of third parties are all that is known of the node."""
    if not known.lists.objects_synced:
        return False
    owned = parse_owned(node.annotations, known.instance, node.uid, known.proof)
    return speak_alone(objects, owned) or bool(
        owned.doubt and objects and known.lists.rules_synced and _is_explained(node, objects, joining, evaluate)
    )


def _is_explained(node: Node, objects: Sequence[FeatureObject], joining: Joining, evaluate: Evaluate) -> bool:
    """Whether these objects and the rules explain every managed key of the Node, so that it never had a worker."""
    found = evaluate(Report(node.name), objects, True)
    evaluation = found.evaluation
    if not (evaluation.complete and found.current):
        return False
    desired = derive_desired(found.joined, joining.policy, evaluation.contributions, evaluation.matched)
    return not any(plan_node(Goal(desired, policy=joining.policy), node).changes.values())
