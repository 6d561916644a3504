"""Calls from one master to another: a worker's call that is forwarded, and the stream of the leader's reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from nfd.errors import ReportError
from nfd.rpc import SERVICE, seconds_to_wait
from nfd.rpc.replication_messages import encode_received
from nfd.rpc.tls import Pem, ServerTls, names_of

FORWARDED = "nfd-forwarded"
"""Metadata of a forwarded call, which is not forwarded again."""
DEADLINE = 10.0
LARGEST = 32 * 1024 * 1024
"""Bytes of one message of the leader: one report may have features of 8 MiB."""
SILENCE = 15.0
"""Seconds without a message after which either side ends a stream."""


async def forward(leader: str, data: bytes, authorization: str, tls: ServerTls | None, name: str) -> None:
    """Make the caller's call with the caller's token, and over TLS with this master's certificate.

    All masters' certificates have the same names, `name` or others. Raises: ReportError with the leader's answer,
    OSError, ValueError.
    """
    metadata = [(FORWARDED, "1")] + ([("authorization", authorization)] if authorization else [])
    async with _channel(leader, tls, name) as channel:
        try:
            await channel.unary_unary(f"/{SERVICE}/SetLabels")(data, timeout=DEADLINE, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise _failure(error, leader) from error


class LeaderStream:
    """What the leader sends, in order."""

    def __init__(self, call: Any, leader: str) -> None:
        self._call = call
        self._leader = leader

    async def read(self) -> bytes:
        """The next message. Raises: ReportError, also at the end of the stream."""
        try:
            async with asyncio.timeout(SILENCE):
                data = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise _failure(error, self._leader) from error
        except TimeoutError as error:
            reason = f"the leading master, {self._leader}, has sent nothing for {SILENCE:.0f} s"
            raise ReportError(reason, retry=True) from error
        if data is grpc.aio.EOF:
            raise ReportError(f"the leading master, {self._leader}, has ended the stream", retry=True)
        return bytes(data)

    async def confirm(self, number: int) -> None:
        """Say that the messages up to this one are stored. Raises: ReportError."""
        try:
            async with asyncio.timeout(SILENCE):
                await self._call.write(encode_received(number))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError) as error:
            raise ReportError(f"the leading master, {self._leader}, is gone", retry=True) from error


@asynccontextmanager
async def replicate(leader: str, token: str, tls: ServerTls, name: str) -> AsyncIterator[LeaderStream]:
    """The stream of the leader's reports. `token` is that of this master for masters alone.

    Raises: OSError without a CA to verify the leader with, ValueError.
    """
    pem = tls.read()
    if not (pem.masters_ca or pem.ca):
        raise OSError("there is no CA certificate to verify the leading master with")
    async with _channel(leader, tls, name) as channel:
        call = channel.stream_stream(f"/{SERVICE}/Replicate")(metadata=(("authorization", f"Bearer {token}"),))
        try:
            yield LeaderStream(call, leader)
        finally:
            call.cancel()


def _channel(leader: str, tls: ServerTls | None, name: str) -> Any:
    options: list[tuple[str, Any]] = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
    options.append(("grpc.max_receive_message_length", LARGEST))
    if tls is None:
        return grpc.aio.insecure_channel(leader, options)
    pem = tls.read()
    if name := _name_of_masters(pem, name):
        options.append(("grpc.ssl_target_name_override", name))
    credentials = grpc.ssl_channel_credentials(pem.masters_ca or pem.ca, pem.key, pem.cert)
    return grpc.aio.secure_channel(leader, credentials, options)


def _name_of_masters(pem: Pem, name: str) -> str:
    """A name by which the leader's certificate can be verified."""
    own_names = names_of(pem.cert or b"").alternative
    return name if name in own_names else next((one for one in own_names if not one.startswith("*")), name)


def _failure(error: Any, leader: str) -> ReportError:
    """The leader's error as a ReportError. A call that did not reach the leader is to be retried later."""
    code = error.code().name
    code = "UNAVAILABLE" if code in ("FAILED_PRECONDITION", "DEADLINE_EXCEEDED") else code
    seconds = seconds_to_wait(dict(error.trailing_metadata() or ()))
    return ReportError(f"the leading master, {leader}: {error.details()}", retry=True, retry_after=seconds, code=code)
