"""List the nodes of a cluster: GPUs (usable/present if they differ), processor, kernel, system, taints, the time of
nfd's last write to the Node, and problems, from the API server."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nfd.cli.cluster import add_cluster_flags, add_master_flags, ask_cluster, lean, read_fleet, read_nodes
from nfd.cli.parsers import node_name
from nfd.cli.terminal_tables import Table, screen_width, size_text, style_of
from nfd.errors import ConfigError
from nfd.fleet.gpu_labels import Gpus
from nfd.fleet.gpus import sharing_of
from nfd.fleet.node_summary import NodeSummary, summarize, to_json, with_reports
from nfd.kube.paths import NODES
from nfd.message_text import did_you_mean, known_nodes
from nfd.names import full_key

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient

EXAMPLES = (
    ("nodes", "all nodes"),
    ("nodes --problems", "only nodes that need attention"),
    ("nodes --sort-by nvidia.com/gpu.memory --watch", "in another order; go on with each node that changes"),
    ("nodes --where 'nvidia.com/gpu.memory >= 40000' -o wide", "nodes that match an expression, with more columns"),
    ("nodes -l kubernetes.io/arch=arm64 -o json", "nodes that match a label selector, for a script"),
)
HEAD = ("NAME", "GPUS", "PROBLEMS", "CPU", "KERNEL", "OS", "TAINTS", "CHANGED")
WIDE = ("ARCH", "CORES", "GPU MEMORY", "MIG", "SHARING", "DRIVER", "CUDA")
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser)
    parser.add_argument("names", metavar="NODE", nargs="*", type=node_name, help="only these nodes")
    parser.add_argument(
        "--where", metavar="EXPR", default="", help="only nodes that match an expression (see nfd find)"
    )
    parser.add_argument("--problems", action="store_true", help="only nodes with problems")
    add_master_flags(parser, "HTTP address of the master: adds LAST REPORT and rejected keys", default="")
    parser.add_argument("-o", "--output", choices=("table", "wide", "json", "yaml", "name"), default="table")
    add_list_flags(parser, "go on with a line for each node that changes")


def add_list_flags(parser: ArgumentParser, watch: str) -> None:
    """Those of kubectl's lists; `watch` says what --watch goes on with."""
    parser.add_argument("--no-headers", action="store_true", help="no heading")
    parser.add_argument("--sort-by", metavar="COLUMN", default="", help="a column, or a label's key (default: name)")
    parser.add_argument("-w", "--watch", action="store_true", help=watch)


def run(args: Namespace) -> int:
    data = args.output in ("json", "yaml")
    if args.watch:
        if data or args.master:
            raise ConfigError("--watch is for -o table, wide and name, without --master")
        return watch(args)
    nodes = read_fleet(args, pods=data, dra=True).summaries
    reports: dict[str, float | None] = {}
    if args.master:
        reports, unwritten = ask_master(args)
        nodes = with_reports(nodes, reports, unwritten)
    found = select(args, nodes)
    known = sum(node.name in reports for node in found)
    if args.master and known < len(found):
        sys.stderr.write(f"nfd nodes: {known_nodes(known, len(found))}\n")
    if data:
        sys.stdout.write(as_data([to_json(one) for one in found], args.output))
    else:
        reported = any(node.reported is not None for node in found)
        sys.stdout.write(make_printer(args, reported=reported).text(found))
        if not found:
            sys.stderr.write("no problems\n" if args.problems else "no nodes\n")
    return 0


class Printer:
    """Prints nodes as names, or as lines of one table; `cells` are those of a node."""

    def __init__(self, args: Namespace, table: Table, cells: Callable[[NodeSummary], list[str]]) -> None:
        self._names, self._heading = args.output == "name", not args.no_headers
        self._table, self._cells = table, cells

    def text(self, nodes: Sequence[NodeSummary]) -> str:
        """The nodes; the first text has the heading."""
        if self._names:
            return "".join(f"node/{one.name}\n" for one in nodes)
        heading, self._heading = self._heading and bool(nodes), self._heading and not nodes
        return self._table.text([self._cells(one) for one in nodes], heading=heading)


