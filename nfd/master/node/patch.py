"""A plan → JSON merge patches, each with the Node's uid and resourceVersion as a precondition.

One patch changes the Node completely or not at all. Extended resources and conditions are in the status subresource,
which also accepts labels and annotations, but no taints: a plan that changes both needs a second patch. After the first
one the record of taints has the old and new ones, so that every managed taint is recorded at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nfd.master.node.ownership import LISTS, ORIGINS, annotation, render_owned
from nfd.master.node.plan import Change, NodePlan
from nfd.store.base import Condition, Kind, Node, Patch, taint_id


def patches(planned: NodePlan) -> list[Patch]:
    """The patches to send, in order; the sender renews the precondition of the second (`guarded`)."""
    resources, taints = planned.changes[Kind.RESOURCES], planned.changes[Kind.TAINTS]
    if not planned:
        return []
    if not resources and not planned.conditions:
        body = {"metadata": _metadata(planned, planned.records, planned.forgotten)} | _spec(planned.node, taints)
        return [Patch(body)]
    if not taints:
        body = {"metadata": _metadata(planned, planned.records, planned.forgotten), "status": _status(resources)}
        return [with_conditions(Patch(body, "status"), planned.node, planned.conditions, planned.goal.stamp)]
    instance = planned.goal.instance
    late = (annotation(LISTS[Kind.TAINTS], instance), annotation(ORIGINS, instance))
    first = _metadata(planned, _between(planned), planned.forgotten.difference(late))
    final = render_owned(planned.owned, instance, planned.node.uid, planned.goal.proof)
    second = {"metadata": {"annotations": {key: final.get(key) for key in late}}} | _spec(planned.node, taints)
    upper = Patch({"metadata": first, "status": _status(resources)}, "status")
    return [with_conditions(upper, planned.node, planned.conditions, planned.goal.stamp), Patch(second)]


def condition_patch(node: Node, conditions: Mapping[str, Condition | None], stamp: str) -> Patch:
    """A patch of conditions alone."""
    return guarded(with_conditions(Patch({}, "status"), node, conditions, stamp), node)


def with_conditions(patch: Patch, node: Node, conditions: Mapping[str, Condition | None], stamp: str) -> Patch:
    """The patch of the status with these conditions as well; None removes one."""
    if not conditions:
        return patch
    changes = [_condition(name, one, node.conditions.get(name), stamp) for name, one in sorted(conditions.items())]
    body = {**patch.body, "status": {**patch.body.get("status", {}), "conditions": changes}}
    return replace(patch, body=body, strategic=True)


def _condition(name: str, one: Condition | None, before: Condition | None, stamp: str) -> dict[str, str]:
    """A condition with the same status keeps its lastTransitionTime, as a strategic merge patch leaves it out."""
    if one is None:
        return {"type": name, "$patch": "delete"}
    found = {"type": name, "status": one.status, "reason": one.reason, "message": one.message}
    found["lastHeartbeatTime"] = stamp
    return found if before is not None and before.status == one.status else found | {"lastTransitionTime": stamp}


def guarded(patch: Patch, node: Node) -> Patch:
    """The patch with the uid and resourceVersion of this Node."""
    return replace(patch, body={**patch.body, "metadata": {**patch.body.get("metadata", {}), **_precondition(node)}})


def _precondition(node: Node) -> dict[str, str]:
    """The Node's uid and resourceVersion, so that a patch applies to no other version."""
    return {"resourceVersion": node.version} | ({"uid": node.uid} if node.uid else {})


def _metadata(planned: NodePlan, records: Mapping[str, str], forgotten: frozenset[str]) -> dict[str, Any]:
    labels, noted = planned.changes[Kind.LABELS], planned.changes[Kind.ANNOTATIONS]
    found: dict[str, Any] = {
        "labels": {**labels.write, **dict.fromkeys(labels.remove)},
        "annotations": {**noted.write, **dict.fromkeys(noted.remove), **records, **dict.fromkeys(forgotten)},
    }
    return {name: values for name, values in found.items() if values} | _precondition(planned.node)


def _status(change: Change) -> dict[str, Any]:
    amounts = {**change.write, **dict.fromkeys(change.remove)}
    if not amounts:
        return {}
    return {"capacity": amounts, "allocatable": amounts}


def _spec(node: Node, change: Change) -> dict[str, Any]:
    """A merge patch replaces the whole list of taints, so it includes those of other managers."""
    if not change:
        return {}
    changed = change.write.keys() | change.remove
    kept = [dict(taint) for taint in node.taints if taint_id(taint) not in changed]
    written = [_taint(key, value) for key, value in sorted(change.write.items())]
    return {"spec": {"taints": kept + written or None}}


def _taint(key: str, value: str) -> dict[str, str]:
    name, _, effect = key.rpartition(":")
    return {"key": name, "effect": effect} | ({"value": value} if value else {})


def _between(planned: NodePlan) -> dict[str, str]:
    """The bookkeeping between the two patches: it lists the old and the new taints."""
    removed = dict.fromkeys(planned.changes[Kind.TAINTS].remove)
    keys = dict(planned.owned.keys) | {Kind.TAINTS: removed | dict(planned.owned.of(Kind.TAINTS))}
    owned = replace(planned.owned, keys=keys)
    wanted = render_owned(owned, planned.goal.instance, planned.node.uid, planned.goal.proof)
    return {key: text for key, text in wanted.items() if planned.node.annotations.get(key) != text}
