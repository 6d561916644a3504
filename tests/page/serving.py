"""The page over HTTP as the master serves it, for Nodes that no API server would take, and for very many."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from nfd.fleet.dra_devices import Dra, OnNode
from nfd.fleet.gpu_resources import Resource
from nfd.master.http.metrics import Metrics
from nfd.master.http.server import HttpServer
from nfd.master.page.server import Knowledge, Page, ReadsDra
from nfd.store.base import Node
from tests.controlplane.process import free_ports


def make_node(name: str, labels: Mapping[str, str], taints: tuple[Mapping[str, str], ...] = ()) -> Node:
    return Node(name, f"uid-{name}", "1", "boot", labels, {}, {}, taints)


class Known:
    """What DRA has, without an API server."""

    def __init__(self, found: Dra) -> None:
        self.found: Dra | None = found
        self._found = found

    async def read(self) -> Dra:
        return self._found


def many_devices(nodes: Sequence[Node]) -> Known:
    """Eight devices on each of these nodes, of four drivers, some of them taken."""

    def on_node(number: int) -> OnNode:
        driver = f"gpu-{number % 4}.example.com"
        return OnNode((Resource(driver, 8, 8, number % 9, by_claim=True),), drivers=(driver,))

    return Known(Dra({node.name: on_node(number) for number, node in enumerate(nodes)}))


def many_nodes(count: int) -> list[Node]:
    """As fleets are: a few kinds of machine, a hundred labels each, and some that are on every node another one."""
    kinds = [{f"example.com/feature-{kind}-{index}": "true" for index in range(60)} for kind in range(12)]
    common = {f"example.com/common-{index}": str(index) for index in range(40)}
    return [
        make_node(
            f"node-{number:05}",
            {
                **common,
                **kinds[number * 7 // 100 % len(kinds)],
                "kubernetes.io/hostname": f"node-{number:05}",
                "example.com/rack": f"rack-{number * 31 % 997}",
                "nvidia.com/gpu.product": f"GPU-{number // 50 % 9}",
                "nvidia.com/gpu.count": "8",
                "feature.node.kubernetes.io/kernel-version.full": f"6.{number // 300}.0",
            },
        )
        for number in range(count)
    ]


@contextmanager
def served(
    nodes: Sequence[Node],
    missing: str = "",
    knowledge: Knowledge = Knowledge(),  # noqa: B008
    dra: ReadsDra | None = None,
) -> Iterator[str]:
    """Its address; each answer is drawn anew."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(step: object) -> None:
        asyncio.run_coroutine_threadsafe(step, loop).result(60)  # type: ignore[arg-type]

    server = HttpServer(Metrics("test", 0.0), lambda: "")
    (port,) = free_ports(1)
    try:
        server.add(Page(lambda: nodes, lambda: missing, fresh=0.0, knowledge=knowledge, dra=dra).routes())
        wait(server.start("127.0.0.1", port))
        yield f"http://127.0.0.1:{port}/page/"
        wait(server.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