def make_printer(args: Namespace, *, reported: bool = False) -> Printer:
    """With LAST REPORT, if that of a node is known."""
    style = style_of(sys.stdout)
    head = (*HEAD, *(("LAST REPORT",) if reported else ()), *(WIDE if args.output == "wide" else ()))
    paints = [style.value, None, style.warn, *[None] * (len(head) - 3)]
    table = Table(head, style, paints, screen_width(), HEAD.index("PROBLEMS"))
    return Printer(args, table, lambda node: cells_of(node, head))


def watch(args: Namespace) -> int:
    """Print the nodes, and again each that looks different, until interrupted. Raises: ConfigError, KubeError."""
    return follow(args, make_printer(args).text, lambda nodes, listed: select(args, nodes, listed=listed), _look_alike)


Choose = Callable[[Sequence[NodeSummary], bool], Sequence[NodeSummary]]
"""Those of the nodes that are shown, in order; the second argument says that these are all nodes."""


def follow(
    args: Namespace,
    text: Callable[[Sequence[NodeSummary]], str],
    choose: Choose,
    same: Callable[[NodeSummary, NodeSummary], bool],
) -> int:
    """Print the chosen nodes, and again each that is not the same any more, until interrupted.

    Raises: ConfigError, KubeError.
    """

    async def ask(client: KubeClient) -> int:
        from nfd.kube.informer import Informer, Store

        is_listed = False

        def changed(before: NodeSummary | None, now: NodeSummary | None) -> None:
            """Called for each node of the list, too."""
            gone = replace(before, problems=("deleted",)) if before is not None else None
            node = now or gone
            if is_listed and node is not None and choose([one for one in (before, node) if one is not None], False):
                show([node])

        def show(nodes: Sequence[NodeSummary]) -> None:
            try:
                sys.stdout.write(text(nodes))
                sys.stdout.flush()
            except BrokenPipeError as error:  # an informer would take it for a defect of its own
                raise SystemExit(0) from error

        store = Store(lambda item: summarize(lean(item)), changed, same=same)
        for item in await read_nodes(client, args.selector):
            store.put(item)
        show(choose(sorted(store.items.values(), key=lambda node: node.name), True))
        is_listed = True
        query = {"labelSelector": args.selector} if args.selector else {}
        await Informer(client, NODES, store, query=query).run()
        return 0

    return ask_cluster(args, ask)


def _look_alike(one: NodeSummary, other: NodeSummary) -> bool:
    """Whether only the time of the last write differs."""
    return replace(one, changed="") == replace(other, changed="")


def ask_master(args: Namespace) -> tuple[dict[str, float | None], dict[str, list[str]]]:
    """Seconds since each worker's last report, and the rejected keys of each node, from the master.

    Raises: ConfigError, KubeError.
    """
    from nfd.cli.master_reports import read_reports
    from nfd.master.node.known_rejections import texts_by_node

    async def ask(client: KubeClient) -> tuple[dict[str, float | None], dict[str, list[str]]]:
        reported, state = await read_reports(client, args)
        return {name: one.age for name, one in reported.items()}, texts_by_node(state.unwritten)

    return ask_cluster(args, ask)


def select(args: Namespace, nodes: Sequence[NodeSummary], *, listed: bool = True) -> list[NodeSummary]:
    """The nodes that match names, `--where` and `--problems`, in the order of `--sort-by`.

    `listed` says that these are all nodes. Raises: ConfigError for an unknown name or column.
    """
    known = {node.name for node in nodes}
    for name in args.names if listed else ():
        if name not in known:
            raise ConfigError(f"NODE {name}: no such node")
    found = [node for node in nodes if node.name in args.names or not args.names]
    if args.where:
        from nfd.fleet.query import missing_keys, parse_query

        expression = parse_query(args.where)
        for line in missing_keys(expression, (node.labels for node in nodes)) if listed else ():
            sys.stderr.write(f"nfd nodes: --where: {line}\n")
        found = [node for node in found if expression.holds(node.labels)]
    found = [node for node in found if node.problems or not args.problems]
    return sorted(found, key=order_of(args.sort_by, nodes)) if args.sort_by and listed else found


