"""Passes a `SetLabels` on to the master that leads: peers of NFD 0.16 and older cannot be redirected."""

from __future__ import annotations

from typing import Any

import grpc

from nfd.errors import ReportError
from nfd.rpc import SERVICE, seconds_to_wait
from nfd.rpc.tls import Pem, ServerTls, names_of

FORWARDED = "nfd-forwarded"
"""Metadata of a call that was passed on once, and is not again."""
DEADLINE = 10.0


async def forward(leader: str, data: bytes, authorization: str, tls: ServerTls | None, name: str) -> None:
    """Make the caller's call with the caller's token; over TLS, with our own certificate.

    Masters' certificates have the same names, `name` among them or in its stead. Raises: ReportError with what the
    leader said, OSError, ValueError.
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
    if name := _name_of_masters(pem, name):
        options.append(("grpc.ssl_target_name_override", name))
    credentials = grpc.ssl_channel_credentials(pem.fellows or pem.ca, pem.key, pem.cert)
    return grpc.aio.secure_channel(leader, credentials, options)


def _name_of_masters(pem: Pem, name: str) -> str:
    """A name by which the leader's certificate can be verified."""
    ours = names_of(pem.cert or b"").alternative
    return name if name in ours else next((one for one in ours if not one.startswith("*")), name)


def _failure(error: Any, leader: str) -> ReportError:
    """What the leader said of the report holds; that it leads no more, or cannot be reached, means: later."""
    code = error.code().name
    code = "UNAVAILABLE" if code in ("FAILED_PRECONDITION", "DEADLINE_EXCEEDED") else code
    seconds = seconds_to_wait(dict(error.trailing_metadata() or ()))
    return ReportError(f"the leading master, {leader}: {error.details()}", retry=True, retry_after=seconds, code=code)
