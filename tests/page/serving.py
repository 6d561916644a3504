"""The page over HTTP as the master serves it, for Nodes that no API server would take, and for very many."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from nfd.master.http import HttpServer
from nfd.master.metrics import Metrics
from nfd.master.page.server import Page
from nfd.store.base import Node
from tests.controlplane.process import free_ports


def make_node(name: str, labels: Mapping[str, str], taints: tuple[Mapping[str, str], ...] = ()) -> Node:
    return Node(name, f"uid-{name}", "1", "boot", labels, {}, {}, taints)


@contextmanager
def served(nodes: Sequence[Node]) -> Iterator[str]:
    """Its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(step: object) -> None:
        asyncio.run_coroutine_threadsafe(step, loop).result(60)  # type: ignore[arg-type]

    server = HttpServer(Metrics("test", 0.0), lambda: "")
    (port,) = free_ports(1)
    try:
        server.add(Page(lambda: nodes, lambda: "").routes())
        wait(server.start("127.0.0.1", port))
        yield f"http://127.0.0.1:{port}/page/"
        wait(server.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
