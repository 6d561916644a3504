"""What others brought to our port: health and reflection, kept from taking the room of reports, or filling the log.

grpcio answers UNKNOWN to a message that is none, with a traceback for each, and waits for a silent call for ever; so
messages are read and parsed here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from nfd.rpc.limits import READ_SECONDS

STREAMS = 64
STREAM_SECONDS = 600.0
"""Open streams, and how long one may last."""
SILENT = 64
"""Calls whose one message has not come; for another one the oldest ends."""
MAX_ASKED = 16 * 1024
"""Bytes of a message, which names a service or a symbol; a stream keeps it as long as it lasts."""

Behaviour = Callable[[Any, Any], Any]
Question = Callable[[Any, Any], Awaitable[Any]]


class Bystanders(grpc.aio.ServerInterceptor):  # type: ignore[misc]
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
