"""Print the differences between two nodes of a cluster: labels, annotations, extended resources and taints. `<` is only
on the first, `>` only on the second, `~` has different values."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nfd.cli.cluster import add_cluster_flags, ask_cluster, read_node
from nfd.cli.nodes import as_data
from nfd.cli.parsers import node_name
from nfd.cli.terminal_tables import Style, style_of
from nfd.message_text import visible
from nfd.names import instance_of

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient

EXAMPLES = (
    ("diff gpu-01 gpu-02", "all differences"),
    ("diff gpu-01 gpu-02 --exit-code", "the same, with exit status 1 if there are any"),
)
Json = Mapping[str, Any]
Pair = tuple[str | None, str | None]


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser, selector=False)
    parser.add_argument("first", metavar="NODE", type=node_name, help="the first node")
    parser.add_argument("second", metavar="NODE", type=node_name, help="the second node")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if they differ")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")


def run(args: Namespace) -> int:

    async def ask(client: KubeClient) -> tuple[Json, Json]:
        return await read_node(client, args.first), await read_node(client, args.second)

    found = differences(*ask_cluster(args, ask))
    if args.output == "json":
        values = {kind: {key: list(pair) for key, pair in pairs.items()} for kind, pairs in found.items()}
        sys.stdout.write(as_data(values, "json"))
    else:
        sys.stdout.write(as_text(found, args.first, args.second, style_of(sys.stdout)))
    return 1 if found and args.exit_code else 0


def differences(first: Json, second: Json) -> dict[str, dict[str, Pair]]:
    """Kind → key → value on either; kinds without a difference and nfd's own annotations are left out."""
    from nfd.store.base import Kind, trim

    one, other = trim(first), trim(second)
    found: dict[str, dict[str, Pair]] = {}
    for kind in Kind:
        mine, others = one.actual(kind), other.actual(kind)
        keys = sorted(mine.keys() | others.keys())
        if kind is Kind.ANNOTATIONS:
            keys = [key for key in keys if instance_of(key) is None]
        pairs = {key: (mine.get(key), others.get(key)) for key in keys if mine.get(key) != others.get(key)}
        if pairs:
            found[kind.value] = pairs
    return found


def as_text(found: Mapping[str, Mapping[str, Pair]], first: str, second: str, style: Style) -> str:
    """A block for each kind."""
    if not found:
        return style.dim(f"{first} and {second} have no differences") + "\n"
    blocks = ["\n".join([style.head(kind), *_lines(pairs, style)]) for kind, pairs in found.items()]
    count = sum(map(len, found.values()))
    return "\n\n".join([*blocks, style.dim(f"{count} differences; < {first}, > {second}")]) + "\n"


def _lines(pairs: Mapping[str, Pair], style: Style) -> Iterator[str]:
    width = max(map(len, pairs))
    for key, (mine, others) in pairs.items():
        shown = f"{visible(key):{width}}"
        if others is None:
            yield style.bad(f"  < {shown}  {visible(mine or '')}".rstrip())
        elif mine is None:
            yield style.value(f"  > {shown}  {visible(others)}".rstrip())
        else:
            yield style.warn(f"  ~ {shown}  {visible(mine)} → {visible(others)}")
