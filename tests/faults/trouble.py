"""What can happen to a request, for `FaultProxy.inject`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from tests.faults.proxy import Exchange, Fault, passed_on

REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 422: "Invalid"}


def answer(status: int, message: str = "made up by the test", retry_after: int | None = None) -> Fault:
    """The server is not asked; the answer is a Status object, as it would send one."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": message}
        headers = {"Retry-After": str(retry_after)} if retry_after is not None else {}
        return web.json_response(body | {"reason": REASONS.get(status, "")}, status=status, headers=headers)

    return fault


async def hang(exchange: Exchange) -> web.StreamResponse:
    """Nothing comes back until the rule is removed; then the request goes through."""
    await exchange.released.wait()
    return await exchange.forward()


async def lose(exchange: Exchange) -> web.StreamResponse:
    """Nothing comes back until the rule is removed; then the connection is reset. The server never hears of it."""
    await exchange.released.wait()
    return exchange.cut()


async def cut(exchange: Exchange) -> web.StreamResponse:
    """The connection is reset before the server hears of it."""
    return exchange.cut()


async def cut_after(exchange: Exchange) -> web.StreamResponse:
    """The server does what was asked, and the answer is lost."""
    await exchange.fetch()
    return exchange.cut()


async def cut_half(exchange: Exchange) -> web.StreamResponse:
    """Half of the answer comes through; of a watch, its first line less one byte."""
    source = await exchange.proxy.ask(exchange.request)
    try:
        data = await (source.content.readline() if "watch" in exchange.request.query else source.read())
        half = data[:-1] if "watch" in exchange.request.query else data[: len(data) // 2]
        response = web.StreamResponse(status=source.status, headers=passed_on(source))
        await response.prepare(exchange.request)
        await response.write(half)
        await asyncio.sleep(0.05)
        return exchange.cut()
    finally:
        source.close()


async def garbage(exchange: Exchange) -> web.StreamResponse:
    """A status of success, and a body that is no JSON: what a broken load balancer says."""
    return web.Response(text="<html>it works</html>", content_type="text/html")


def spoiled(spoil: Callable[[Any], Any]) -> Fault:
    """A status of success, and JSON that is the server's own but for what `spoil` makes of it."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        source = await exchange.fetch()
        return web.json_response(spoil(json.loads(await source.read())))

    return fault


NO_LISTS: tuple[dict[str, Any], ...] = (
    {"error": "try again"},
    {"items": None},
    {"items": []},
    {"kind": "Status", "apiVersion": "v1", "status": "Success"},
    {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []},
    {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": ""}, "items": []},
)
"""Success and JSON, as gateways and half-broken aggregators answer, but no list of the kind that was asked for."""
NO_EVENTS: tuple[Any, ...] = (
    {"error": "try again"},
    {"type": "DELETED"},
    {"type": "ADDED", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x", "resourceVersion": "1"}}},
    {"type": "MODIFIED", "object": {"metadata": {"name": "x"}}},
    [],
)


def no_list(body: Mapping[str, Any]) -> Fault:
    """The server is not asked; the answer is 200 and this JSON."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        return web.json_response(body)

    return fault


def no_event(event: object) -> Fault:
    """A watch whose only line is this JSON."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        return web.Response(text=json.dumps(event) + "\n", content_type="application/json")

    return fault


def delay(seconds: float) -> Fault:
    """The request waits on its way to the server."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await exchange.forward()

    return fault


def late(seconds: float) -> Fault:
    """The server does it at once, and its answer takes that long."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        source = await exchange.fetch()
        await asyncio.sleep(seconds)
        return web.Response(body=await source.read(), status=source.status, headers=passed_on(source))

    return fault


async def too_old(exchange: Exchange) -> web.StreamResponse:
    """A watch whose first event is 410 Expired."""
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    return web.Response(text=json.dumps({"type": "ERROR", "object": status}) + "\n", content_type="application/json")


async def silence(exchange: Exchange) -> web.StreamResponse:
    """A watch that stands and says nothing until the rule is removed; then it ends."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(exchange.request)
    await exchange.released.wait()
    return response
