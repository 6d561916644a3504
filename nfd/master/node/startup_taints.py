"""Startup taints: a node pool gives them to its Nodes, and the master removes them once a Node is labelled.

Each is removed once from a Node. An annotation of the Node lists them with the Node's UID, so one that is set again
later stays. The master never adds one, and it changes no other taint.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from nfd import names
from nfd.errors import Invalid
from nfd.master.http.metrics import Metrics
from nfd.master.node.outcome import Outcome
from nfd.master.node.ownership import annotation
from nfd.master.node.patch import guarded
from nfd.master.node.writer import observed
from nfd.report import Report, State
from nfd.rules.policy import EFFECTS, taint_text, text_of_taint
from nfd.runtime import log
from nfd.store.base import Kind, Node, NodeStore, Patch, taint_id

REMOVED = "startup-taints-removed"
"""The annotation that lists the removed ones: JSON with `uid`, of the Node, and `taints`."""
NAMESPACES = ("readiness.k8s.io", "startup-taint.cluster-autoscaler.kubernetes.io")
"""Namespaces of Kubernetes that node-readiness-controller and cluster-autoscaler reserve for such taints."""
OWN_NAMESPACES = (names.NFD_NS, names.FEATURE_NS, names.PROFILE_NS)
RETRY = 300.0
"""Seconds until a removal that the API server has rejected is tried again."""
NO_REPORT = "its worker has not reported since this master leads"
UNLABELLED = "its labels are not written"
UNPUBLISHED = "the master writes to no Node, because of noPublish"
NO_BOOT = "its worker is one of NFD, whose reports name no boot id and may be of an earlier boot"

_log = log.get("master")


def parse_startup_taint(text: str) -> str:
    """`KEY=VALUE:EFFECT` or `KEY:EFFECT`, as `taint_text` writes it. Raises: ValueError."""
    rest, _, effect = text.strip().rpartition(":")
    key, _, value = rest.partition("=")
    if effect not in EFFECTS or not key:
        raise ValueError(f"{text!r} must be KEY=VALUE:EFFECT or KEY:EFFECT, with an effect of {', '.join(EFFECTS)}")
    if problem := names.key_problem(key):
        raise ValueError(f"{text!r}: key {problem}")
    if problem := names.value_problem(value):
        raise ValueError(f"{text!r}: value {problem}")
    if _belongs_to_kubernetes(names.namespace_of(key)):
        allowed = f"{', '.join(f'{one}/' for one in NAMESPACES)} and those of nfd"
        raise ValueError(f"{text!r}: keys below kubernetes.io and k8s.io are not allowed, except {allowed}")
    return taint_text(key, value, effect)


def _belongs_to_kubernetes(namespace: str) -> bool:
    if namespace in NAMESPACES or any(names.is_below(namespace, one) for one in OWN_NAMESPACES):
        return False
    return names.is_below(namespace, "kubernetes.io") or names.is_below(namespace, "k8s.io")


def find_startup_taints(node: Node, configured: AbstractSet[str], instance: str) -> list[str]:
    """Those on the Node that were not removed from it before."""
    present = [text for taint in node.taints if (text := text_of_taint(taint)) in configured]
    if not present:
        return []
    removed = removed_before(node, instance)
    return [text for text in present if text not in removed]


def removed_before(node: Node, instance: str) -> list[str]:
    """The startup taints that the annotation lists for this Node."""
    try:
        record = json.loads(node.annotations.get(annotation(REMOVED, instance), "{}"))
    except (ValueError, RecursionError):
        return []
    if not isinstance(record, Mapping) or record.get("uid") != node.uid or not isinstance(record.get("taints"), list):
        return []
    return [text for text in record["taints"] if isinstance(text, str)]


def reason_to_keep(node: Node, report: Report | None, asked: Outcome) -> str:
    """Why a Node whose labels are written keeps its startup taints; "" if they are to be removed."""
    fresh = asked.fresh
    if report is None:
        return asked.unused or (NO_BOOT if fresh.reported else NO_REPORT)
    if report.order is None:
        return NO_BOOT
    if not node.boot_id:
        return "the kubelet has not reported a boot id"
    if report.order.boot_id != node.boot_id:
        return f"the latest report is of boot {report.order.boot_id}, and the Node is in boot {node.boot_id}"
    if not fresh.reported or not report.sources:
        return NO_REPORT
    if failed := sorted(name for name, source in report.sources.items() if source.state is State.FAILED):
        errors = "; ".join(f"{name}: {report.sources[name].error or 'failed'}" for name in failed)
        return f"feature sources failed: {errors}"
    if not fresh.settled:
        return "the lists of NodeFeatureRules and NodeFeatures are not complete yet"
    if not fresh.evaluated:
        return "the rules are not evaluated on the latest report yet"
    return ""


def removal(node: Node, taints: Collection[str], instance: str) -> Patch:
    """The patch that removes these startup taints and notes it. A merge patch replaces the whole list of taints."""
    kept = [dict(taint) for taint in node.taints if text_of_taint(taint) not in taints]
    record = {"taints": sorted({*taints, *removed_before(node, instance)}), "uid": node.uid}
    note = {annotation(REMOVED, instance): json.dumps(record, separators=(",", ":"))}
    body: dict[str, Any] = {"metadata": {"annotations": note}, "spec": {"taints": kept or None}}
    return guarded(Patch(body), node)


class StartupTaints:
    """Removes startup taints. `configured` are their texts; `kept` is why Nodes keep them, by name."""

    def __init__(self, store: NodeStore, metrics: Metrics, configured: AbstractSet[str], instance: str) -> None:
        self.configured = configured
        self.kept: dict[str, str] = {}
        self._store = store
        self._metrics = metrics
        self._instance = instance
        self._retry_at: dict[str, float] = {}

    def forget(self, name: str) -> None:
        """Forget a deleted node."""
        self.kept.pop(name, None)
        self._retry_at.pop(name, None)

    def on(self, node: Node) -> list[str]:
        """The startup taints of the Node that are to be removed from it once it is labelled."""
        return find_startup_taints(node, self.configured, self._instance) if self.configured else []

    async def release(self, name: str, report: Report | None, asked: Outcome, now: float) -> float | None:
        """Remove the startup taints of a Node whose labels are written, unless there is a reason to keep them.

        Returns after how many seconds the node needs another pass. Raises: KubeError.
        """
        node = self._store.get(name) if self.configured else None
        if node is None or not (found := self.on(node)):
            self.forget(name)
            return None
        wanted = asked.derive_desired().of(Kind.TAINTS)
        asked_for = [
            text for taint in node.taints if (text := text_of_taint(taint)) in found and taint_id(taint) in wanted
        ]
        reason = reason_to_keep(node, report, asked)
        if asked_for and not reason:
            reason = f"a rule sets {', '.join(asked_for)}"
        if reason:
            self.kept[name] = reason
            return None
        if (wait := self._retry_at.get(name, now) - now) > 0:
            return wait
        try:
            with observed(self._metrics):
                await self._store.patch(name, removal(node, found, self._instance))
        except Invalid as error:
            if name not in self._retry_at:
                _log.error("the API server rejects the removal of startup taints", node=name, error=error)
            self.kept[name] = f"{error.by or 'the API server'} rejects their removal: {error}"
            self._retry_at[name] = now + RETRY
            return RETRY
        self.forget(name)
        self._metrics.add("startup_taints_removed", len(found))
        _log.info("startup taints removed", node=name, taints=found)
        return None
