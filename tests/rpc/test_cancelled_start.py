"""A gRPC server whose start is cancelled, as by SIGTERM, ends without an exception that nobody retrieves."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import Any

import pytest

from nfd.rpc.server import LabelerServer
from tests.rpc.loopback import Taken


@pytest.mark.parametrize("steps", range(8))
async def test_a_cancelled_start_ends_cleanly(steps: int, caplog: pytest.LogCaptureFixture) -> None:
    unretrieved: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unretrieved.append(context))
    server = LabelerServer(Taken().accept)
    starting = asyncio.create_task(server.start("localhost:0"))
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    await server.stop(0)
    del server, starting
    gc.collect()
    await asyncio.sleep(0)
    assert unretrieved == []
    assert [record.getMessage() for record in caplog.records] == []
