"""Print the GPUs and other accelerators of the cluster and how much of them is allocated: products by memory, MIG
layout, sharing and driver, with a bar for each resource over all nodes and on each node. Allocated are the requests of
running pods for nvidia.com/*, aliyun.com/gpu-mem (also for each GPU) and the resources of other vendors' plug-ins.
Devices of the vendors' DRA drivers count by the claims that they are allocated to. Resources that only monitor devices
are left out. The command is also named `accelerators`."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nfd.cli.cluster import add_cluster_flags, read_fleet
from nfd.cli.nodes import WIDE, add_list_flags, as_data, cells_of, gpus_text, order_of
from nfd.cli.terminal_tables import Style, Table, bar, cut, numbers, screen_width, size_text, style_of
from nfd.errors import ConfigError
from nfd.fleet.accelerators import PARTITION, SHARE, VIEW
from nfd.fleet.gpu_resources import Resource
from nfd.fleet.gpus import Group, group
from nfd.fleet.node_summary import NodeSummary
from nfd.message_text import visible

EXAMPLES = (
    ("gpus", "all GPUs and other accelerators of the cluster"),
    ("gpus --free", "only resources that are not fully allocated"),
    ("gpus --pods", "which pod holds which GPU, MIG device or share"),
    ("gpus -o wide --sort-by gpu-memory", "a line for each node and resource"),
    ("gpus -o json", "the same for a script"),
)


HEAD = ("NAME", "GPUS", "PROBLEMS", "RESOURCE", "ALLOCATED")
PODS = ("NODE", "POD", "RESOURCE", "AMOUNT", "DEVICE", "CLAIM")
INTERVAL = 5
"""Seconds between two lists with --watch: what is allocated is known from all pods and claims together."""


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser)
    parser.add_argument("--free", action="store_true", help="only nodes and resources that are not fully allocated")
    parser.add_argument("--pods", action="store_true", help="list the pods that hold accelerators")
    parser.add_argument("-o", "--output", choices=("bars", "table", "wide", "name", "json", "yaml"), default="bars")
    add_list_flags(parser, f"go on every {INTERVAL} s with the lines that have changed")


def run(args: Namespace) -> int:
    listed = args.output in ("table", "wide", "name") or (args.pods and args.output == "bars")
    if not listed and (args.watch or args.sort_by or args.no_headers):
        raise ConfigError("--watch, --sort-by and --no-headers are for -o table, wide and name, and for --pods")
    if listed:
        return _list(args)
    fleet = read_fleet(args, pods=True, dra=True)
    nodes = fleet.summaries
    if fleet.dra.note:
        sys.stderr.write(f"{fleet.dra.note}\n")
    groups = group(nodes)
    if args.output == "bars":
        sys.stdout.write(as_bars(groups, {one.name: one for one in nodes}, style_of(sys.stdout), free=args.free))
        return 0
    found = [_node(one) for one in nodes]
    value = {"groups": [one.to_json() for one in groups], "nodes": [one for one in found if one.get("resources")]}
    sys.stdout.write(as_data(value, args.output))
    return 0


def _node(one: NodeSummary) -> dict[str, Any]:
    resources, holders = [each.to_json() for each in one.resources], [each.to_json() for each in one.holders]
    found = {"name": one.name, "resources": resources, "holders": holders, "problems": list(one.problems)}
    return {key: value for key, value in found.items() if value}


def _list(args: Namespace) -> int:
    """Lines for nodes or pods; with --watch, again those that have changed, until interrupted."""
    head = PODS if args.pods else (*HEAD, *(WIDE if args.output == "wide" else ()))
    style = style_of(sys.stdout)
    kept = head.index("PROBLEMS") if "PROBLEMS" in head else 0
    table = Table(head, style, [style.value, *[None] * (len(head) - 1)], screen_width(), kept)
    before: list[list[str]] = []
    heading = not args.no_headers
    while True:
        nodes = read_fleet(args, pods=True, dra=True).summaries
        nodes = sorted(nodes, key=order_of(args.sort_by, nodes)) if args.sort_by else nodes
        rows = [row for one in nodes for row in _rows(one, args)]
        changed = [row for row in rows if row not in before]
        if args.output == "name":
            names = dict.fromkeys(row[0] for row in changed)
            sys.stdout.write("".join(f"node/{name}\n" for name in names))
        elif changed:
            sys.stdout.write(table.text(changed, heading=heading))
            heading = False
        elif not args.watch:
            sys.stderr.write("no pod holds an accelerator\n" if args.pods else "no accelerators\n")
        sys.stdout.flush()
        before = rows
        if not args.watch:
            return 0
        time.sleep(INTERVAL)


def _rows(one: NodeSummary, args: Namespace) -> Iterator[list[str]]:
    """A line for each pod and what it holds (claims without a pod have none), or for each resource of the node."""
    if args.pods:
        for each in one.holders:
            yield [one.name, each.pod or "-", each.resource, str(each.amount), each.device, each.claim]
        return
    gpus, problems = " + ".join(map(gpus_text, one.accelerators)), ", ".join(one.problems)
    wide = cells_of(one, WIDE) if args.output == "wide" else []
    for offer in one.resources:
        if not args.free or offer.allocated < offer.allocatable:
            yield [one.name, gpus, problems, offer.name, f"{offer.allocated}/{offer.allocatable}", *wide]
    if one.accelerators and not one.resources and not args.free:
        yield [one.name, gpus, problems, "", "", *wide]


UNITS = {PARTITION: "partitions", SHARE: "shares", VIEW: "the same devices in another unit"}


@dataclass(frozen=True, slots=True)
class _Bar:
    """One line; `depth` is 0 for all nodes together, 1 for a node, 2 for one GPU of it."""

    depth: int
    name: str
    taken: int
    total: int
    note: str = ""


def as_bars(groups: Sequence[Group], nodes: Mapping[str, NodeSummary], style: Style, *, free: bool = False) -> str:
    """A block for each group; with `free` also a note if nothing is free."""
    if not groups:
        return style.dim("no accelerators") + "\n"
    blocks = [(one, list(_bars(one, nodes, free=free))) for one in groups]
    shown = [(one, bars) for one, bars in blocks if bars or not free]
    every = [each for _, bars in shown for each in bars]
    counts = iter(numbers((each.taken, each.total) for each in every))
    width = max((2 * each.depth + len(visible(each.name)) for each in every), default=0)
    return (
        "\n".join(_block(one, bars, counts, width, style) for one, bars in shown)
        or style.dim("no free resources") + "\n"
    )


def _block(one: Group, bars: Sequence[_Bar], counts: Iterator[str], width: int, style: Style) -> str:
    lines = [_heading(one, style)]
    for each in bars:
        name = "  " * each.depth + visible(each.name)
        note = f"  {style.warn(each.note)}" if each.note else ""
        lines.append(f"  {name:{width}}  {bar(each.taken, each.total, style)}  {next(counts)}{note}")
    return "\n".join(lines) + "\n"


def _heading(one: Group, style: Style) -> str:
    facts = [size_text(one.memory), one.mig and f"MIG {one.mig}", one.sharing, one.driver and f"driver {one.driver}"]
    count = f"{one.usable}/{one.present}" if one.usable != one.present else str(one.usable)
    noun = one.title if one.title.endswith("GPU") else "device"
    what = "MIG devices" if "-MIG-" in one.product else noun if one.present == 1 else f"{noun}s"
    where = f"{count} {what} on {len(one.nodes)} node{'' if len(one.nodes) == 1 else 's'}"
    text = " · ".join(visible(part) for part in (one.product or "unlabelled", *facts, where) if part)
    return style.head(cut(text, screen_width()))


def _bars(one: Group, nodes: Mapping[str, NodeSummary], *, free: bool) -> Iterator[_Bar]:
    for name, amount in one.resources.items():
        if free and amount.allocated >= amount.allocatable:
            continue
        yield _Bar(0, name, amount.allocated, amount.allocatable, UNITS.get(amount.unit, ""))
        for node in one.nodes:
            for resource in nodes[node].resources:
                if resource.name != name or (free and resource.allocated >= resource.allocatable):
                    continue
                note = _note(resource)
                yield _Bar(1, node, resource.allocated, resource.allocatable, note)
                yield from (_Bar(2, f"GPU{gpu.index}", gpu.allocated, gpu.total) for gpu in resource.devices)


def _note(one: Resource) -> str:
    notes = [f"{one.capacity - one.allocatable} unhealthy"] if one.capacity > one.allocatable else []
    notes += [f"{one.allocated - one.allocatable} more than available"] if one.allocated > one.allocatable else []
    notes += [f"{one.unplaced} not assigned to a GPU yet"] if one.unplaced else []
    notes += [one.contradiction] if one.contradiction else []
    return ", ".join(notes)
