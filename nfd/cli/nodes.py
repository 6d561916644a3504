"""The nodes of a cluster at a glance: GPUs (usable/present where they differ), processor, kernel, system, taints, when
nfd last wrote to the Node, and problems, by what the API server knows."""

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

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient

EXAMPLES = (
    ("nodes", "all of them"),
    ("nodes --problems", "only those that somebody should look at"),
    ("nodes --where 'nvidia.com/gpu.memory >= 40000' -o wide", "those that an expression finds, with more columns"),
    ("nodes -l kubernetes.io/arch=arm64 -o json", "those that a label selector takes, for a script"),
)
HEAD = ("NAME", "GPUS", "CPU", "KERNEL", "OS", "TAINTS", "CHANGED", "PROBLEMS")
WIDE = ("ARCH", "CORES", "GPU MEMORY", "MIG", "SHARING", "DRIVER", "CUDA")
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser)
    parser.add_argument("names", metavar="NODE", nargs="*", help="only these")
    parser.add_argument("--where", metavar="EXPR", default="", help="only nodes that an expression finds (nfd find)")
    parser.add_argument("--problems", action="store_true", help="only nodes with problems")
    parser.add_argument(
        "--master", metavar="URL", default="", help="HTTP port of the master: LAST REPORT, and keys that are refused"
    )
    parser.add_argument("--token-file", metavar="FILE", type=path, help="token for --master; else the kubeconfig's")
    parser.add_argument("-o", "--output", choices=("table", "wide", "json", "yaml", "name"), default="table")


def run(args: Namespace) -> int:
    data = args.output in ("json", "yaml")
    nodes = read_fleet(args, pods=data).summaries
    found = select(args, with_reports(nodes, *ask_master(args)) if args.master else nodes)
    if args.output == "name":
        sys.stdout.write("".join(f"{one.name}\n" for one in found))
    elif data:
        sys.stdout.write(as_data([to_json(one) for one in found], args.output))
    else:
        sys.stdout.write(as_table(found, style_of(sys.stdout), datetime.now(UTC), wide=args.output == "wide"))
    return 0


def ask_master(args: Namespace) -> tuple[dict[str, float | None], dict[str, list[str]]]:
    """Seconds since each worker spoke, and what each node is without, as the master knows.

    Raises: ConfigError, KubeError.
    """
    from nfd.cli.master_reports import authorization, read_reports
    from nfd.master.node.rejections import texts_by_node

    async def ask(client: KubeClient) -> tuple[dict[str, float | None], dict[str, list[str]]]:
        heard, standing = await read_reports(args.master, await authorization(client, args.token_file))
        return {name: one.age for name, one in heard.items()}, texts_by_node(standing.unwritten)

    return ask_cluster(args.kubeconfig, ask)


def select(args: Namespace, nodes: Sequence[NodeSummary]) -> list[NodeSummary]:
    """Those that names, `--where` and `--problems` leave. Raises: ConfigError for a name that no node has."""
    known = {node.name for node in nodes}
    for name in args.names:
        if name not in known:
            raise ConfigError(f"NODE {name}: there is no such node")
    found = [node for node in nodes if node.name in args.names or not args.names]
    if args.where:
        from nfd.fleet.query import parse_query

        expression = parse_query(args.where)
        found = [node for node in found if expression.holds(node.labels)]
    return [node for node in found if node.problems or not args.problems]


def as_data(value: object, form: str) -> str:
    """JSON or YAML."""
    if form == "json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    from nfd.config.yamltext import dump

    return dump(value)


def as_table(nodes: Sequence[NodeSummary], style: Style, now: datetime, *, wide: bool) -> str:
    """One line a node; problems last, coloured."""
    if not nodes:
        return style.dim("no nodes") + "\n"
    told = any(node.reported is not None for node in nodes)
    rows = [_row(node, now, wide=wide, told=told) for node in nodes]
    head = (*HEAD[:-1], *(["LAST REPORT"] if told else []), *(WIDE if wide else ()), HEAD[-1])
    paints = [style.value, *[None] * (len(head) - 2), style.warn]
    return columns(head, rows, style, paints, screen_width())


def _row(node: NodeSummary, now: datetime, *, wide: bool, told: bool) -> list[str]:
    cells = [node.name, gpus_text(node.gpus), node.cpu, node.kernel, node.os, ",".join(node.taints)]
    cells.append(age(node.changed, now))
    if told:
        cells.append("" if node.reported is None else span(int(node.reported)))
    if wide:
        memory = " + ".join(filter(None, (size_text(model.memory) for model in node.gpus.models)))
        cells += [node.arch, str(node.cores or ""), memory, node.gpus.layout, sharing_of(node)]
        cells += [node.gpus.driver, node.gpus.cuda]
    return [*cells, ", ".join(node.problems)]


def gpus_text(gpus: Gpus) -> str:
    """`8×NVIDIA-A100-SXM4-80GB`, `7/8×…` where not all can be used, `0/4` where none is known."""
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
    """How long ago an RFC 3339 time was: `5m`, `3h`, `12d`."""
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
