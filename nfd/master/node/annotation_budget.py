"""The annotation budget of a Node: the API server allows 256 KiB for keys and values of all annotations together.

The lists of managed keys are annotations, so thousands of labels do not fit. Then the Node gets all but the surplus:
new keys of the origin that asks for most, in reverse order. Keys that the Node already has stay. (Kubernetes API
machinery, `TotalAnnotationSizeLimitB`.) If other writers have filled the Node so far that the budget leaves little to
nfd, the few KiB that a usual Node needs come from the part that is kept free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nfd.master.node.desired import Desired
from nfd.master.node.ownership import Origin, bookkeeping, implied_origin, listed_name
from nfd.master.node.plan import Goal, NodePlan, plan_node
from nfd.rules.policy import Dropped
from nfd.store.base import Kind, Node, size

LIMIT = 256 * 1024
"""Bytes that the API server allows for all annotations."""
BUDGET = 224 * 1024
"""Bytes for all annotations; the rest is kept free for annotations that others add."""
USUAL = 16 * 1024
"""Bytes of nfd's own annotations that may exceed the budget, if the API server allows them."""
ROUNDS = 8
FULL = f"the annotations of the Node are full: {BUDGET // 1024} KiB or more are in use"

Key = tuple[Kind, str]


def fitting_plan(goal: Goal, node: Node) -> tuple[NodePlan, Goal]:
    """The plan for all that fits on the Node, and the goal without the rest."""
    planned = plan_node(goal, node)
    for number in range(1, ROUNDS + 1):
        if (excess := _excess(planned)) <= 0:
            break
        surplus = _surplus(planned, goal.desired, excess, last=number == ROUNDS)
        if not surplus:
            break
        goal = replace(goal, desired=_without(goal.desired, surplus))
        planned = plan_node(goal, node)
    return planned, goal


def _excess(planned: NodePlan) -> int:
    """By how many bytes the annotations are too long after the plan. A plan that writes none is not counted."""
    if not (planned.records or planned.changes[Kind.ANNOTATIONS].write):
        return 0
    every, others = _sizes(planned)
    return every - min(LIMIT, max(BUDGET, others + USUAL))


def annotated(planned: NodePlan) -> int:
    """Bytes of all annotations that the Node has after the plan."""
    return _sizes(planned)[0]


def _sizes(planned: NodePlan) -> tuple[int, int]:
    """Bytes of the annotations after the plan: of all, and of other writers."""
    change = planned.changes[Kind.ANNOTATIONS]
    after = {**planned.node.annotations, **change.write, **planned.records}
    after = {key: after[key] for key in after.keys() - change.remove - planned.forgotten}
    own = bookkeeping(planned.goal.instance) | planned.owned.of(Kind.ANNOTATIONS).keys()
    others = planned.node.cut + _bytes({key: text for key, text in after.items() if key not in own})
    return others + _bytes({key: text for key, text in after.items() if key in own}), others


def _bytes(values: Mapping[str, str]) -> int:
    return size(values) + size(values.values())


def _surplus(planned: NodePlan, desired: Desired, excess: int, *, last: bool) -> list[Key]:
    """Keys to leave out, of the origin whose new keys need the most bytes. In the last round they are of all origins,
    and enough for sure."""
    asked: dict[Origin, dict[Key, int]] = {}
    for kind, change in planned.changes.items():
        for key in change.write.keys() - planned.node.actual(kind).keys():
            origin = desired.origin(kind, key)
            asked.setdefault(None if last else origin, {})[kind, key] = _needs(desired, kind, key, surely=last)
    if not asked:
        return []
    most = max(asked.values(), key=lambda keys: sum(keys.values()))
    surplus: list[Key] = []
    for one in sorted(most, key=lambda one: one[1], reverse=True):
        if excess <= 0:
            break
        surplus.append(one)
        excess -= most[one]
    return surplus


def _needs(desired: Desired, kind: Kind, key: str, *, surely: bool) -> int:
    """About how many bytes of annotations a key needs, or at least how many. It is in the list of its kind and, unless
    its name implies the origin, in that of its origin; there, one entry can stand for several keys."""
    lists = 1 if surely or desired.origin(kind, key) == implied_origin(key) else 2
    text = size((key, desired.of(kind)[key])) if kind is Kind.ANNOTATIONS else 0
    return lists * (len(listed_name(key)) + 1) + text


def _without(desired: Desired, surplus: Iterable[Key]) -> Desired:
    left_out = set(surplus)
    values = {
        kind: {key: value for key, value in found.items() if (kind, key) not in left_out}
        for kind, found in desired.values.items()
    }
    dropped = (Dropped(kind.one, key, FULL) for kind, key in sorted(left_out, key=lambda one: one[1]))
    return replace(desired, values=values, dropped=(*desired.dropped, *dropped))
