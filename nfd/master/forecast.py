"""What a pass would do to a Node, and the Node after it: the reconciler's own steps, without a store (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nfd.master.desired import UNREPORTED, Desired, Freshness, derive_desired, derive_freshness, find_overwrites
from nfd.master.evaluation import LIMITS, Limits, evaluate_node
from nfd.master.objects import FeatureObject, Joining, join_objects, report_of, speak_alone
from nfd.master.ownership import Owned, parse_owned
from nfd.master.plan import Goal, NodePlan
from nfd.master.proof import ASSUMED
from nfd.master.reveal import Standing
from nfd.master.room import fitting_plan
from nfd.master.verdicts import Rulebook
from nfd.report import Report
from nfd.rules.overwritten import Overwrite
from nfd.store.base import Kind, Node


@dataclass(frozen=True, slots=True)
class Situation:
    """A Node, what its worker said (None: nothing yet), and the NodeFeature objects for it that the master goes by."""

    node: Node
    report: Report | None = None
    objects: Sequence[FeatureObject] = ()


@dataclass(frozen=True, slots=True)
class Forecast:
    """`desired` tells what was asked for and is not allowed, `failed` which rules could not be evaluated, and why.

    `overwrites` are keys that a rule sets over the value of another one, or of a source.
    """

    planned: NodePlan
    desired: Desired
    failed: Mapping[str, str] = field(default_factory=dict)
    overwrites: Sequence[Overwrite] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What speaks for a node: `report` is its worker's, None if there is none; `joined` has that of objects as well.

    Where objects are `alone` in speaking for it, the report is empty.
    """

    report: Report | None
    joined: Report
    alone: bool = False


def join_situation(situation: Situation, standing: Standing) -> Known:
    """The report as a master that has all objects judges it."""
    joining = Joining(standing.policy, standing.namespace, standing.deny_labels)
    node, report = situation.node, situation.report or _objects_report(situation, joining, standing.instance)
    others = tuple(one for one in situation.objects if not joining.is_workers(one))
    alone = report is None and speak_alone(others, _owned(node, standing.instance))
    if alone:
        report = Report(node.name)
    return Known(report, join_objects(report or Report(node.name), others, joining), alone)


def forecast(situation: Situation, book: Rulebook, standing: Standing, limits: Limits = LIMITS) -> Forecast:
    """One pass, by a master that has all rules and objects."""
    node, known = situation.node, join_situation(situation, standing)
    failed: dict[str, str] = {}
    overwrites: list[Overwrite] = []
    if known.report is None:
        desired = derive_desired(known.joined, standing.policy)
        fresh = UNREPORTED
    else:
        joined = known.joined
        found = evaluate_node(book.rules, joined.features, standing.policy, limits)
        desired = derive_desired(joined, standing.policy, found.contributions, found.matched)
        overwrites = find_overwrites(joined, standing.policy, found.contributions)
        failed = {book.rules[at].origin: texts[0] for at, texts in found.failed().items()}
        fresh = derive_freshness(known.report)
        blind = fresh.blind or not found.complete
        fresh = replace(fresh, blind=blind, alone=known.alone, lost=found.unsure | book.relying_on(fresh.failed))
    planned, goal = fitting_plan(_goal(desired, fresh, book, standing), node)
    if not standing.publish:
        planned = _unwritten(planned)
    return Forecast(planned, goal.desired, failed, overwrites)


def _goal(desired: Desired, fresh: Freshness, book: Rulebook, standing: Standing) -> Goal:
    fresh = replace(fresh, rules=book.origins)
    return Goal(desired, fresh, standing.overwrite, standing.instance, policy=standing.policy, proof=ASSUMED)


def _unwritten(planned: NodePlan) -> NodePlan:
    """The plan of a master that writes nothing: what is refused is still told."""
    changes = {kind: replace(change, write={}, remove=frozenset()) for kind, change in planned.changes.items()}
    return replace(planned, changes=changes, records={}, forgotten=frozenset())


def _objects_report(situation: Situation, joining: Joining, instance: str) -> Report | None:
    """What NFD's own worker left in an object, unless the node is known to have a worker of ours."""
    if _owned(situation.node, instance).boot_id:
        return None
    return next((report_of(one) for one in situation.objects if joining.is_workers(one)), None)


def _owned(node: Node, instance: str) -> Owned:
    """The bookkeeping as a master takes it that has written it; we have no key to prove that."""
    return parse_owned(node.annotations, instance, node.uid, ASSUMED)


def after(planned: NodePlan) -> Node:
    """The Node that a plan makes of it."""
    node = planned.node
    values = {kind: dict(node.actual(kind)) for kind in Kind}
    for kind, change in planned.changes.items():
        values[kind] |= change.write
        for key in change.remove:
            values[kind].pop(key, None)
    annotations = values[Kind.ANNOTATIONS] | dict(planned.records)
    taints = ((*key.rpartition(":")[::2], value) for key, value in values[Kind.TAINTS].items())
    return replace(
        node,
        labels=values[Kind.LABELS],
        annotations={key: text for key, text in annotations.items() if key not in planned.forgotten},
        resources=values[Kind.RESOURCES],
        taints=tuple({"key": key, "effect": effect, "value": value} for key, effect, value in taints),
    )
