"""One pass over one node: what it should carry, and why, from report, rules, objects and policy (pure).

`evaluate_node` is the way in, for the master and for every command that says what a master would do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from nfd.master.node.desired import (
    ALL_FRESH,
    RULE,
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
    REPORTED,
    SPOKEN,
    WAITED,
    FeatureObject,
    Joining,
    join_objects,
    report_of,
    speak_alone,
)
from nfd.master.rules.ruleset import PlacedRule, RuleSet, exhaust
from nfd.report import Report
from nfd.rules.evaluate import Watch
from nfd.rules.keys import Overwrite
from nfd.rules.policy import Policy
from nfd.rules.terms import MATCHED
from nfd.store.base import Node

GIVEN = MATCHED.partition(".")[0]
"""Stands among sources for rules: what a reference to `rule.matched` does not find, one that failed may have given."""
NO_RULES = RuleSet()
"""Says nothing of which rules there are: keys that a rule gave before are held as if it still existed."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A report with the objects that join it, and what rules make of both.

    It is not `current` where a cache has nothing but what earlier rules, or a report before, gave.
    """

    joined: Report
    evaluation: Evaluation
    current: bool = True


Evaluate = Callable[[Report, Sequence[FeatureObject], bool], Evaluated]
"""Joins objects to a report and runs the rules; the last argument tells that the node is not known to be as it says."""


@dataclass(frozen=True, slots=True)
class Known:
    """What else is known, of the cluster and of the node.

    `lists` tells which lists of rules and objects are complete, which of them exist but are invalid, and, by `blind`,
    whether an invalid object is for this node. `instance` and `proof` tell which bookkeeping on the Node is ours.
    `changing` are objects, by namespace and name, that have changed since they were first listed; `before` is the
    report that the node was evaluated on last time.
    """

    lists: Freshness = ALL_FRESH
    instance: str = ""
    proof: Proof = ASSUMED
    changing: AbstractSet[tuple[str, str]] = frozenset()
    before: Report | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a Node should carry, and why.

    `report` has the objects joined, and is empty where nobody speaks for the node. `fresh` tells what the absence of a
    key is worth. `unused` is why the object of NFD's own worker, if there is one, is not taken for the report.
    Report and contributions are the same values as before for as long as nothing changed.
    """

    report: Report
    fresh: Freshness
    evaluation: Evaluation
    policy: Policy
    unused: str = ""

    def derive_desired(self) -> Desired:
        """Keys and values, where each key comes from, and what was refused and why."""
        return derive_desired(self.report, self.policy, self.evaluation.contributions, self.evaluation.matched)

    def failed(self, rules: RuleSet) -> list[tuple[PlacedRule, str]]:
        """Which of the rules that were evaluated failed, and why."""
        return [(rules.rules[index], texts[0]) for index, texts in self.evaluation.failed().items()]

    def overwrites(self, *, with_vars: bool = False) -> list[Overwrite]:
        """Keys that a rule sets over the value of another one, or of the report."""
        return find_overwrites(self.report, self.policy, self.evaluation.contributions, with_vars=with_vars)


def evaluate_node(
    node: Node,
    report: Report | None,
    rules: RuleSet,
    objects: Sequence[FeatureObject],
    joining: Joining,
    known: Known = Known(),  # frozen
    evaluate: Evaluate | None = None,
) -> Outcome:
    """What the Node should carry, where each key comes from, what was refused and why.

    `report` is its worker's, None while none has come. `objects` are those for the node that the namespace selector
    lets through. `evaluate` has the outcome of rules from elsewhere, such as a cache.
    """
    evaluate = evaluate or at_once(rules, joining)
    others = tuple(one for one in objects if not joining.is_workers(one))
    report, unused = _choose_report(node, report, objects, joining, known)
    alone = report is None and _speak_alone(node, others, joining, known, evaluate)
    if alone:
        report = Report(node.name)
    lists, existing = known.lists, None if rules is NO_RULES else rules.origins
    if report is None:
        joined = join_objects(Report(node.name), others, joining)
        fresh = replace(lists, rules=existing, sources={}, blind=True, reported=False)
        return Outcome(joined, fresh, Evaluation(), joining.policy, unused)
    found, fresh = evaluate(report, others, False), derive_freshness(report)
    blind = fresh.blind or lists.blind or not (found.evaluation.complete and found.current)
    lost, unknown = lists.lost, any(one.startswith(RULE) for one in lists.lost)
    unsure = found.evaluation.unsure | rules.relying_on(fresh.failed, unknown)
    if sources := fresh.failed | {GIVEN} if unsure or unknown else fresh.failed:
        lost = lost | unsure | found.evaluation.missing(sources) | _referring(found.joined, sources)
    fresh = replace(lists, rules=existing, sources=fresh.sources, blind=blind, alone=alone, lost=lost)
    return Outcome(found.joined, fresh, found.evaluation, joining.policy, unused)


