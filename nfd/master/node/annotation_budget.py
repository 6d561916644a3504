"""What a Node has room for: the API server takes 256 KiB of annotations, keys and values of all of them together.

Our lists of keys are annotations, so that thousands of labels do not fit. Then a Node goes without the surplus, and the
rest is written: what is new of whoever asks for most, the last keys first. What the Node has already is never given up.
(Kubernetes API machinery, `TotalAnnotationSizeLimitB`.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nfd.master.node.desired import Desired
from nfd.master.node.ownership import Origin
from nfd.master.node.plan import Goal, NodePlan, plan_node
from nfd.rules.policy import Dropped
from nfd.store.base import Kind, Node

ROOM = 224 * 1024
"""Letters; the rest is for annotations of others, which we know the beginnings of."""
LIGHT = 64 * 1024
"""Letters of our lists up to which nothing is counted."""
ROUNDS = 8
_REASON = f"the annotations of the node have no room for more: {ROOM // 1024} KiB list what it has already"

Key = tuple[Kind, str]


def fitting_plan(goal: Goal, node: Node) -> tuple[NodePlan, Goal]:
    """The plan for as much of what is desired as the Node has room for, and the goal without the rest."""
    planned = plan_node(goal, node)
    for _ in range(ROUNDS):
        if _letters(planned.records) <= LIGHT or (excess := annotated(planned) - ROOM) <= 0:
            break
        surplus = _surplus(planned, goal.desired, excess)
        if not surplus:
            break
        goal = replace(goal, desired=_without(goal.desired, surplus))
        planned = plan_node(goal, node)
    return planned, goal


def annotated(planned: NodePlan) -> int:
    """Letters of all annotations that the Node has after the plan."""
    change = planned.changes[Kind.ANNOTATIONS]
    after = {**planned.node.annotations, **change.write, **planned.records}
    return _letters({key: after[key] for key in after.keys() - change.remove - planned.forgotten})


def _letters(values: Mapping[str, str]) -> int:
    return sum(len(key.encode(errors="replace")) + len(value.encode(errors="replace")) for key, value in values.items())


def _surplus(planned: NodePlan, desired: Desired, excess: int) -> list[Key]:
    """Keys to go without, of the origin whose new ones have the most letters; each stands in two lists at least."""
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
    gone = set(surplus)
    values = {
        kind: {key: value for key, value in found.items() if (kind, key) not in gone}
        for kind, found in desired.values.items()
    }
    dropped = (Dropped(kind.one, key, _REASON) for kind, key in sorted(gone, key=lambda one: one[1]))
    return replace(desired, values=values, dropped=(*desired.dropped, *dropped))
