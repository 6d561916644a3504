"""Reads nodes from the API server of a cluster, with kubectl's flags: `--kubeconfig`, `--context`, `--selector`…"""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _ActionsContainer
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nfd.cli.parsers import path
from nfd.config.section import parse_duration
from nfd.errors import ConfigError, Forbidden, KubeError, NotFound, Unavailable
from nfd.fleet.dra_devices import Dra, by_node, read_claim, read_slice
from nfd.fleet.node_summary import NodeSummary, summarize_all
from nfd.fleet.pods import Ask, ask_of
from nfd.kube.paths import CONFIG_MAPS, NODES, PODS, in_namespace, object_path
from nfd.kube.selector import parse_selector
from nfd.names import subdomain_problem
from nfd.runtime import tasks

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient

TIMEOUT = 30.0
"""Seconds for one request."""
_BULK = ("images", "volumesInUse", "volumesAttached")
_LIVING = "status.phase!=Succeeded,status.phase!=Failed"
Json = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fleet:
    """Nodes, the resources that the pods on each request, and what DRA has on each."""

    nodes: Sequence[Json]
    asks: Mapping[str, Sequence[Ask]] = field(default_factory=dict)
    dra: Dra = field(default_factory=Dra)
    refused: str = ""
    """Why pods are not counted, "" if they are."""

    @property
    def summaries(self) -> list[NodeSummary]:
        """By name."""
        return summarize_all(self.nodes, self.asks, self.dra.nodes)


CLUSTER_FLAGS = {
    "--kubeconfig": ("FILE", "default: $KUBECONFIG, ~/.kube/config, or the pod's service account"),
    "--context": ("NAME", "context of the kubeconfig (default: its current-context)"),
    "--cluster": ("NAME", "cluster of the kubeconfig (default: that of the context)"),
    "--user": ("NAME", "user of the kubeconfig (default: that of the context)"),
    "--as": ("USER", "act as this user"),
    "--as-group": ("GROUP", "with --as: act as a member of this group; can be repeated"),
    "--namespace": ("NAME", "namespace of nfd (default: found)"),
    "--request-timeout": ("TIME", "longest time for one request, such as 10s; 0 is no limit (default: 30s)"),
}
"""Flags that kubectl also has, with their values and help."""


def add_cluster_flags(
    parser: ArgumentParser, *, selector: bool = True, kubeconfig: Sequence[str] = (), namespace: Sequence[str] = ("-n",)
) -> None:
    """`CLUSTER_FLAGS` and `--selector`; `kubeconfig` and `namespace` are further names of two of them."""
    names = {"--kubeconfig": kubeconfig, "--namespace": namespace}
    for name, (value, about) in CLUSTER_FLAGS.items():
        options: dict[str, Any] = {"action": "append"} if name == "--as-group" else {}
        options |= {"type": _timeout} if name == "--request-timeout" else {}
        default: Any = [] if name == "--as-group" else TIMEOUT if name == "--request-timeout" else ""
        dest = "as_user" if name == "--as" else name.removeprefix("--").replace("-", "_")
        options |= {"dest": dest, "metavar": value, "default": default, "help": about}
        parser.add_argument(*names.get(name, ()), name, **options)
    if selector:
        about = "only nodes with these labels"
        parser.add_argument("-l", "--selector", metavar="SELECTOR", default="", type=_selector, help=about)


def add_master_flags(
    parser: _ActionsContainer, about: str = "HTTP address of the leading master", default: str = "http://localhost:8081"
) -> None:
    """`--master` and `--token-file`; the default is "" for commands that can do without the master."""
    parser.add_argument("--master", metavar="URL", default=default, help=about)
    about = "token for --master (default: that of the kubeconfig)"
    parser.add_argument("--token-file", metavar="FILE", type=path, help=about)


