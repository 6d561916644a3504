"""Answers that no API server gives, as a proxy may: one line instead of a traceback, and no endless list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from nfd.errors import Unavailable
from nfd.kube.client import KubeClient, connect
from nfd.kube.informer import Informer, Store
from nfd.kube.list_pages import list_all, read_object
from tests.controlplane.process import free_ports

NODES = "/api/v1/nodes"
LIST = {"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
ENDLESS = {**LIST, "items": [], "metadata": {"continue": "again", "resourceVersion": "7"}}


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., object]:
    def run(text: str, question: Callable[[KubeClient], Awaitable[object]]) -> object:
        return asyncio.run(_ask(tmp_path, text, question))

    return run


async def _ask(folder: Path, text: str, question: Callable[[KubeClient], Awaitable[object]]) -> object:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=text, content_type="application/json")

    (port,) = free_ports(1)
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    cluster = {"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    config = {
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "x", "user": {}}],
        "current-context": "x",
    }
    (folder / "kubeconfig").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))
    client = await connect(str(folder / "kubeconfig"))
    try:
        return await question(client)
    finally:
        await client.close()
        await runner.cleanup()


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        "5",
        '{"items": 5}',
        '{"items": ["a", null]}',
        '{"items": [{}]}',
        '{"items": [{"metadata": {"name": 5}}]}',
        '{"items": [], "metadata": "x"}',
        "[" * 200_000,
        json.dumps(ENDLESS),
    ],
)
def test_a_list_that_is_none_is_one_line(ask: Callable[..., object], text: str) -> None:
    with pytest.raises(Unavailable, match=f"GET {NODES}: the answer is ") as raised:
        ask(text, lambda client: list_all(client, NODES, lambda item: item))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["null", "[]", "{}", '{"metadata": []}', "[" * 200_000])
def test_an_object_that_is_none_is_one_line(ask: Callable[..., object], text: str) -> None:
    with pytest.raises(Unavailable, match=f"GET {NODES}/a: the answer is "):
        ask(text, lambda client: read_object(client, f"{NODES}/a"))


def test_what_is_a_list_is_read(ask: Callable[..., object]) -> None:
    text = json.dumps({**LIST, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]})
    assert ask(text, lambda client: list_all(client, NODES, lambda item: item["metadata"]["name"])) == ["a", "b"]


def test_a_watch_that_ends_at_once_is_not_open_while_the_next_one_waits(ask: Callable[..., object]) -> None:
    async def watch(client: KubeClient) -> bool:
        informer = Informer(client, NODES, Store(lambda item: item, lambda *changed: None))
        waits = asyncio.Event()

        async def wait(error: Exception) -> None:
            waits.set()
            await asyncio.Event().wait()

        informer._wait = wait  # type: ignore[method-assign, assignment]
        running = asyncio.create_task(informer.run())
        await asyncio.wait_for(waits.wait(), 30)
        running.cancel()
        return informer.connected

    assert ask(json.dumps({**LIST, "items": []}), watch) is False
