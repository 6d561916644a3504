"""List the nodes of a cluster: GPUs (usable/present if they differ), processor, kernel, system, taints, the time of
nfd's last write to the Node, and problems, from the API server."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nfd.cli.cluster import add_cluster_flags, ask_cluster, read_fleet
from nfd.cli.output import Style, columns, screen_width, size_text, style_of
from nfd.cli.parsers import path
from nfd.errors import ConfigError
from nfd.fleet.gpu_labels import Gpus
from nfd.fleet.gpus import sharing_of
from nfd.fleet.nodes import NodeSummary, to_json, with_reports
from nfd.message_text import known_nodes

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient

EXAMPLES = (
    ("nodes", "all nodes"),
    ("nodes --problems", "only nodes that need attention"),
    ("nodes --where 'nvidia.com/gpu.memory >= 40000' -o wide", "nodes that match an expression, with more columns"),
    ("nodes -l kubernetes.io/arch=arm64 -o json", "nodes that match a label selector, for a script"),
)
HEAD = ("NAME", "GPUS", "CPU", "KERNEL", "OS", "TAINTS", "CHANGED", "PROBLEMS")
WIDE = ("ARCH", "CORES", "GPU MEMORY", "MIG", "SHARING", "DRIVER", "CUDA")
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser)
    parser.add_argument("names", metavar="NODE", nargs="*", help="only these nodes")
    parser.add_argument(
        "--where", metavar="EXPR", default="", help="only nodes that match an expression (see nfd find)"
    )
    parser.add_argument("--problems", action="store_true", help="only nodes with problems")
    parser.add_argument(
        "--master", metavar="URL", default="", help="HTTP address of the master: adds LAST REPORT and rejected keys"
    )
    parser.add_argument(
        "--token-file", metavar="FILE", type=path, help="token for --master (default: that of the kubeconfig)"
    )
    parser.add_argument("-o", "--output", choices=("table", "wide", "json", "yaml", "name"), default="table")


def run(args: Namespace) -> int:
    data = args.output in ("json", "yaml")
    nodes = read_fleet(args, pods=data, dra=True).summaries
    if args.master:
        reported, unwritten = ask_master(args)
        known = sum(node.name in reported for node in nodes)
        sys.stderr.write(f"nfd nodes: {known_nodes(known, len(nodes))}\n" if known < len(nodes) else "")
        nodes = with_reports(nodes, reported, unwritten)
    found = select(args, nodes)
    if args.output == "name":
        sys.stdout.write("".join(f"{one.name}\n" for one in found))
    elif data:
        sys.stdout.write(as_data([to_json(one) for one in found], args.output))
    else:
        sys.stdout.write(as_table(found, style_of(sys.stdout), datetime.now(UTC), wide=args.output == "wide"))
    return 0


def ask_master(args: Namespace) -> tuple[dict[str, float | None], dict[str, list[str]]]:
    """Seconds since each worker's last report, and the rejected keys of each node, from the master.

    Raises: ConfigError, KubeError.
    """
    from nfd.cli.master_reports import authorization, read_reports
    from nfd.master.node.rejections import texts_by_node

    async def ask(client: KubeClient) -> tuple[dict[str, float | None], dict[str, list[str]]]:
        reported, state = await read_reports(args.master, await authorization(client, args.token_file))
        return {name: one.age for name, one in reported.items()}, texts_by_node(state.unwritten)

    return ask_cluster(args, ask)


def select(args: Namespace, nodes: Sequence[NodeSummary]) -> list[NodeSummary]:
    """The nodes that match names, `--where` and `--problems`. Raises: ConfigError for an unknown name."""
    known = {node.name for node in nodes}
    for name in args.names:
        if name not in known:
            raise ConfigError(f"NODE {name}: no such node")
    found = [node for node in nodes if node.name in args.names or not args.names]
    if args.where:
        from nfd.fleet.query import missing_keys, parse_query

        expression = parse_query(args.where)
        for line in missing_keys(expression, (node.labels for node in nodes)):
            sys.stderr.write(f"nfd nodes: --where: {line}\n")
        found = [node for node in found if expression.holds(node.labels)]
    return [node for node in found if node.problems or not args.problems]


def as_data(value: object, form: str) -> str:
    """JSON or YAML."""
    if form == "json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    from nfd.config.yamltext import dump

    return dump(value)


def as_table(nodes: Sequence[NodeSummary], style: Style, now: datetime, *, wide: bool) -> str:
    """One line for each node; problems are last and coloured."""
    if not nodes:
        return style.dim("no nodes") + "\n"
    reported = any(node.reported is not None for node in nodes)
    rows = [_row(node, now, wide=wide, reported=reported) for node in nodes]
    head = (*HEAD[:-1], *(["LAST REPORT"] if reported else []), *(WIDE if wide else ()), HEAD[-1])
    paints = [style.value, *[None] * (len(head) - 2), style.warn]
    return columns(head, rows, style, paints, screen_width())


def _row(node: NodeSummary, now: datetime, *, wide: bool, reported: bool) -> list[str]:
    cells = [
        node.name,
        " + ".join(map(gpus_text, node.accelerators)),
        node.cpu,
        node.kernel,
        node.os,
        ",".join(node.taints),
    ]
    cells.append(age(node.changed, now))
    if reported:
        cells.append("" if node.reported is None else span(int(node.reported)))
    if wide:
        memory = " + ".join(
            filter(None, (size_text(model.memory) for one in node.accelerators for model in one.models))
        )
        cells += [node.arch, str(node.cores or ""), memory, node.gpus.layout, sharing_of(node)]
        drivers = dict.fromkeys(one.driver for one in node.accelerators if one.driver)
        cells += [" + ".join(drivers), node.gpus.cuda]
    return [*cells, ", ".join(node.problems)]


def gpus_text(gpus: Gpus) -> str:
    """`8×NVIDIA-A100-SXM4-80GB`, `7/8×…` if not all are usable, `0/4` if none is known."""
    if not gpus:
        return ""
    if not gpus.models:
        return f"0/{gpus.present}"
    if len(gpus.models) == 1:
        counted = f"{gpus.usable}/{gpus.present}" if gpus.present != gpus.usable else str(gpus.usable)
        return f"{counted}×{gpus.models[0].product}"
    text = " + ".join(f"{model.count}×{model.product}" for model in gpus.models)
    return text if gpus.present == gpus.usable else f"{text} ({gpus.usable}/{gpus.present})"


def age(time: str, now: datetime) -> str:
    """The age of an RFC 3339 time: `5m`, `3h`, `12d`."""
    if not time:
        return ""
    try:
        seconds = max(0, int((now - datetime.fromisoformat(time)).total_seconds()))
    except ValueError:
        return "?"
    return span(seconds)


def span(seconds: int) -> str:
    """Seconds as `5m`, `3h`, `12d`."""
    unit, letter = next((pair for pair in _UNITS if seconds >= pair[0]), (1, "s"))
    return f"{seconds // unit}{letter}"
