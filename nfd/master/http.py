"""The master's HTTP side: /healthz, /readyz and /metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from nfd.health import metrics_answer
from nfd.master.metrics import Metrics

_SERVER_LOG = logging.getLogger("nfd.http")


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a line of aiohttp is about us, not about what a peer sent: that is answered 400, and fills no log."""
    raised = record.exc_info[1] if record.exc_info else None
    return not isinstance(raised, HttpProcessingError)


_SERVER_LOG.addFilter(_is_ours)


class HttpServer:
    """`ready` answers what is still missing, "" if nothing is."""

    def __init__(self, metrics: Metrics, ready: Callable[[], str]) -> None:
        self._metrics = metrics
        self._ready = ready
        self._app = app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._show_metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, logger=_SERVER_LOG, shutdown_timeout=1.0)

    def add(self, routes: Iterable[web.RouteDef]) -> None:
        """Further paths, before the start."""
        self._app.add_routes(routes)

    async def start(self, host: str, port: int) -> int:
        """Listen and answer the port. Raises: OSError that names it."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host or None, port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise OSError(f"HTTP port {port}: {error.strerror or error}") from error
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        missing = self._ready()
        return web.Response(text=f"{missing or 'ok'}\n", status=503 if missing else 200)

    async def _show_metrics(self, request: web.Request) -> web.Response:
        answer = metrics_answer(self._metrics.families(), request.headers.get("Accept", ""))
        return web.Response(body=answer.body.encode(), headers={"Content-Type": answer.content_type})
