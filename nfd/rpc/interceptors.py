"""What others brought to our port: health and reflection, kept from taking the room of reports, or filling the log.

grpcio answers UNKNOWN to a message that is none, with a traceback for each, and waits for a silent call for ever; so
messages are read and parsed here.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from nfd.errors import ReportError
from nfd.runtime.cache import LruCache

STREAMS = 64
STREAM_SECONDS = 600.0
"""Open streams, and how long one may last."""
SILENT = 64
"""Calls whose one message has not come; for another one the oldest ends."""
MAX_ASKED = 16 * 1024
"""Bytes of a message, which names a service or a symbol; a stream keeps it as long as it lasts."""

Behaviour = Callable[[Any, Any], Any]
Question = Callable[[Any, Any], Awaitable[Any]]


class OtherServices(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Bounds the streams of every service but ours, and their messages."""

    def __init__(self, ours: str) -> None:
        self._ours = f"/{ours}/"
        self._open = 0
        self._silent: dict[asyncio.Timeout, None] = {}

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """On the wire a unary call is a stream of one message; as a stream, it is ours to say when that is read."""
        handler = await continuation(details)
        if handler is None or details.method.startswith(self._ours):
            return handler
        kind = "_".join(
            "stream" if many else "unary" for many in (handler.request_streaming, handler.response_streaming)
        )
        behaviour, question = getattr(handler, kind), self._question(handler)
        if not handler.response_streaming:
            answer = _once(behaviour, question)
            return grpc.stream_unary_rpc_method_handler(answer, None, handler.response_serializer)
        answer = self._bounded(behaviour, question)
        return grpc.stream_stream_rpc_method_handler(answer, None, handler.response_serializer)

    def _question(self, handler: Any) -> Question:
        """What makes messages of what comes in."""

        async def messages(stream: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
            async for data in stream:
                yield await _parse(handler.request_deserializer, data, context)

        async def question(stream: AsyncIterator[bytes], context: Any) -> Any:
            if handler.request_streaming:
                return messages(stream, context)
            return await _parse(handler.request_deserializer, await self._read(context), context)

        return question

    async def _read(self, context: Any) -> bytes:
        """The one message of a call."""
        try:
            async with asyncio.timeout(READ_SECONDS) as patience:
                self._make_room()
                self._silent[patience] = None
                try:
                    data = await context.read()
                finally:
                    self._silent.pop(patience, None)
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no message came")
        if data is grpc.aio.EOF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call brings no message")
        return bytes(data)

    def _make_room(self) -> None:
        if len(self._silent) >= SILENT:
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())

    def _bounded(self, behaviour: Behaviour, question: Question) -> Behaviour:
        """In the form of the behaviour: grpcio tells a generator from a coroutine by looking at it."""

        async def generate(stream: Any, context: Any) -> AsyncIterator[Any]:
            asked = await question(stream, context)
            async with self._place(context):
                async for one in behaviour(asked, context):
                    yield one

        async def run(stream: Any, context: Any) -> Any:
            asked = await question(stream, context)
            async with self._place(context):
                return await behaviour(asked, context)

        return generate if inspect.isasyncgenfunction(behaviour) else run

    @asynccontextmanager
    async def _place(self, context: Any) -> AsyncIterator[None]:
        """One of the streams, for a time."""
        if self._open >= STREAMS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams are open")
        self._open += 1
        try:
            async with asyncio.timeout(STREAM_SECONDS):
                yield
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the stream has lasted long enough")
        finally:
            self._open -= 1


def _once(behaviour: Behaviour, question: Question) -> Behaviour:
    async def run(stream: Any, context: Any) -> Any:
        asked = await question(stream, context)
        try:
            return await behaviour(asked, context)
        except NotImplementedError:  # what a service of grpcio declares, and has not
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this is not served")

    return run


async def _parse(parse: Callable[[bytes], Any], data: bytes, context: Any) -> Any:
    if len(data) > MAX_ASKED:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the message has more than {MAX_ASKED} bytes")
    try:
        return parse(data)
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "these bytes are no message of this call")


BURST = 1000.0
RATE = 5.0
"""Units that a caller may spend at once, and that come back in a second."""
UNIT_BYTES = 16 * 1024
"""A call costs one unit, and one for each of these bytes: a first report of a large machine costs some 10."""
CALLS = 2
"""Calls of one caller at a time: the second is there for a worker whose first went astray."""
HELD = (128, 512)
LINGER = 4.0
"""Refusals, of one caller and of all, that wait for some seconds.

A connection has no more than 16 calls at a time, so a flood of them comes to a stand: it costs us four calls a second
and connection, not as many as the sender can make.
"""
READ_SECONDS = 10.0
"""How long a caller may take to send the message of a call."""
CALLERS = 20_000
"""Callers remembered, the latest ones."""


class Limits:
    """Budgets by caller; "" is nobody in particular and has none. For one event loop; `now` in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._balances = LruCache[str, tuple[float, float]](CALLERS)
        self._busy: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """One call. Raises: ReportError if the caller has spent its budget, or has calls under way."""
        if not caller:
            yield
            return
        if (balance := self._balance(caller)) < 0:
            await self._linger(caller)
            raise _later(f"too much comes from {caller}", -balance / RATE)
        if self._busy[caller] >= CALLS:
            await self._linger(caller)
            raise _later(f"{caller} has {CALLS} calls under way", LINGER)
        with _counted(self._busy, caller):
            yield

    def charge(self, caller: str, size: int) -> None:
        """A call of that many bytes was read; its price may leave a debt."""
        if caller:
            self._balances.put(caller, (self._balance(caller) - 1 - size / UNIT_BYTES, self._now()))

    async def _linger(self, caller: str) -> None:
        each, together = HELD
        if self._held[caller] < each and self._held.total() < together:
            with _counted(self._held, caller):
                await asyncio.sleep(LINGER)

    def _balance(self, caller: str) -> float:
        balance, at = self._balances.get(caller) or (BURST, 0.0)
        return min(BURST, balance + (self._now() - at) * RATE)


@contextmanager
def _counted(counter: Counter[str], key: str) -> Iterator[None]:
    """Count one more while the block lasts."""
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]


def _later(reason: str, seconds: float) -> ReportError:
    return ReportError(reason, retry=True, retry_after=max(seconds, 0.1), code="RESOURCE_EXHAUSTED")
