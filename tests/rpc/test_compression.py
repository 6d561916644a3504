"""Compressed requests arrive, and one that swells up is turned away before it does."""

from __future__ import annotations

import grpc
import pytest

from nfd.report import Reply, Report
from nfd.rpc import SERVICE
from nfd.rpc.caller_types import Peer
from nfd.rpc.server import MAX_MESSAGE, LabelerServer

BOMB = 16 * MAX_MESSAGE
"""Bytes of zeros, a thousandth of which go over the wire."""


async def test_a_message_counts_by_its_size_after_decompression() -> None:
    async def accept(report: Report, peer: Peer) -> Reply:
        raise AssertionError("nothing comes this far")

    server = LabelerServer(accept)
    port = await server.start("127.0.0.1:0")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", [("grpc.max_send_message_length", -1)]) as channel:
        call = channel.unary_unary(f"/{SERVICE}/Report")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(bytes(BOMB), compression=grpc.Compression.Gzip, timeout=20)
    await server.stop(0)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
