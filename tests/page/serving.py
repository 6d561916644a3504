"""The page over HTTP as the master serves it, for Nodes that no API server would take, and for very many."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from nfd.master.http.metrics import Metrics
from nfd.master.http.server import HttpServer
from nfd.master.page.server import Knowledge, Page
from nfd.store.base import Node
from tests.controlplane.process import free_ports


def make_node(name: str, labels: Mapping[str, str], taints: tuple[Mapping[str, str], ...] = ()) -> Node:
    return Node(name, f"uid-{name}", "1", "boot", labels, {}, {}, taints)


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
def served(nodes: Sequence[Node], missing: str = "", knowledge: Knowledge = Knowledge()) -> Iterator[str]:  # noqa: B008
    """Its address; each answer is drawn anew."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(step: object) -> None:
        asyncio.run_coroutine_threadsafe(step, loop).result(60)  # type: ignore[arg-type]

    server = HttpServer(Metrics("test", 0.0), lambda: "")
    (port,) = free_ports(1)
    try:
        server.add(Page(lambda: nodes, lambda: missing, fresh=0.0, knowledge=knowledge).routes())
        wait(server.start("127.0.0.1", port))
        yield f"http://127.0.0.1:{port}/page/"
        wait(server.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
