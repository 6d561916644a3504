"""The master's HTTP server: /healthz, /readyz and /metrics."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import ClientConnectionResetError, web
from aiohttp.http_exceptions import HttpProcessingError

from nfd.master.http.limits import ConnectionLimits, Listener, mark_complete
from nfd.master.http.metrics import Metrics
from nfd.runtime.failures import failed
from nfd.runtime.probes import metrics_answer

_SERVER_LOG = logging.getLogger("nfd.http")


def _is_own(record: logging.LogRecord) -> bool:
    """Whether a log line of aiohttp is about the master. Lines about clients, which get a 400 or disconnect, are
    dropped."""
    raised = record.exc_info[1] if record.exc_info else None
    return not isinstance(raised, HttpProcessingError | ClientConnectionResetError)


_SERVER_LOG.addFilter(_is_own)


@web.middleware
async def log_failures(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Middleware: an unexpected exception of a handler is logged with the path and answered 500."""
    try:
        return await handler(request)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception as error:
        failed("http handler", error, path=request.path)
        if request.writer.output_size:
            raise ClientConnectionResetError("the answer cannot be completed") from error
        return web.Response(text="the master failed to answer; see its log\n", status=500)


class HttpServer:
    """`ready` returns what is missing, "" if nothing. `note` is a second line of /readyz."""

    def __init__(
        self,
        metrics: Metrics,
        ready: Callable[[], str],
        bounds: ConnectionLimits | None = None,
        note: Callable[[], str] = lambda: "",
    ) -> None:
        self._metrics = metrics
        self._ready = ready
        self._note = note
        bounds = bounds or ConnectionLimits()
        self.listener = Listener(bounds)
        self._app = app = web.Application(middlewares=[mark_complete, log_failures])
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._show_metrics),
            ]
        )
        self._runner = web.AppRunner(
            app, access_log=None, logger=_SERVER_LOG, shutdown_timeout=1.0, keepalive_timeout=bounds.idle
        )

    def add(self, routes: Iterable[web.RouteDef]) -> None:
        """Add paths, before the start."""
        self._app.add_routes(routes)

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port. Raises: OSError with the port."""
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        try:
            return self.listener.open(host, port, server)
        except OSError as error:
            await self._runner.cleanup()
            raise OSError(f"HTTP port {port}: {error.strerror or error}") from error

    async def stop(self) -> None:
        await self.listener.close()
        await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        missing = self._ready()
        lines = (missing,) if missing else ("ok", self._note())
        return web.Response(text="".join(f"{line}\n" for line in lines if line), status=503 if missing else 200)

    async def _show_metrics(self, request: web.Request) -> web.Response:
        answer = metrics_answer(self._metrics.families(), request.headers.get("Accept", ""))
        return web.Response(body=answer.body.encode(), headers={"Content-Type": answer.content_type})
