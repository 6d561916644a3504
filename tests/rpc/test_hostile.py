"""Peers that mean harm, or are merely broken: each gets a status, and the others go on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from nfd.errors import ReportError
from nfd.features import Features
from nfd.report import Report
from nfd.report_order import Order
from nfd.rpc import convert
from nfd.rpc import labeler_pb2 as pb
from nfd.rpc.caller_types import Caller, Peer
from nfd.rpc.convert import from_blob
from nfd.rpc.interceptors import BURST, CALLERS, CALLS, DELAYED, LINGER, RATE, READ_SECONDS, STREAMS, Limits
from nfd.rpc.server import LabelerServer
from tests.rpc.loopback import Running, Taken, running

REPORT, PLAIN = "/labeler.Labeler/Report", "/labeler.Labeler/SetLabels"


class Named(Taken):
    """A gate that knows callers by what they say; "" is nobody in particular."""

    async def identify(self, peer: Peer) -> Caller:
        return Caller(peer, peer.authorization)


@asynccontextmanager
async def named() -> AsyncIterator[Running]:
    taken = Named()
    server = LabelerServer(taken.accept, taken)
    port = await server.start("localhost:0")
    try:
        yield Running(server, port, taken)
    finally:
        await server.stop(0)


def call(port: int, data: bytes, method: str = REPORT, name: str = "") -> str:
    """The status of one call with these bytes."""
    with grpc.insecure_channel(f"localhost:{port}", [("grpc.max_send_message_length", -1)]) as channel:
        try:
            channel.unary_unary(method)(data, timeout=20, metadata=(("authorization", name),) if name else None)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def big_machine() -> Report:
    """A kernel with 4,000 options, 5,000 modules and 512 virtual functions of network cards."""
    config = {f"CONFIG_OPTION_WITH_A_LONG_NAME_{number:04}": "y" for number in range(4000)}
    functions = tuple(
        {
            **dict.fromkeys(("class", "vendor", "device", "subsystem_vendor", "subsystem_device"), "15b3"),
            "sriov_totalvfs": "127",
            "iommu_group/type": "identity",
            "iommu/intel-iommu/version": "1:0",
            "address": f"0000:3b:{number // 8:02x}.{number % 8}",
        }
        for number in range(512)
    )
    modules = frozenset(f"module_with_a_long_name_{number}" for number in range(5000))
    features = Features({"kernel.loadedmodule": modules}, {"kernel.config": config}, {"pci.device": functions})
    return Report("big", order=Order("boot", 1, 1), features=features)


async def test_large_machines_fit_and_64_mib_do_not() -> None:
    async with running() as master:
        await master.send(big_machine())
        assert master.taken.reports[0].features == big_machine().features
        plain = convert.encode_plain(big_machine())
        assert await asyncio.to_thread(call, master.port, plain, PLAIN) == "OK"
        for method in (REPORT, PLAIN):
            assert await asyncio.to_thread(call, master.port, bytes(64 << 20), method) == "RESOURCE_EXHAUSTED"
        assert len(master.taken.reports) == 2


@pytest.mark.parametrize("field", ["labels", "annotations", "origins", "sources"])
async def test_as_many_entries_as_a_message_holds(field: str) -> None:
    """A message of 4 MiB; refused before anything is done with them."""
    entry = 5 if field == "labels" else {"annotations": 6, "origins": 7, "sources": 8}[field]
    kind = bytes([entry << 3 | 2])
    value = b"\x12\x00" if field == "sources" else b"\x12\x01v"
    entries = (b"\x0a\x06%06x" % number + value for number in range(280_000))
    data = b"".join(kind + bytes([len(one)]) + one for one in entries)
    async with running() as master:
        started = time.monotonic()
        data = pb.ReportRequest(node_name="n1").SerializeToString() + data
        assert await asyncio.to_thread(call, master.port, data) == "INVALID_ARGUMENT"
        assert time.monotonic() - started < 15
        assert master.taken.reports == []


VALID = convert.encode(big_machine()).request


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_a_report_or_a_value_error(data: bytes) -> None:
    for decode in (convert.node_name, convert.decode, convert.decode_plain):
        with suppress(ValueError):
            decode(data)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(VALID) - 1), st.binary(min_size=1, max_size=8))
def test_report_with_changed_bytes_is_a_report_or_a_value_error(place: int, data: bytes) -> None:
    with suppress(ValueError):
        assert convert.decode(VALID[:place] + data + VALID[place + len(data) :]).report.node


@pytest.mark.parametrize("name", ["", "a\nb", "A", "a/b", "../x", "x" * 254, "é", "a\x00"])
async def test_names_that_no_node_has(name: str) -> None:
    async with running() as master:
        data = pb.ReportRequest(node_name=name).SerializeToString()
        assert await asyncio.to_thread(call, master.port, data) == "INVALID_ARGUMENT"
        assert master.taken.reports == []


async def test_name_is_that_of_the_last_field_for_the_gate_and_for_the_report() -> None:
    """A message that names two nodes must not be admitted for one and taken for the other."""
    both = [pb.ReportRequest(node_name=name).SerializeToString() for name in ("stranger", "n1")]
    async with running() as master:
        assert await asyncio.to_thread(call, master.port, both[1] + both[0]) == "PERMISSION_DENIED"
        assert await asyncio.to_thread(call, master.port, both[0] + both[1]) == "OK"
        assert [report.node for report in master.taken.reports] == ["n1"]


class Silent:
    """Calls that are opened and never say anything."""

    def __init__(self, port: int, name: str, count: int) -> None:
        self.over = threading.Event()
        self.channels = [grpc.insecure_channel(f"localhost:{port}", [("grpc.x", n)]) for n in range(-(-count // 16))]
        metadata = (("authorization", name),)
        self.calls = [
            self.channels[number // 16].stream_unary(REPORT).future(self._nothing(), metadata=metadata)
            for number in range(count)
        ]

    def _nothing(self) -> Iterator[bytes]:
        self.over.wait()
        yield from ()

    def codes(self) -> list[str]:
        """Of the calls that are over."""
        return [call.code().name for call in self.calls if call.done()]

    def close(self) -> None:
        self.over.set()
        for channel in self.channels:
            channel.close()


async def test_silent_calls_take_no_room_and_end() -> None:
    async with named() as master:
        silent = await asyncio.to_thread(Silent, master.port, "node a", 60)
        try:
            await until(lambda: len(silent.codes()) == 60 - CALLS)
            assert set(silent.codes()) == {"RESOURCE_EXHAUSTED"}
            assert await asyncio.to_thread(call, master.port, VALID, REPORT, "node a") == "RESOURCE_EXHAUSTED"
            assert await asyncio.to_thread(call, master.port, VALID, REPORT, "node b") == "OK"
            await until(lambda: "DEADLINE_EXCEEDED" in silent.codes(), READ_SECONDS + 5)
            await until(lambda: len(silent.codes()) == 60)
            assert await asyncio.to_thread(call, master.port, VALID, REPORT, "node a") == "OK"
        finally:
            silent.close()


async def test_watchers_of_health_take_no_room_from_reports() -> None:
    request = health_pb2.HealthCheckRequest().SerializeToString()
    async with running() as master:
        channels = [grpc.insecure_channel(f"localhost:{master.port}", [("grpc.x", n)]) for n in range(30)]
        watches = [channels[n // 16].unary_stream("/grpc.health.v1.Health/Watch")(request) for n in range(STREAMS)]
        try:
            for watch in watches:
                await asyncio.to_thread(next, watch)
            more = channels[-1].unary_stream("/grpc.health.v1.Health/Watch")(request)
            with pytest.raises(grpc.RpcError) as caught:
                await asyncio.to_thread(next, more)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            await master.send(big_machine())
            watches[0].cancel()
            check = channels[-1].unary_unary("/grpc.health.v1.Health/Check")
            await asyncio.to_thread(check, request)
        finally:
            for channel in channels:
                channel.close()


async def test_flood_of_one_caller_is_turned_away_unread() -> None:
    """By bytes: what it may spend at once is gone after some large messages; others do not notice."""
    junk = bytes(4_000_000)
    async with named() as master:
        codes = [await asyncio.to_thread(call, master.port, junk, REPORT, "node a") for _ in range(8)]
        assert codes[0] == "INVALID_ARGUMENT"
        assert codes[-1] == "RESOURCE_EXHAUSTED"
        assert await asyncio.to_thread(call, master.port, VALID, REPORT, "node b") == "OK"


async def test_budget_is_spent_and_comes_back() -> None:
    now = 0.0
    limits = Limits(lambda: now)
    await spend(limits, "a", int(BURST) + 1)
    with pytest.raises(ReportError, match="a sends too many reports") as caught:
        await spend(limits, "a", 1)
    assert caught.value.retry
    assert caught.value.retry_after == pytest.approx(1 / RATE)
    await spend(limits, "b", 1)
    now = 1.0
    await spend(limits, "a", int(RATE))
    with pytest.raises(ReportError):
        await spend(limits, "a", 1)
    now = 1e6
    await spend(limits, "a", int(BURST))


async def test_refusals_wait_a_little_and_not_too_many() -> None:
    """So many of one caller are held, the others are turned away at once."""
    limits = Limits(lambda: 0.0)
    await spend(limits, "a", int(BURST) + 1)
    calls = [asyncio.create_task(spend(limits, "a", 1)) for _ in range(DELAYED[0] + 12)]
    done, held = await asyncio.wait(calls, timeout=LINGER / 2)
    assert (len(done), len(held)) == (12, DELAYED[0])
    done, held = await asyncio.wait(calls, timeout=LINGER * 2)
    assert all(isinstance(call.exception(), ReportError) for call in done)
    assert not held


def test_callers_are_remembered_up_to_a_number() -> None:
    limits = Limits(lambda: 0.0)
    for number in range(CALLERS + 100):
        limits.charge(f"caller {number}", 0)
    assert len(limits._balances) == CALLERS


async def test_nobody_in_particular_has_no_limits() -> None:
    limits = Limits(lambda: 0.0)
    await spend(limits, "", int(BURST) * 2)
    async with limits.turn(""), limits.turn(""), limits.turn(""):
        pass


async def spend(limits: Limits, caller: str, calls: int) -> None:
    for _ in range(calls):
        async with limits.turn(caller):
            limits.charge(caller, 0)


async def until(done: Any, seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not done():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("field", [5, 6, 7, 8, 10])
def test_what_holds_too_much_is_refused_before_it_is_read(field: int) -> None:
    """280,000 entries of a map: a hundredth of what it takes to read them."""
    head = b"" if field == 10 else pb.ReportRequest(node_name="n1").SerializeToString()
    entries = b"".join(bytes([field << 3 | 2, 8, 10, 6]) + b"%06x" % number for number in range(280_000))
    blob = b"".join(b"\x0a\x08\x0a\x06%06x" % number for number in range(280_000))
    data = pb.Feature(flags=pb.FlagFeatureSet.FromString(blob)).SerializeToString() if field == 10 else head + entries
    started = time.process_time()
    (pb.Feature if field == 10 else pb.ReportRequest).FromString(data)
    read, started = time.process_time() - started, time.process_time()
    with pytest.raises(ValueError, match="280000"):
        (from_blob if field == 10 else convert.decode)(data)
    assert time.process_time() - started < read / 3
