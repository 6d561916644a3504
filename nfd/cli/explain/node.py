"""`nfd explain NODE` without a label: its startup taints and its conditions of nfd, and why they are as they are."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nfd.cli.cluster import ask_cluster, read_node
from nfd.cli.explain.conditions import ShownCondition, derive_by_master, explain_conditions
from nfd.cli.master_reports import read_reports
from nfd.kube.client import KubeClient
from nfd.master.node.ownership import instances, parse_owned
from nfd.master.node.proof import ASSUMED
from nfd.master.node.startup_taints import removed_before
from nfd.rules.policy import text_of_taint
from nfd.store.base import Node, trim


@dataclass(frozen=True, slots=True)
class Explained:
    """`taints` are lines about taints that are there or were removed, `remarks` what else is to be said."""

    node: str
    heading: str
    taints: tuple[str, ...]
    conditions: tuple[ShownCondition, ...]
    remarks: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        yield from self.taints
        yield from (line for one in self.conditions for line in one.lines())
        yield from self.remarks

    def to_json(self) -> dict[str, Any]:
        conditions = [one.to_json() for one in self.conditions]
        return {
            "node": self.node,
            "heading": self.heading,
            "taints": list(self.taints),
            "conditions": conditions,
            "remarks": list(self.remarks),
        }


def explain_node(args: Namespace) -> Explained:
    """Raises: ConfigError, KubeError."""

    async def ask(client: KubeClient) -> Explained:
        found = await read_node(client, args.node)
        node = trim(found)
        if not args.master:
            conditions = tuple(explain_conditions(found, None, ""))
            remarks = (*_remarks(node), *_on_conditions(conditions))
            taints = tuple(_taints(node, {}, instances(node.annotations)))
            return Explained(node.name, _heading(node), taints, conditions, remarks)
        reported, state = await read_reports(client, args)
        kept = state.kept_taints.get(args.node, {})
        report = reported[args.node].report if args.node in reported else None
        wanted, why = await derive_by_master(client, node, report, state)
        conditions = tuple(explain_conditions(found, wanted, why))
        taints = tuple(_taints(node, kept, [state.instance]))
        return Explained(node.name, _heading(node, kept), taints, conditions, (why,) if why and not conditions else ())

    return ask_cluster(args, ask)


def _heading(node: Node, kept: Mapping[str, str] | None = None) -> str:
    if kept is None:
        return f"{node.name} has {_count(len(node.taints), 'taint')}"
    return f"{node.name} has {_count(len(kept), 'startup taint')} that nfd will remove"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _taints(node: Node, kept: Mapping[str, str], masters: Iterable[str]) -> Iterator[str]:
    """A line for each taint, and for each startup taint that one of these instances removed."""
    removed = sorted({text for instance in masters for text in removed_before(node, instance)})
    present = list(map(text_of_taint, node.taints))
    for text in present:
        if text in kept:
            yield f"{text} stays for now: {kept[text]}"
        elif text in removed:
            yield f"{text} was removed once and set again later; nfd does not remove it again"
        else:
            yield text
    yield from (f"{text} was removed once the Node was labelled" for text in removed if text not in present)


def _remarks(node: Node) -> Iterator[str]:
    """What the Node itself tells about its labels."""
    boots = {parse_owned(node.annotations, one, node.uid, ASSUMED).boot_id for one in instances(node.annotations)}
    boots.discard("")
    if not boots:
        yield "nfd-worker has not reported for this Node, so it is not labelled yet"
    elif earlier := sorted(boots - {node.boot_id}):
        yield f"its labels are of boot {', '.join(earlier)}, and the Node is in boot {node.boot_id}"
    else:
        yield "its labels are of the Node's own boot"
    if node.taints:
        yield "use --master URL to see which of these are startup taints, and why they stay"


def _on_conditions(found: tuple[ShownCondition, ...]) -> Iterator[str]:
    if found:
        yield "use --master URL to see which conditions the master would set"
    else:
        yield "it has no condition of nfd, as without the option --node-conditions of the master"