def order_of(column: str, nodes: Sequence[NodeSummary]) -> Callable[[NodeSummary], tuple[bool, Natural]]:
    """By a column or a label, numbers in texts by their size; nodes without the value are last. Raises: ConfigError."""
    written = column.strip("{}").replace(".metadata.name", "NAME")
    written = written.removeprefix(".metadata.labels.").replace("\\.", ".")
    values = {name.replace(" ", "").lower(): of for name, of in _ORDERED_BY.items()}
    if (value := values.get(written.replace(" ", "").replace("-", "").lower())) is None:
        key = full_key(written)
        keys = {label for node in nodes for label in node.labels}
        key = key if key in keys else written
        if key not in keys:
            known = ", ".join(sorted(values))
            hint = did_you_mean(written, (*values, *keys)) or f"; columns are {known}"
            raise ConfigError(f"--sort-by {column}: no such column, and no node has such a label{hint}")
        return lambda node: (key not in node.labels, natural(node.labels.get(key, "")))
    return lambda node: (not value(node), natural(str(value(node))))


Natural = tuple[tuple[int, str], ...]


def natural(text: str) -> Natural:
    """An order in which 9 comes before 10."""
    return tuple((int(digits or 0), words) for words, digits in re.findall(r"(\D*)(\d{0,300})", text))


_CELLS: dict[str, Callable[[NodeSummary], str]] = {
    "NAME": lambda node: node.name,
    "GPUS": lambda node: " + ".join(map(gpus_text, node.accelerators)),
    "PROBLEMS": lambda node: ", ".join(node.problems),
    "CPU": lambda node: node.cpu,
    "KERNEL": lambda node: node.kernel,
    "OS": lambda node: node.os,
    "TAINTS": lambda node: ",".join(node.taints),
    "CHANGED": lambda node: age(node.changed, datetime.now(UTC)),
    "LAST REPORT": lambda node: "" if node.reported is None else span(int(node.reported)),
    "ARCH": lambda node: node.arch,
    "CORES": lambda node: str(node.cores or ""),
    "GPU MEMORY": lambda node: " + ".join(filter(None, map(size_text, _memory(node)))),
    "MIG": lambda node: node.gpus.layout,
    "SHARING": sharing_of,
    "DRIVER": lambda node: " + ".join(dict.fromkeys(one.driver for one in node.accelerators if one.driver)),
    "CUDA": lambda node: node.gpus.cuda,
}
"""What a node has in each column."""
_ORDERED_BY: dict[str, Callable[[NodeSummary], object]] = {
    **_CELLS,
    "GPUS": lambda node: sum(one.usable for one in node.accelerators),
    "CHANGED": lambda node: node.changed,
    "LAST REPORT": lambda node: node.reported,
    "GPU MEMORY": lambda node: max(_memory(node), default=0),
    "DRIVER": lambda node: node.gpus.driver,
}
"""What --sort-by compares: the cells, apart from those in which a number or a time is a text."""


def cells_of(node: NodeSummary, names: Iterable[str]) -> list[str]:
    """The cells of these columns of HEAD, LAST REPORT and WIDE."""
    return [_CELLS[name](node) for name in names]


def _memory(node: NodeSummary) -> list[int]:
    """MiB of a device of each model."""
    return [model.memory for one in node.accelerators for model in one.models]


def as_data(value: object, form: str) -> str:
    """JSON or YAML."""
    if form == "json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    from nfd.config.yamltext import dump

    return dump(value)


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
