"""Whether an inherited report is still the latest, as far as the Node tells (pure).

A report from another master or from a file may be older than the last report that the previous leader acted on. Then a
key of a feature source on the Node differs from it, or the record on the Node names a later report.
"""

from __future__ import annotations

from nfd.master.node.desired import OBJECT_ORIGIN, RULE_ORIGIN
from nfd.master.node.ownership import Origin
from nfd.master.node.plan import Goal, listed_and_managed, plan_kind
from nfd.report_order import Order
from nfd.store.base import Kind, Node


def is_carried(node: Node, goal: Goal, order: Order | None) -> bool:
    """Whether the Node carries exactly what that report gives. `goal` is made of the report alone, without rules.

    Keys that a rule or an object has set do not count. The record on the Node must be proven and of the same boot.
    """
    listed, managed = listed_and_managed(goal, node)
    if order is None or listed.boot_id != order.boot_id or node.boot_id not in ("", order.boot_id):
        return False
    if listed.at is not None and listed.at > (order.started, order.sequence):
        return False
    changes = {kind: plan_kind(kind, goal, managed, node) for kind in Kind}
    return all(
        _is_from_cluster(listed.of(kind).get(key))
        for kind, change in changes.items()
        for key in (*change.write, *change.remove)
    )


def _is_from_cluster(origin: Origin) -> bool:
    """Whether a rule or an object set the key."""
    return origin is not None and origin.startswith((RULE_ORIGIN, OBJECT_ORIGIN))
