"""Passes a `SetLabels` on to the master that leads: peers of NFD 0.16 and older cannot be told where that is."""

from __future__ import annotations

from typing import Any

import grpc

from nfd.errors import ReportError
from nfd.rpc import RETRY_AFTER, SERVICE
from nfd.rpc.tls import ServerTls

FORWARDED = "nfd-forwarded"
"""Metadata of a call that was passed on once, and is not again."""
DEADLINE = 10.0


async def forward(leader: str, data: bytes, authorization: str, tls: ServerTls | None, name: str) -> None:
    """Make the caller's call with the caller's token; over TLS, with our own certificate, which masters share.

    `name` is that in the leader's certificate. Raises: ReportError with what the leader said, OSError.
    """
    metadata = [(FORWARDED, "1")] + ([("authorization", authorization)] if authorization else [])
    async with _channel(leader, tls, name) as channel:
        try:
            await channel.unary_unary(f"/{SERVICE}/SetLabels")(data, timeout=DEADLINE, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise _failure(error, leader) from error


def _channel(leader: str, tls: ServerTls | None, name: str) -> Any:
    options: list[tuple[str, Any]] = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
    if tls is None:
        return grpc.aio.insecure_channel(leader, options)
    pem = tls.read()
    if name:
        options.append(("grpc.ssl_target_name_override", name))
    return grpc.aio.secure_channel(leader, grpc.ssl_channel_credentials(pem.ca, pem.key, pem.cert), options)


def _failure(error: Any, leader: str) -> ReportError:
    """What the leader said of the report holds; that it leads no more, or cannot be reached, means: later."""
    code = error.code().name
    code = "UNAVAILABLE" if code in ("FAILED_PRECONDITION", "DEADLINE_EXCEEDED") else code
    wait = dict(error.trailing_metadata() or ()).get(RETRY_AFTER, "")
    seconds = int(wait) / 1000 if isinstance(wait, str) and wait.isdecimal() else None
    return ReportError(f"the leading master, {leader}: {error.details()}", retry=True, retry_after=seconds, code=code)
