"""gRPC leaves descriptors for the rest of the master."""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from pathlib import Path

import pytest

from nfd.runtime.ports import CONNECTIONS, SPARE, connections, raise_descriptors
from tests.children import run
from tests.rpc.loopback import running

LIMIT = resource.RLIMIT_NOFILE
RAISE = f"from {raise_descriptors.__module__} import *; raise_descriptors(); print(descriptors(), connections())"


def raised(soft: int, hard: int) -> tuple[int, ...]:
    """Descriptors and connections of a child with these limits. It sets them itself: code between fork and exec can end
    a child of a process in which gRPC runs."""
    limited = f"import resource; resource.setrlimit({LIMIT}, ({soft}, {hard}))\n{RAISE}"
    return tuple(map(int, run([sys.executable, "-c", limited]).stdout.split()))


@pytest.mark.parametrize(("soft", "hard"), [(256, 512), (256, 1024), (1024, 1024)])
def test_the_limit_is_raised_as_far_as_it_may_be(soft: int, hard: int) -> None:
    """Each of a child; SPARE of the whole stay for others, of very few at least some are gRPC's."""
    assert raised(soft, hard) == (hard, max(hard - SPARE, hard // 4))


def test_what_all_connections_need_is_enough() -> None:
    hard = resource.getrlimit(LIMIT)[1]
    if hard < CONNECTIONS + SPARE:
        pytest.skip("this system lets a program have fewer descriptors")
    assert raised(256, hard) == (CONNECTIONS + SPARE, CONNECTIONS)


def test_silent_connections_do_not_take_all() -> None:
    """Those beyond are closed at once, not after the time for a handshake. In a child, which has few descriptors."""
    script = f"import asyncio; from {__name__} import silent_connections; asyncio.run(silent_connections())"
    run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], timeout=60)


async def silent_connections() -> None:
    before = resource.getrlimit(LIMIT)
    try:
        resource.setrlimit(LIMIT, (400, before[1]))
        most = connections()
        async with running() as master:
            resource.setrlimit(LIMIT, before)
            links = [socket.create_connection(("localhost", master.port)) for _ in range(most + 50)]
            try:
                closed = await asyncio.wait_for(_ended(links, 50), 8)
                assert closed == 50
            finally:
                for link in links:
                    link.close()
    finally:
        resource.setrlimit(LIMIT, before)
    assert most == 100


async def _ended(links: list[socket.socket], wanted: int) -> int:
    """How many are over, once so many are."""
    while (over := sum(_is_over(link) for link in links)) < wanted:
        await asyncio.sleep(0.05)
    return over


def _is_over(link: socket.socket) -> bool:
    try:
        return not link.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
