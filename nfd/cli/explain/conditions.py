"""The conditions of nfd on a Node, and those that its master would set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nfd import names
from nfd.cli.namespace_selector import read_objects
from nfd.kube.client import KubeClient
from nfd.kube.list_pages import list_if_known, whole
from nfd.kube.paths import RULES
from nfd.master.http.reports_api import MasterState
from nfd.master.node.condition_rejections import CONDITION
from nfd.master.node.conditions import derive_conditions, find_unknown, no_conditions
from nfd.master.node.outcome import Known, evaluate_node
from nfd.master.node.proof import ASSUMED
from nfd.master.node.undecided import find_undecided
from nfd.master.rules.ruleset import bind, compile_object
from nfd.report import Report
from nfd.store.base import Condition, Node

Wanted = Mapping[str, Condition | None]
"""The conditions that a master would set now, None for one that it would remove. Others stay as they are."""
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ShownCondition:
    """A condition by type: what the Node has, None if it has none, since when, and what the master would do and why."""

    type: str
    present: Condition | None
    since: str
    verdict: str

    def lines(self) -> Iterator[str]:
        if self.present is None:
            yield f"{self.type} is missing: {self.verdict}"
            return
        one, since = self.present, f" since {self.since}" if self.since else ""
        yield f"{self.type} is {one.status}{since}: {one.reason}: {one.message}"
        if self.verdict:
            yield f"  {self.verdict}"

    def to_json(self) -> dict[str, Any]:
        present = asdict(self.present) if self.present is not None else {"status": None}
        return {"type": self.type, **present, "since": self.since or None, "why": self.verdict or None}


def explain_conditions(node: Json, wanted: Wanted | None, why: str) -> Iterator[ShownCondition]:
    """Those on the Node and those that are missing. `wanted` is None without a master; `why` is why it sets none."""
    found = dict(_present(node))
    for name in sorted({*found, *(wanted or {})}):
        present, since = found.get(name, (None, ""))
        if wanted is None or (present is None and wanted.get(name) is None):
            verdict = ""
        elif name not in wanted:
            verdict = why or "the master leaves it as it is, because what it depends on is not known"
        else:
            verdict = _verdict(present, wanted[name], why)
        if present is not None or verdict:
            yield ShownCondition(name, present, since, verdict)


def _verdict(present: Condition | None, wanted: Condition | None, why: str) -> str:
    if wanted is None:
        return f"the master removes it with the next change{f': {why}' if why else ': the Node has no accelerator'}"
    if present == wanted:
        return "this is what the master sets"
    return f"the master would set {wanted.status}: {wanted.reason}: {wanted.message}{f'; {why}' if why else ''}"


def _present(node: Json) -> Iterator[tuple[str, tuple[Condition, str]]]:
    for one in (node.get("status") or {}).get("conditions") or ():
        name = str(one.get("type"))
        if names.is_below(names.namespace_of(name), names.NFD_NS):
            text = [str(one.get(part) or "") for part in ("status", "reason", "message")]
            yield name, (Condition(*text), str(one.get("lastTransitionTime") or ""))


async def derive_by_master(
    client: KubeClient, node: Node, report: Report | None, state: MasterState
) -> tuple[Wanted, str]:
    """What the master would set, and why it does not. Raises: KubeError."""
    if not state.node_conditions:
        said = "is too old to tell" if state.node_conditions is None else "sets no node conditions"
        wanted = no_conditions(node, state.instance) if state.node_conditions is False else {}
        return wanted, f"the master {said} (--node-conditions)"
    for one in state.unwritten:
        if one.kind == CONDITION and node.name in one.nodes:
            why = f"{one.by} rejects it: {one.reason}"
            break
    else:
        why = "" if state.publish else "the master writes to no Node, because of noPublish"
    if unknown := find_unknown(node, state.instance, silent=node.name in state.silent):
        return unknown, why
    if report is None or node.name in state.silent:
        return {}, why or "the master has no recent report of the Node's worker"
    selected = await read_objects(client, state, node.name)
    rules = bind([compile_object(item, state.policy) for item in await list_if_known(client, RULES, whole)], ())
    known = Known(selected.lists(node.name), state.instance)
    outcome = evaluate_node(node, report, rules, selected.objects, state.joining, known)
    desired = outcome.derive_desired()
    undecided = find_undecided(desired, outcome.fresh, node, state.instance, ASSUMED)
    found = derive_conditions(node, report, desired, undecided, state.instance)
    if not found:
        return {}, why or "the latest report names no boot, or another one than the Node's"
    return found, why
