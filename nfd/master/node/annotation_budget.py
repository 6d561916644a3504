"""The annotation budget of a Node: the API server allows 256 KiB for keys and values of all annotations together.

The lists of managed keys are annotations, so thousands of labels do not fit. Then the Node gets all but the surplus:
new keys of the origin that asks for most, in reverse order. Keys that the Node already has stay. (Kubernetes API
machinery, `TotalAnnotationSizeLimitB`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nfd.master.node.desired import Desired
from nfd.master.node.ownership import Origin
from nfd.master.node.plan import Goal, NodePlan, plan_node
from nfd.rules.policy import Dropped
from nfd.store.base import Kind, Node

BUDGET = 224 * 1024
"""Bytes for all annotations; the rest of the 256 KiB is kept free for annotations that others add."""
UNCHECKED = 64 * 1024
"""If the bookkeeping annotations have no more bytes than that, nothing is counted."""
ROUNDS = 8
FULL = f"the annotations of the Node are full: {BUDGET // 1024} KiB are in use"

Key = tuple[Kind, str]


def fitting_plan(goal: Goal, node: Node) -> tuple[NodePlan, Goal]:
    """The plan for all that fits on the Node, and the goal without the rest."""
    planned = plan_node(goal, node)
    for _ in range(ROUNDS):
        if _bytes(planned.records) <= UNCHECKED or (excess := annotated(planned) - BUDGET) <= 0:
            break
        surplus = _surplus(planned, goal.desired, excess)
        if not surplus:
            break
        goal = replace(goal, desired=_without(goal.desired, surplus))
        planned = plan_node(goal, node)
    return planned, goal


def annotated(planned: NodePlan) -> int:
    """Bytes of all annotations that the Node has after the plan."""
    change = planned.changes[Kind.ANNOTATIONS]
    after = {**planned.node.annotations, **change.write, **planned.records}
    return _bytes({key: after[key] for key in after.keys() - change.remove - planned.forgotten})


def _bytes(values: Mapping[str, str]) -> int:
    return sum(len(key.encode(errors="replace")) + len(value.encode(errors="replace")) for key, value in values.items())


def _surplus(planned: NodePlan, desired: Desired, excess: int) -> list[Key]:
    """Keys to leave out, of the origin whose new keys have the most letters. Each key is in at least two lists."""
    asked: dict[Origin, list[Key]] = {}
    for kind, change in planned.changes.items():
        for key in change.write.keys() - planned.node.actual(kind).keys():
            asked.setdefault(desired.origin(kind, key), []).append((kind, key))
    if not asked:
        return []
    most = max(asked.values(), key=lambda keys: sum(len(key) for _, key in keys))
    surplus: list[Key] = []
    for kind, key in sorted(most, key=lambda one: one[1], reverse=True):
        if excess <= 0:
            break
        surplus.append((kind, key))
        excess -= len(key) + (len(desired.of(kind)[key]) if kind is Kind.ANNOTATIONS else 0)
    return surplus


def _without(desired: Desired, surplus: Iterable[Key]) -> Desired:
    left_out = set(surplus)
    values = {
        kind: {key: value for key, value in found.items() if (kind, key) not in left_out}
        for kind, found in desired.values.items()
    }
    dropped = (Dropped(kind.one, key, FULL) for kind, key in sorted(left_out, key=lambda one: one[1]))
    return replace(desired, values=values, dropped=(*desired.dropped, *dropped))
