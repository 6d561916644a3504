"""Reads nodes from the API server of a cluster: `--kubeconfig`, `--selector`."""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nfd.errors import ConfigError, NotFound
from nfd.fleet.nodes import NodeSummary, summarize_all
from nfd.fleet.pods import Ask, ask_of
from nfd.kube.paths import NODES, PODS, object_path
from nfd.kube.selector import parse_selector
from nfd.names import subdomain_problem
from nfd.runtime import tasks

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient

_BULK = ("images", "volumesInUse", "volumesAttached")
_LIVING = "status.phase!=Succeeded,status.phase!=Failed"
Json = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fleet:
    """Nodes, and the resources that the pods on each request."""

    nodes: Sequence[Json]
    asks: Mapping[str, Sequence[Ask]] = field(default_factory=dict)

    @property
    def summaries(self) -> list[NodeSummary]:
        """By name."""
        return summarize_all(self.nodes, self.asks)


def add_cluster_flags(parser: ArgumentParser, *, selector: bool = True) -> None:
    """`--kubeconfig` and `--selector`."""
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        default="",
        help="default: $KUBECONFIG, the pod's service account, or ~/.kube/config",
    )
    if selector:
        about = "only nodes with these labels"
        parser.add_argument("-l", "--selector", metavar="SELECTOR", default="", type=_selector, help=about)


def _selector(text: str) -> str:
    """Check a selector. Raises: ArgumentTypeError for argparse."""
    try:
        return parse_selector(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def ask_cluster(kubeconfig: str, ask: Callable[[KubeClient], Awaitable[T]]) -> T:
    """Run `ask` with a client. Raises: ConfigError, KubeError."""
    from nfd.kube.client import connect

    async def run() -> T:
        client = await connect(kubeconfig or default_kubeconfig())
        try:
            return await ask(client)
        finally:
            await client.close()

    return tasks.run(run())


def default_kubeconfig() -> str:
    """The user's kubeconfig, as kubectl finds it, if neither $KUBECONFIG nor a pod gives one; "" if there is none."""
    path = Path(os.path.expanduser("~/.kube/config"))  # noqa: PTH111  it raises without a home directory
    told = os.environ.get("KUBECONFIG") or os.environ.get("KUBERNETES_SERVICE_HOST")
    return str(path) if not told and path.is_file() else ""


def read_fleet(args: Namespace, *, pods: bool = False) -> Fleet:
    """All nodes that `--selector` selects. Raises: ConfigError, KubeError."""

    async def ask(client: KubeClient) -> Fleet:
        nodes = await read_nodes(client, args.selector)
        return Fleet(nodes, await read_asks(client) if pods else {})

    return ask_cluster(args.kubeconfig, ask)


async def read_nodes(client: KubeClient, selector: str = "") -> list[Json]:
    """Node objects. Raises: KubeError."""
    from nfd.kube.lists import list_all

    return await list_all(client, NODES, lean, {"labelSelector": selector} if selector else {})


def lean(node: Json) -> Json:
    """A Node without images, volumes and managed fields."""
    metadata, status = dict(node["metadata"]), dict(node.get("status") or {})
    for name in _BULK:
        status.pop(name, None)
    metadata["managedFields"] = [
        {key: value for key, value in one.items() if key != "fieldsV1"} for one in metadata.get("managedFields") or ()
    ]
    return {**node, "metadata": metadata, "status": status}


async def read_asks(client: KubeClient) -> dict[str, list[Ask]]:
    """The resources that pods request, by node. Raises: KubeError."""
    from nfd.kube.lists import list_all

    found: dict[str, list[Ask]] = {}
    for ask in await list_all(client, PODS, ask_of, {"fieldSelector": _LIVING}):
        found.setdefault(ask.node, []).append(ask)
    return found


async def read_node(client: KubeClient, name: str) -> Json:
    """A Node object. Raises: ConfigError if it does not exist, KubeError."""
    from nfd.kube.lists import read_object

    if problem := subdomain_problem(name):
        raise ConfigError(f"NODE {name!r} {problem}")
    try:
        node: Json = await read_object(client, object_path(NODES, name))
    except NotFound as error:
        raise ConfigError(f"NODE {name}: no such node") from error
    return node
