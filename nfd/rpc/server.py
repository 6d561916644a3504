"""The Labeler service: authenticate, parse, convert, hand over. Health and reflection are served on the same port.

The order of the checks makes a hostile call cheap: the caller is authenticated before the body is read, and authorised
for the node before features are parsed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from nfd.errors import ReportError, rest_after
from nfd.report import MAX_MESSAGE, Reply, Report
from nfd.rpc import LEADER, RETRY_AFTER, SERVICE, convert
from nfd.rpc.caller_types import Authenticator, Caller, NoAuthentication, Peer
from nfd.rpc.feature_cache import FeatureCache
from nfd.rpc.interceptors import DELAYED, READ_SECONDS, SILENT, STREAMS, Limits, OtherServices
from nfd.rpc.master_calls import FORWARDED, forward
from nfd.rpc.tls import ServerTls, server_credentials
from nfd.runtime import tasks
from nfd.runtime.failures import failed
from nfd.runtime.ports import check_free, connections

MAX_CALLS = 256
"""Concurrent reports, apart from rejected calls whose answer is delayed; more are answered RESOURCE_EXHAUSTED."""
MAX_DETAILS = 1_000

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_concurrent_streams", 16),
    ("grpc.max_metadata_size", 16 * 1024),
    # NFD's workers report every minute and keep the connection open. Closing it after half of that frees the memory.
    ("grpc.max_connection_idle_ms", 30_000),
    ("grpc.max_connection_age_ms", 600_000),
    ("grpc.max_connection_age_grace_ms", 30_000),
    ("grpc.server_handshake_timeout_ms", 10_000),
    # The window of a call that is not read yet stays at HTTP/2's 64 KiB instead of growing with the bandwidth.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.so_reuseport", 0),
)


STARTED_WITHIN = 1.0
"""Seconds for which `stop` waits at least for a start that is in progress."""

Accept = Callable[[Report, Peer], Awaitable[Reply]]
"""Accepts a report, or raises ReportError with the reason."""

Decode = Callable[[bytes], convert.Incoming]

Replicate = Callable[[Peer, Any], Awaitable[None]]
"""Sends reports to another master through the `read` and `write` of a gRPC call; it may raise ReportError."""


class LabelerServer:
    """Serves the API. The master calls `features.forget` for a deleted node.

    `rejected` is called with the gRPC status of each report that is not accepted. `name` is in the certificates of all
    masters: it verifies another master to which a `SetLabels` is forwarded. `replicate` serves other masters. `calls`
    is the number of reports that are being handled.
    """

    def __init__(
        self, accept: Accept, authenticator: Authenticator | None = None, tls: ServerTls | None = None, name: str = ""
    ) -> None:
        self.features = FeatureCache()
        self.rejected: Callable[[str], None] = lambda status: None
        self.replicate: Replicate | None = None
        self.calls = 0
        self._accept = accept
        self._authenticator = authenticator or NoAuthentication()
        self._limits = Limits()
        self._tls = tls
        self._name = name
        self._health = health.aio.HealthServicer()
        self._starting: asyncio.Task[None] | None = None
        self._server: Any = grpc.aio.server(
            options=(*_OPTIONS, ("grpc.max_allowed_incoming_connections", connections())),
            interceptors=(OtherServices(SERVICE),),
            maximum_concurrent_rpcs=MAX_CALLS + DELAYED[1] + STREAMS + SILENT,
        )

    async def start(self, address: str) -> int:
        """Listen on `host:port` and return the port; raises OSError if that is impossible."""
        methods = {"SetLabels": self._set_labels, "Report": self._report}
        # a unary call is a stream of one message on the wire; handled as a stream, this code decides when to read it
        handlers = {name: grpc.stream_unary_rpc_method_handler(method) for name, method in methods.items()}
        handlers["Replicate"] = grpc.stream_stream_rpc_method_handler(self._replicate)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        check_free(address)
        try:
            if self._tls is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, server_credentials(self._tls))
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: {error}") from error
        self._starting = tasks.ask("start of the gRPC server", self._server.start())
        await asyncio.shield(self._starting)  # grpc does not end its main loop cleanly if its start is cancelled
        return int(port)

    async def serving(self, ready: bool) -> None:
        """Set the status of the health service."""
        states = health_pb2.HealthCheckResponse
        await self._health.set("", states.SERVING if ready else states.NOT_SERVING)

    async def stop(self, grace: float) -> None:
        """Reject new calls and wait up to `grace` seconds for those in progress."""
        await self._health.enter_graceful_shutdown()
        if self._starting is not None:
            await asyncio.wait([self._starting], timeout=max(grace, STARTED_WITHIN))
        await self._server.stop(grace)

    async def _set_labels(self, _: Any, context: Any) -> bytes:
        await self._answer(context, convert.decode_plain)
        return b""

    async def _report(self, _: Any, context: Any) -> bytes:
        return convert.encode_answer(await self._answer(context, convert.decode))

    async def _replicate(self, _: Any, context: Any) -> None:
        """Serve another master."""
        try:
            if self.replicate is None:
                raise ReportError("this master does not share its reports", retry=False, code="UNIMPLEMENTED")
            await self.replicate(_peer(context), context)
        except ReportError as error:
            await context.abort(_status(error), str(error)[:MAX_DETAILS], _trailers(error))
        except Exception as error:
            failed("replication", error)
            await context.abort(grpc.StatusCode.INTERNAL, "the master failed; see its log")

    async def _answer(self, context: Any, decode: Decode) -> convert.Answer:
        """Handle a call. Any error ends it with a gRPC status."""
        about: dict[str, str] = {}
        self.calls += 1
        try:
            return await self._handle(context, decode, about)
        except ValueError as error:
            await self._reject(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except ReportError as error:
            await self._reject(context, _status(error), str(error), _trailers(error))
        except Exception as error:  # a defect of the master must not look like an invalid report
            failed("report", error, **about)
            said = ReportError("the master failed to handle this report; see its log", retry=True)
            said.retry_after = rest_after(error) or None
            await self._reject(context, grpc.StatusCode.INTERNAL, str(said), _trailers(said))
        finally:
            self.calls -= 1
        raise AssertionError("abort always raises")

    async def _reject(self, context: Any, status: Any, reason: str, trailers: tuple[tuple[str, str], ...] = ()) -> None:
        self.rejected(status.name)
        await context.abort(status, reason[:MAX_DETAILS], trailers)

    async def _handle(self, context: Any, decode: Decode, about: dict[str, str]) -> convert.Answer:
        """`about` gets the node as soon as it is known; it is for the log."""
        caller = await self._authenticator.identify(_peer(context))
        async with self._limits.turn(caller.name):
            data = await _read(context)
            self._limits.charge(caller.name, len(data))
            about["node"] = node = convert.node_name(data)
            self._authenticator.admit(caller, node)
            async with self._limits.turn("" if caller.name else node):
                self._limits.charge("" if caller.name else node, len(data))
                try:
                    return await self._take(decode(data), caller)
                except ReportError as error:
                    if not error.leader or decode is not convert.decode_plain or caller.peer.forwarded:
                        raise
                    await self._forward(error.leader, data, caller)
                    return convert.Answer()

    async def _forward(self, leader: str, data: bytes, caller: Caller) -> None:
        try:
            await forward(leader, data, caller.peer.authorization, self._tls, self._name)
        except (OSError, ValueError) as error:
            raise ReportError(f"cannot be forwarded to the leading master: {error}", retry=True) from error

    async def _take(self, incoming: convert.Incoming, caller: Caller) -> convert.Answer:
        node = incoming.report.node
        with self.features.use(incoming) as missing:
            if missing:
                return convert.Answer(missing=missing)
            report = convert.complete(incoming.report, self.features.contents(incoming))
            if caller.node_uid:
                report = replace(report, node_uid=caller.node_uid)
            if caller.pod and report.order is not None:
                report = replace(report, order=replace(report.order, pod=caller.pod, issued=caller.issued))
            reply = await self._hand_over(report, caller.peer)
            self.features.hold(node, incoming)
        return convert.Answer(reply.heartbeat, node_labels=reply.node_labels)

    async def _hand_over(self, report: Report, peer: Peer) -> Reply:
        try:
            return await self._accept(report, peer)
        except ValueError as error:  # the report is valid, so this is a defect of the master
            raise RuntimeError(str(error)) from error


async def _read(context: Any) -> bytes:
    """The one message of the call. Raises: ReportError, ValueError."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            data = await context.read()
    except TimeoutError as error:
        reason = f"no report within {READ_SECONDS:.0f} s of the call"
        raise ReportError(reason, retry=True, code="DEADLINE_EXCEEDED") from error
    if data is grpc.aio.EOF:
        raise ValueError("the call has no report")
    return bytes(data)


def _peer(context: Any) -> Peer:
    metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
    auth = {key: [one.decode("utf-8", "replace") for one in values] for key, values in context.auth_context().items()}
    return Peer(
        address=context.peer() or "",
        authorization=metadata.get("authorization", ""),
        common_name="".join(auth.get("x509_common_name", ())[:1]),
        alternative_names=tuple(auth.get("x509_subject_alternative_name", ())),
        forwarded=FORWARDED in metadata,
    )


def _status(error: ReportError) -> Any:
    """The gRPC status. RESOURCE_EXHAUSTED and UNAVAILABLE mean that the same report may be sent again later."""
    if error.code:
        return grpc.StatusCode[error.code]
    return grpc.StatusCode.UNAVAILABLE if error.retry else grpc.StatusCode.FAILED_PRECONDITION


def _trailers(error: ReportError) -> tuple[tuple[str, str], ...]:
    trailers = []
    if error.retry_after is not None:
        trailers.append((RETRY_AFTER, str(math.ceil(error.retry_after * 1000))))
    if error.leader:
        trailers.append((LEADER, error.leader))
    return tuple(trailers)
