"""Print nodes that match an expression over labels, and the same expression as nodeAffinity. A key without a namespace
is in feature.node.kubernetes.io, /KEY is a key without any. Operators: = != < <= > >=, in (A, B), not in (A, B),
exists, =~ and !~ for a pattern; and, or, not and parentheses join conditions. A number with a dot is compared as a
version. A condition that no selector can express becomes a list of the nodes that match now, with a warning."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from nfd.cli.cluster import add_cluster_flags, read_fleet
from nfd.cli.nodes import as_data
from nfd.cli.output import Style, columns, screen_width, style_of
from nfd.fleet.affinity import Selector, to_selector
from nfd.fleet.nodes import NodeSummary
from nfd.fleet.query import Expression, keys_of, parse_query
from nfd.text import visible

EXAMPLES = (
    ("find 'nvidia.com/gpu.memory>=40000 and cpu-cpuid.AVX512F'", "nodes with large GPUs and AVX-512"),
    ("find 'nvidia.com/gpu.product =~ \"A100|H100\" and not /dedicated'", "a pattern; a label without a namespace"),
    ("find 'kernel-version.full >= 5.15' -o name", "a version; only the names, for a script"),
    ("find 'cpu-model.vendor_id in (AMD, Intel)' -o affinity", "only the nodeAffinity for a pod"),
)


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser)
    parser.add_argument("expression", metavar="EXPR", help="the expression")
    parser.add_argument("-o", "--output", choices=("text", "name", "affinity", "json"), default="text")


def run(args: Namespace) -> int:
    expression = parse_query(args.expression)
    nodes = read_fleet(args).summaries
    found = [node for node in nodes if expression.holds(node.labels)]
    selector = to_selector(expression, [node.labels for node in nodes])
    if args.output == "name":
        sys.stdout.write("".join(f"{node.name}\n" for node in found))
        return 0
    if args.output == "json":
        value = {"nodes": [node.name for node in found], "warnings": list(selector.warnings)}
        selectors = {"labelSelector": selector.to_label_selector(), "affinity": selector.to_affinity()}
        sys.stdout.write(as_data(value | selectors, "json"))
        return 0
    style = style_of(sys.stdout)
    if args.output == "text":
        sys.stdout.write(as_table(expression, found, style) + style.dim(f"{len(found)} of {len(nodes)} nodes") + "\n\n")
    sys.stdout.write(as_yaml(selector, style, short=args.output == "text"))
    return 0


def as_table(expression: Expression, nodes: Sequence[NodeSummary], style: Style) -> str:
    """The nodes, with the labels in the expression."""
    if not nodes:
        return ""
    keys = keys_of(expression)
    rows = [[node.name, *(node.labels.get(key, "") for key in keys)] for node in nodes]
    head = ["NAME", *(key.rpartition("/")[2] for key in keys)]
    return columns(head, rows, style, [style.value, *[None] * len(keys)], screen_width())


def as_yaml(selector: Selector, style: Style, *, short: bool) -> str:
    """The affinity of a pod with warnings as comments, and the selector for `kubectl get nodes -l`, if there is one."""
    lines = [style.warn(f"# {visible(warning)}") for warning in selector.warnings]
    if short and (text := selector.to_label_selector()):
        lines.append(style.dim(f"# kubectl get nodes -l '{text}'"))
    return "".join(f"{line}\n" for line in lines) + as_data({"affinity": selector.to_affinity()}, "yaml")