def _selector(text: str) -> str:
    """Check a selector. Raises: ArgumentTypeError for argparse."""
    try:
        return parse_selector(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def _timeout(text: str) -> float | None:
    """Seconds, None for no limit. Raises: ArgumentTypeError for argparse."""
    try:
        seconds = float(text) if text.isascii() and text.isdigit() else parse_duration(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
    if seconds < 0:
        raise ArgumentTypeError(f"{text!r} is less than 0")
    return seconds or None


def ask_cluster(args: Namespace, ask: Callable[[KubeClient], Awaitable[T]]) -> T:
    """Run `ask` with a client by the flags. Raises: ConfigError, KubeError that names context and kubeconfig."""
    from nfd.kube.client import connect
    from nfd.kube.kubeconfig import Choice

    choice = Choice(args.context, args.cluster, args.user, args.as_user, tuple(args.as_group))

    async def run() -> T:
        client = await connect(args.kubeconfig or default_kubeconfig(), choice)
        client.timeout = args.request_timeout
        try:
            return await ask(client)
        except (Unavailable, Forbidden) as error:
            raise KubeError(f"{error} ({client.place})") from error
        finally:
            await client.close()

    return tasks.run(run())


def default_kubeconfig() -> str:
    """~/.kube/config, as kubectl uses it, if $KUBECONFIG is not set; "" if there is none."""
    path = Path(os.path.expanduser("~/.kube/config"))  # noqa: PTH111  it raises without a home directory
    return str(path) if not os.environ.get("KUBECONFIG") and path.is_file() else ""


def read_fleet(args: Namespace, *, pods: bool = False, dra: bool = False, lenient: bool = False) -> Fleet:
    """All nodes that `--selector` selects. With `lenient`, pods may be refused. Raises: ConfigError, KubeError."""

    async def ask(client: KubeClient) -> Fleet:
        nodes, refused = await read_nodes(client, args.selector), ""
        asks: Mapping[str, Sequence[Ask]] = {}
        try:
            asks = await read_asks(client) if pods else {}
        except Forbidden as error:
            if not lenient:
                raise
            refused = f"requests of pods are not counted: {error}"
        return Fleet(nodes, asks, await read_dra(client) if dra else Dra(None), refused)

    return ask_cluster(args, ask)


async def read_dra(client: KubeClient) -> Dra:
    """What DRA offers and what is allocated of it. A server without DRA, or credentials that may not list it, is a
    note. Raises: KubeError."""
    from nfd.kube.dra_lists import list_dra

    found = await list_dra(client, read_slice, read_claim)
    return Dra(None if found.refused else by_node(found.slices, found.claims), found.note)


async def read_nodes(client: KubeClient, selector: str = "") -> list[Json]:
    """Node objects. Raises: KubeError."""
    from nfd.kube.list_pages import list_all

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
    from nfd.kube.list_pages import list_all

    found: dict[str, list[Ask]] = {}
    for ask in await list_all(client, PODS, ask_of, {"fieldSelector": _LIVING}):
        found.setdefault(ask.node, []).append(ask)
    return found


async def read_config_maps(client: KubeClient, namespace: str, *keys: str) -> list[Json]:
    """The ConfigMaps of the namespace that have one of these keys, the newest first: their names differ between
    releases of the chart and kustomize. Raises: KubeError."""
    from nfd.kube.list_pages import list_all

    found = await list_all(client, in_namespace(CONFIG_MAPS, namespace), lambda item: item)
    having = [item for item in found if (item.get("data") or {}).keys() & keys]
    return sorted(having, key=lambda item: str(item["metadata"].get("creationTimestamp")), reverse=True)


async def read_node(client: KubeClient, name: str) -> Json:
    """A Node object. Raises: ConfigError if it does not exist, KubeError."""
    from nfd.kube.list_pages import read_object

    if problem := subdomain_problem(name):
        raise ConfigError(f"NODE {name!r} {problem}")
    try:
        node: Json = await read_object(client, object_path(NODES, name))
    except NotFound as error:
        raise ConfigError(f"NODE {name}: no such node") from error
    return node
