"""Limits: for the health and reflection services on the same port, and for each caller of the Labeler API.

grpcio answers UNKNOWN to an invalid message and logs a traceback for each. It also waits for ever for a call that sends
nothing. So messages are read and parsed here.
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
"""Calls whose one message has not arrived. One more ends the oldest."""
MAX_ASKED = 16 * 1024
"""Bytes of a message, which contains the name of a service or a symbol. A stream keeps it in memory while it is
open."""

Behaviour = Callable[[Any, Any], Any]
Question = Callable[[Any, Any], Awaitable[Any]]


class OtherServices(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Limits the open streams, and the size of messages, of every service except the Labeler."""

    def __init__(self, ours: str) -> None:
        self._ours = f"/{ours}/"
        self._open = 0
        self._silent: dict[asyncio.Timeout, None] = {}

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Handle a unary call as a stream of one message, which it is on the wire: then this code decides when to read
        it."""
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
        """The function that parses what is received, for a stream or for a single message."""

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
                self._end_oldest()
                self._silent[patience] = None
                try:
                    data = await context.read()
                finally:
                    self._silent.pop(patience, None)
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no message received in time")
        if data is grpc.aio.EOF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")
        return bytes(data)

    def _end_oldest(self) -> None:
        if len(self._silent) >= SILENT:
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())

    def _bounded(self, behaviour: Behaviour, question: Question) -> Behaviour:
        """Limit a behaviour. The result is a generator or a coroutine as the behaviour is: grpcio checks which."""

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
        """Occupy one of the open streams for a limited time."""
        if self._open >= STREAMS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams are open")
        self._open += 1
        try:
            async with asyncio.timeout(STREAM_SECONDS):
                yield
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the stream was open for too long")
        finally:
            self._open -= 1


def _once(behaviour: Behaviour, question: Question) -> Behaviour:
    async def run(stream: Any, context: Any) -> Any:
        asked = await question(stream, context)
        try:
            return await behaviour(asked, context)
        except NotImplementedError:  # grpcio's services declare it without an implementation
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this method is not implemented")

    return run


async def _parse(parse: Callable[[bytes], Any], data: bytes, context: Any) -> Any:
    if len(data) > MAX_ASKED:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the message has more than {MAX_ASKED} bytes")
    try:
        return parse(data)
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the bytes are not a valid message of this method")


BURST = 1000.0
RATE = 5.0
"""The most units that a caller has, and the units it regains per second."""
UNIT_BYTES = 16 * 1024
"""A call costs one unit, and one more for each of these bytes: the first report of a large machine costs about 10."""
CALLS = 2
"""Concurrent calls of one caller. The second is for a worker whose first call got lost."""
DELAYED = (128, 512)
LINGER = 4.0
"""Rejected calls, of one caller and of all, whose answer is delayed.

A connection has at most 16 calls at a time. So delayed answers limit a flood to four calls a second per connection,
whatever the sender's speed.
"""
READ_SECONDS = 10.0
"""How long a caller may take to send the message of a call."""
CALLERS = 20_000
"""The most recent callers that are remembered."""


class Limits:
    """A budget for each caller; "" stands for all that cannot be distinguished and has no limit. For one event loop;
    `now` in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._balances = LruCache[str, tuple[float, float]](CALLERS)
        self._busy: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """One call. Raises: ReportError if the caller has used up its budget, or has too many calls in progress."""
        if not caller:
            yield
            return
        if (balance := self._balance(caller)) < 0:
            await self._linger(caller)
            raise _later(f"{caller} sends too many reports", -balance / RATE)
        if self._busy[caller] >= CALLS:
            await self._linger(caller)
            raise _later(f"{caller} already has {CALLS} calls in progress", LINGER)
        with _counted(self._busy, caller):
            yield

    def charge(self, caller: str, size: int) -> None:
        """Charge a call of that many bytes; the balance may become negative."""
        if caller:
            self._balances.put(caller, (self._balance(caller) - 1 - size / UNIT_BYTES, self._now()))

    async def _linger(self, caller: str) -> None:
        each, together = DELAYED
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
