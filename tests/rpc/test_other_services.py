"""Invalid calls of the health and reflection services get a status, and nothing is logged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2 as asking

from nfd.rpc.interceptors import MAX_ASKED, SILENT
from tests.rpc.loopback import running

HEALTH, REFLECTION = "/grpc.health.v1.Health/", "/grpc.reflection.v1alpha.ServerReflection/"
METHODS = (f"{HEALTH}Check", f"{HEALTH}List", f"{HEALTH}Watch", f"{REFLECTION}ServerReflectionInfo")
OURS = ("/labeler.Labeler/Report", "/labeler.Labeler/SetLabels")


def ask(port: int, method: str, *messages: bytes) -> tuple[str, list[bytes]]:
    """The status of a call with these messages, and its answers."""
    answers: list[bytes] = []
    with grpc.insecure_channel(f"localhost:{port}") as channel:
        call = channel.stream_stream(method)(iter(messages), timeout=1)
        try:
            answers.extend(call)
        except grpc.RpcError as error:
            return str(error.code().name), answers
    return "OK", answers


async def asked(port: int, method: str, *messages: bytes) -> tuple[str, list[bytes]]:
    return await asyncio.to_thread(ask, port, method, *messages)


def _odd() -> Iterator[bytes]:
    yield from (b"\xff", b"\x0a\x05a", b"\x0a\x02\xff\xfe", b"\x0b" * 200, bytes(100))


@pytest.mark.parametrize("method", [*METHODS, *OURS])
async def test_what_is_no_message_is_said_so(method: str, caplog: pytest.LogCaptureFixture) -> None:
    async with running() as master:
        for data in _odd():
            status, answers = await asked(master.port, method, data)
            assert status == "INVALID_ARGUMENT" or (method, status) == (METHODS[1], "UNIMPLEMENTED"), data
            assert answers == []
        large = health_pb2.HealthCheckRequest(service="x" * MAX_ASKED).SerializeToString()
        if method in METHODS:
            assert await asked(master.port, method, large) == ("INVALID_ARGUMENT", [])
        check = health_pb2.HealthCheckRequest().SerializeToString()
        assert (await asked(master.port, METHODS[0], check))[0] == "OK"
    assert not caplog.records


async def test_questions_without_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    """No message, two of them, services and symbols that are not there, no such method."""
    health = health_pb2.HealthCheckRequest(service="nobody").SerializeToString()
    reflection = [
        asking.ServerReflectionRequest(),
        asking.ServerReflectionRequest(file_by_filename="\0"),
        asking.ServerReflectionRequest(file_containing_symbol=""),
        asking.ServerReflectionRequest(
            file_containing_extension=asking.ExtensionRequest(containing_type="labeler.Nothing", extension_number=-1)
        ),
        asking.ServerReflectionRequest(
            file_containing_extension=asking.ExtensionRequest(
                containing_type="labeler.SetLabelsRequest", extension_number=-(2**31)
            )
        ),
        asking.ServerReflectionRequest(all_extension_numbers_of_type="é"),
        asking.ServerReflectionRequest(list_services="\n"),
    ]
    async with running() as master:
        assert (await asked(master.port, METHODS[0], health))[0] == "NOT_FOUND"
        assert (await asked(master.port, METHODS[2], health))[0] == "DEADLINE_EXCEEDED"
        status, answers = await asked(master.port, METHODS[3], *(one.SerializeToString() for one in reflection))
        assert (status, len(answers)) == ("OK", len(reflection))
        assert await asked(master.port, METHODS[3], reflection[-1].SerializeToString(), b"\xff") == (
            "INVALID_ARGUMENT",
            answers[-1:],
        )
        assert (await asked(master.port, f"{HEALTH}Nothing", b"\xff"))[0] == "UNIMPLEMENTED"
        for method in METHODS[:3]:
            assert await asked(master.port, method) == ("INVALID_ARGUMENT", [])
        assert (await asked(master.port, METHODS[0], b"", b""))[0] == "OK"
        assert (await asked(master.port, METHODS[1], b""))[0] == "UNIMPLEMENTED"
        assert (await asked(master.port, METHODS[0], b""))[0] == "OK"
    assert not caplog.records


async def test_callers_that_go_away_leave_no_line(caplog: pytest.LogCaptureFixture) -> None:
    def leave(port: int, method: str) -> None:
        with grpc.insecure_channel(f"localhost:{port}") as channel:
            call = channel.stream_stream(method)(iter((b"",)), timeout=5)
            if method == METHODS[2]:
                next(call)
            call.cancel()

    async with running() as master:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(4) as pool:
            await asyncio.gather(
                *(loop.run_in_executor(pool, leave, master.port, one) for one in (*METHODS, *OURS) * 10)
            )
        assert (await asked(master.port, METHODS[0], b""))[0] == "OK"
    assert not caplog.records


async def test_silent_calls_end_for_newer_ones(caplog: pytest.LogCaptureFixture) -> None:
    """They take no room from others, and a question is answered at once."""
    over = threading.Event()

    def nothing() -> Iterator[bytes]:
        over.wait()
        yield from ()

    async with running() as master:
        channels = [grpc.insecure_channel(f"localhost:{master.port}", [("grpc.x", n)]) for n in range(8)]
        calls = [channels[n % 8].stream_unary(METHODS[0]).future(nothing()) for n in range(SILENT + 40)]
        try:
            async with asyncio.timeout(10):
                while sum(call.done() for call in calls) < 40:
                    await asyncio.sleep(0.02)
            assert (await asked(master.port, METHODS[0], b""))[0] == "OK"
            assert {call.code().name for call in calls if call.done()} == {"DEADLINE_EXCEEDED"}
            assert sum(call.done() for call in calls) in (40, 41)
        finally:
            over.set()
            for channel in channels:
                channel.close()
    assert not caplog.records