def evaluate_report(report: Report, rules: RuleSet, policy: Policy, watch: Watch | None = None) -> Outcome:
    """The outcome of a node of which there is a report and nothing else; `watch` sees the result of each rule."""
    joining = Joining(policy)
    return evaluate_node(Node.bare(report.node), report, rules, (), joining, evaluate=at_once(rules, joining, watch))


def _referring(report: Report, sources: AbstractSet[str]) -> frozenset[str]:
    """Origins of the labels, of objects, that refer to features of one of these sources."""
    texts = ((key, text) for key, text in report.labels.items() if text[:1] == "@" and key in report.origins)
    return frozenset(report.origins[key] for key, text in texts if text[1:].partition(".")[0] in sources)


def at_once(rules: RuleSet, joining: Joining, watch: Watch | None = None) -> Evaluate:
    """Evaluates without a cache; `watch` sees the result of each rule."""

    def evaluate(report: Report, objects: Sequence[FeatureObject], _tentative: bool) -> Evaluated:
        joined = join_objects(report, objects, joining)
        steps = evaluation_steps(rules.rules, rules.groups, joined.features, joining.policy, watch=watch)
        return Evaluated(joined, exhaust(steps))

    return evaluate


def _choose_report(
    node: Node, report: Report | None, objects: Sequence[FeatureObject], joining: Joining, known: Known
) -> tuple[Report | None, str]:
    """The report of our worker, else what NFD's own worker left in an object, or why that is not taken.

    It is not for a node whose worker is known to report to us. Where that is likely, the object has to change first.
    """
    if report is not None:
        return report, REPORTED
    one = next((one for one in objects if joining.is_workers(one)), None)
    if one is None:
        return None, ""
    before = known.before
    if before is None or before.features is not one.features or before.labels is not one.labels:
        owned = parse_owned(node.annotations, known.instance, node.uid, known.proof)
        if owned.boot_id:
            return None, SPOKEN
        if owned.hint and not one.kept and (one.namespace, one.name) not in known.changing:
            return None, WAITED
    return report_of(one), ""


def _speak_alone(
    node: Node, objects: Sequence[FeatureObject], joining: Joining, known: Known, evaluate: Evaluate
) -> bool:
    """Whether objects of third parties are all that speaks for the node."""
    if not known.lists.objects_synced:
        return False
    owned = parse_owned(node.annotations, known.instance, node.uid, known.proof)
    return speak_alone(objects, owned) or bool(
        owned.doubt and objects and known.lists.rules_synced and _is_explained(node, objects, joining, evaluate)
    )


def _is_explained(node: Node, objects: Sequence[FeatureObject], joining: Joining, evaluate: Evaluate) -> bool:
    """Whether the Node is just what these objects and the rules make of it, so that no worker had a part in it."""
    found = evaluate(Report(node.name), objects, True)
    evaluation = found.evaluation
    if not (evaluation.complete and found.current):
        return False
    desired = derive_desired(found.joined, joining.policy, evaluation.contributions, evaluation.matched)
    return not any(plan_node(Goal(desired, policy=joining.policy), node).changes.values())
