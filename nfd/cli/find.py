"""Print nodes that match an expression over labels, or, with --drift, nodes that differ from their group. A key without
a namespace is in feature.node.kubernetes.io, /KEY is a key without any. Operators: = != < <= > >=, in (A, B), not in
(A, B), exists, =~ and !~ for a pattern; and, or, not and parentheses join conditions. A number with a dot is compared
as a version. A condition that no selector can express becomes a list of the nodes that match now, with a warning.
With -o wide and -o json, print also what pods have been given of the accelerators of each node, through device
plug-ins and through DRA.

With --drift, print nodes whose driver, kernel, system or firmware is not that of most nodes of their group. The
microcode of processors, the BIOS, and the firmware of GPUs and RDMA devices are in features: with --master they are
compared, too."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nfd.cli.cluster import Json, add_cluster_flags, add_master_flags, read_fleet
from nfd.cli.nodes import HEAD, WIDE, Printer, add_list_flags, as_data, cells_of, follow, order_of
from nfd.cli.terminal_tables import Style, Table, columns, screen_width, style_of
from nfd.errors import ConfigError
from nfd.fleet.affinity import Selector, to_selector
from nfd.fleet.drift import Deviation, deviations, firmware_of, versions_of
from nfd.fleet.gpu_resources import Resource
from nfd.fleet.node_summary import NodeSummary
from nfd.fleet.node_template import group_nodes
from nfd.fleet.query import Expression, keys_of, missing_keys, parse_query
from nfd.message_text import visible

EXAMPLES = (
    ("find 'nvidia.com/gpu.memory>=40000 and cpu-cpuid.AVX512F'", "nodes with large GPUs and AVX-512"),
    ("find 'nvidia.com/gpu.product =~ \"A100|H100\" and not /dedicated'", "a pattern; a label without a namespace"),
    ("find 'kernel-version.full >= 5.15' -o name", "a version; only the names, for a script"),
    ("find 'nvidia.com/gpu.memory>=40000' -o wide", "also what is allocated of their GPUs"),
    ("find 'cpu-model.vendor_id in (AMD, Intel)' -o affinity", "only the nodeAffinity for a pod"),
    ("find --drift --group-by karpenter.sh/nodepool", "nodes with another driver or kernel than their pool"),
    ("find --drift --master http://localhost:8081", "also with another microcode, VBIOS or other firmware"),
)

GROUPS = "nvidia.com/gpu.product"
"""The label whose values are the groups of --drift."""


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser)
    parser.add_argument("expression", metavar="EXPR", nargs="?", default="", help="the expression; not with --drift")
    parser.add_argument("--drift", action="store_true", help="nodes that differ from their group")
    about = f"with --drift: the label that makes a group (default: {GROUPS})"
    parser.add_argument("--group-by", metavar="LABEL", default="", help=about)
    about = "with --drift: HTTP address of the leading master, for features (see nfd plan)"
    add_master_flags(parser, about, default="")
    parser.add_argument("-o", "--output", choices=("text", "wide", "name", "affinity", "json"), default="text")
    add_list_flags(parser, "go on with a line for each node that begins or ceases to match, or changes these labels")


def run(args: Namespace) -> int:
    if args.drift:
        return _drift(args)
    if not args.expression or args.group_by or args.master:
        flag = "--group-by" if args.group_by else "--master"
        raise ConfigError(f"{flag} belongs to --drift" if args.expression else "EXPR or --drift is required")
    expression = parse_query(args.expression)
    lines = Lines(expression, args)
    if args.watch:
        if args.output not in ("text", "wide", "name"):
            raise ConfigError("--watch is for -o text, wide and name")
        return follow(args, lines.text, lines.choose, lines.same)
    counted = args.output in ("wide", "json")
    fleet = read_fleet(args, pods=counted, dra=counted, lenient=True)
    nodes, lines.pods_known = fleet.summaries, not fleet.refused
    for line in filter(None, (fleet.refused, fleet.dra.note)):
        sys.stderr.write(f"nfd find: {line}\n")
    for line in missing_keys(expression, (node.labels for node in nodes)):
        sys.stderr.write(f"nfd find: {line}\n")
    found = lines.choose(nodes, True)
    if args.output == "name":
        sys.stdout.write(lines.text(found))
        return 0
    selector = to_selector(expression, [node.labels for node in nodes])
    if args.output == "json":
        resources = {node.name: lines.resources(node) for node in found if node.resources}
        value = {"nodes": [node.name for node in found], "resources": resources, "warnings": list(selector.warnings)}
        selectors = {"labelSelector": selector.to_label_selector(), "affinity": selector.to_affinity()}
        sys.stdout.write(as_data(value | selectors, "json"))
        return 0
    style = style_of(sys.stdout)
    if args.output != "affinity":
        sys.stdout.write(lines.text(found) + style.dim(f"{len(found)} of {len(nodes)} nodes") + "\n\n")
    sys.stdout.write(as_yaml(selector, style, short=args.output != "affinity"))
    return 0


class Lines:
    """Prints nodes with the labels in the expression, as names or as lines of one table."""

    def __init__(self, expression: Expression, args: Namespace) -> None:
        self._expression, self._args, self._keys = expression, args, keys_of(expression)
        self._wide = (*HEAD[1:], *WIDE) if args.output == "wide" else ()
        self._counts = args.output == "wide" and not args.watch
        self.pods_known = True
        """Whether what pods request is known."""
        more = (*self._wide, *(("ALLOCATED",) if self._counts else ()))
        head = ("NAME", *(key.rpartition("/")[2] for key in self._keys), *more)
        style = style_of(sys.stdout)
        kept = head.index("PROBLEMS") if more else 0
        table = Table(head, style, [style.value, *[None] * (len(head) - 1)], screen_width(), kept)
        self.text = Printer(args, table, self._cells).text

    def choose(self, nodes: Sequence[NodeSummary], listed: bool) -> list[NodeSummary]:
        """The nodes that match, in the order of `--sort-by`."""
        found = [node for node in nodes if self._expression.holds(node.labels)]
        return sorted(found, key=order_of(self._args.sort_by, nodes)) if self._args.sort_by and listed else found

    def same(self, one: NodeSummary, other: NodeSummary) -> bool:
        """Whether both match or neither does, and the lines are equal."""
        if self._expression.holds(one.labels) != self._expression.holds(other.labels):
            return False
        return self._cells(replace(one, changed="")) == self._cells(replace(other, changed=""))

    def _cells(self, node: NodeSummary) -> list[str]:
        more = cells_of(node, self._wide)
        if self._counts:
            amounts = ((one, one.allocated if self._is_known(one) else "?") for one in node.resources)
            more.append(", ".join(f"{one.name} {taken}/{one.allocatable}" for one, taken in amounts))
        return [node.name, *(node.labels.get(key, "") for key in self._keys), *more]

    def resources(self, node: NodeSummary) -> list[dict[str, Any]]:
        """What the node offers of accelerators, with what is allocated of it as far as that is known."""
        found = [(one, one.to_json()) for one in node.resources]
        return [
            {key: value for key, value in data.items() if key != "allocated" or self._is_known(one)}
            for one, data in found
        ]

    def _is_known(self, one: Resource) -> bool:
        """Whether it is known how much of a resource is allocated: of DRA devices, claims say so."""
        return self.pods_known or one.by_claim


def _drift(args: Namespace) -> int:
    if args.expression or args.output not in ("text", "json", "name"):
        raise ConfigError("--drift has no EXPR, and prints text, json or name")
    if args.watch or args.sort_by:
        raise ConfigError("--drift goes without --watch and --sort-by")
    nodes, firmware = _with_firmware(args) if args.master else (read_fleet(args).nodes, {})
    groups, without = group_nodes(nodes, args.group_by or GROUPS)
    found = deviations(groups, lambda node: versions_of(node) | firmware.get(node["metadata"]["name"], {}))
    if args.output == "json":
        sys.stdout.write(as_data([one.to_json() for one in found], "json"))
    elif args.output == "name":
        sys.stdout.write("".join(f"node/{name}\n" for name in dict.fromkeys(one.node for one in found)))
    else:
        sys.stdout.write(_drift_table(found, style_of(sys.stdout)))
    if without:
        sys.stderr.write(f"{len(without)} nodes have no label {args.group_by or GROUPS} and are in no group\n")
    return 0


def _with_firmware(args: Namespace) -> tuple[Sequence[Json], dict[str, dict[str, str]]]:
    """Nodes, and by name what their features say. Nodes that have not reported are named on standard error."""
    from nfd.cli.plan.cluster import documents_of, features_of

    documents = documents_of(args)
    features = {name: found for name, _, found in features_of(documents)}
    if silent := sorted(name for name, found in features.items() if found is None):
        sys.stderr.write(f"the master has no features of {', '.join(silent)}: their firmware is not compared\n")
    return documents.nodes, {name: firmware_of(found) for name, found in features.items()}


def _drift_table(found: Sequence[Deviation], style: Style) -> str:
    if not found:
        return style.dim("no node differs from its group") + "\n"
    rows = [
        [one.node, one.group, one.what, one.value, f"{one.usual or 'none'} ({one.count} of {one.size} nodes)"]
        for one in found
    ]
    head = ("NAME", "GROUP", "WHAT", "VALUE", "USUAL")
    return columns(head, rows, style, [style.value, None, None, style.warn, None], screen_width())


def as_yaml(selector: Selector, style: Style, *, short: bool) -> str:
    """The affinity of a pod with warnings as comments, and the selector for `kubectl get nodes -l`, if there is one."""
    lines = [style.warn(f"# {visible(warning)}") for warning in selector.warnings]
    if short and (text := selector.to_label_selector()):
        lines.append(style.dim(f"# kubectl get nodes -l '{text}'"))
    return "".join(f"{line}\n" for line in lines) + as_data({"affinity": selector.to_affinity()}, "yaml")
