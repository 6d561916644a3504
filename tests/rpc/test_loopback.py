"""Worker and master over real gRPC."""

from __future__ import annotations

import asyncio
import os
import socket

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from nfd.errors import ReportError
from nfd.features import Features
from nfd.report import Report, SourceState, State
from nfd.report_order import Order
from nfd.rpc import convert
from nfd.rpc.client import Reporter
from nfd.rpc.server import MAX_MESSAGE, LabelerServer
from tests.rpc import nfd016
from tests.rpc.loopback import relay, running

KCONFIG = {f"OPTION_{number}": "y" for number in range(2_000)}
FEATURES = Features(
    {"cpu.cpuid": frozenset({"AVX", "AVX2"})},
    {"kernel.config": KCONFIG, "kernel.version": {"full": "6.1.0"}},
    {"pci.device": ({"class": "0300", "vendor": "10de"}, {"class": "0200"}), "usb.device": ()},
)


def report(node: str = "n1", features: Features = FEATURES, sequence: int = 1) -> Report:
    return Report(
        node, "1.0", "uid-1", Order("boot", 5, sequence), {"a/b": "c"}, {"note": "x"}, {"a/b": "pci"},
        {"pci": SourceState(State.FRESH), "usb": SourceState(State.FAILED, "no", 3.5)}, features,
    )  # fmt: skip


async def test_a_report_arrives_whole() -> None:
    async with running() as master:
        reply = await master.send(report())
        assert reply.heartbeat == 300.0
        assert master.taken.reports == [report()]


async def test_a_reply_has_the_labels_of_the_node_that_choose_a_configuration() -> None:
    chosen = {"nvidia.com/device-plugin.config": "shared", "nvidia.com/gpu.deploy.dra-driver": "true"}
    odd = {"nvidia.com/gpu.deploy.../../etc": "true", "nvidia.com/gpu.deploy.driver": "../x", "team": "a"}
    async with running() as master:
        assert (await master.send(report())).node_labels is None
        master.taken.node_labels = {}
        assert (await master.send(report(sequence=2))).node_labels == {}
        master.taken.node_labels = chosen | odd
        assert (await master.send(report(sequence=3))).node_labels == chosen


async def test_known_features_do_not_travel_again() -> None:
    """A beat is some hundred bytes; another node with the same kernel brings its other features only."""
    async with running() as master, relay(master.port) as link:
        sizes = []
        for one in (
            report(),
            report(sequence=2),
            report("n2", Features(attributes={"kernel.config": KCONFIG, "other": {"x": "y"}})),
        ):
            before = link.sent
            await asyncio.to_thread(Reporter(f"localhost:{link.port}").send, one)
            sizes.append(link.sent - before)
    whole, beat, shared = sizes
    assert beat < 1_500
    assert shared < 2_500
    assert whole > 2 * max(beat, shared)
    one, again, other = (taken.features.attributes["kernel.config"] for taken in master.taken.reports)
    assert one is again is other, "one parsed copy for all"


async def test_only_what_known_nodes_use_is_kept() -> None:
    async with running() as master:
        await master.send(report("n1"))
        await master.send(report("n2", Features(attributes={"kernel.config": KCONFIG})))
        assert len(master.server.features) == 5
        await master.send(report("n1", Features(), sequence=2))
        assert len(master.server.features) == 1
        master.server.features.forget("n2")
        master.server.features.forget("never-seen")
        assert len(master.server.features) == 0


async def test_a_refused_report_leaves_nothing() -> None:
    async with running() as master:
        master.taken.refuse = ReportError("older than the last", retry=False)
        with pytest.raises(ReportError, match="older than the last"):
            await master.send(report())
        assert len(master.server.features) == 0


async def test_one_node_cannot_fill_the_memory_call_by_call() -> None:
    features = {f"f{number}": {str(number): "x" * 2_000_000} for number in range(5)}
    async with running() as master:
        for count in range(1, 5):
            await master.send(report(features=Features(attributes=dict(list(features.items())[:count]))))
        with pytest.raises(ReportError, match=r"INVALID_ARGUMENT: \d+ bytes of features, at most"):
            await master.send(report(features=Features(attributes=features)))
        assert len(master.server.features) == 4


async def test_features_that_nobody_asked_for_are_refused() -> None:
    """Blobs count only for what the report refers to, by a digest the server makes itself."""
    alien = convert.encode(report(features=Features(attributes={"x": {"y": "z"}})))
    lying = convert.Outgoing(convert.encode(report(features=Features())).request, alien.contents)

    def call(port: int) -> None:
        with grpc.insecure_channel(f"localhost:{port}") as channel:
            channel.unary_unary("/labeler.Labeler/Report")(lying.with_blobs(lying.contents), timeout=5)

    async with running() as master:
        with pytest.raises(grpc.RpcError) as caught:
            await master.call(call)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert len(master.server.features) == 0


@pytest.mark.parametrize(
    ("refusal", "code", "retry", "after"),
    [
        (
            ReportError("busy", retry=True, retry_after=1.25, code="RESOURCE_EXHAUSTED"),
            "RESOURCE_EXHAUSTED",
            True,
            1.25,
        ),
        (ReportError("no leader", retry=True, retry_after=2), "UNAVAILABLE", True, 2.0),
        (ReportError("older", retry=False), "FAILED_PRECONDITION", False, None),
        (ReportError("ümlaut\nline", retry=False, code="PERMISSION_DENIED"), "PERMISSION_DENIED", False, None),
        (RuntimeError("a defect"), "INTERNAL", True, None),
        (ValueError("a defect"), "INTERNAL", True, None),
    ],
)
async def test_refusals_cross_the_wire(refusal: Exception, code: str, retry: bool, after: float | None) -> None:
    async with running() as master:
        master.taken.refuse = refusal
        with pytest.raises(ReportError) as caught:
            await master.send(report())
    error = caught.value
    assert (error.code, error.retry, error.retry_after) == (code, retry, after)
    assert str(error).startswith(f"{master.address}: {code}: ")
    assert "a defect" not in str(error)
    assert code == "INTERNAL" or str(error).endswith(str(refusal))


async def test_strangers_are_turned_away_before_features_are_parsed() -> None:
    async with running() as master:
        with pytest.raises(ReportError, match="PERMISSION_DENIED: not your node"):
            await master.send(report("stranger"))


async def test_the_leader_is_followed() -> None:
    async with running() as follower, running() as leader:
        follower.taken.refuse = ReportError(
            "not leading", retry=True, code="FAILED_PRECONDITION", leader=leader.address
        )
        assert (await follower.send(report())).heartbeat == 300.0
        assert leader.taken.reports == [report()]
        leader.taken.refuse = ReportError("nor I", retry=True, code="FAILED_PRECONDITION", leader=follower.address)
        async with asyncio.timeout(20):
            with pytest.raises(ReportError, match="not leading"):
                await follower.send(report())  # two hops, then it is given up


async def test_a_master_that_is_away() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ReportError) as caught:
            await asyncio.to_thread(Reporter(address).send, report())
    assert (caught.value.code, caught.value.retry) == ("UNAVAILABLE", True)


async def test_a_master_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(ReportError) as caught:
        await asyncio.to_thread(Reporter(f"127.0.0.1:{mute.getsockname()[1]}", deadline=0.3).send, report())
    assert caught.value.retry


async def test_worker_of_0_16_to_our_master() -> None:
    message = nfd016.v016()(nfd_version="v0.16.0", node_name="n1", labels={"cpu-x": "true"})
    message.features.vattributes["kernel.version"].elements["full"] = "5.4"
    async with running() as master:
        assert await master.call(lambda port: nfd016.set_labels(port, message.SerializeToString())) == b""
        assert (
            await master.call(lambda port: nfd016.set_labels(port, nfd016.v004()(node_name="n1").SerializeToString()))
            == b""
        )
    first, second = master.taken.reports
    assert first == Report(
        "n1", "v0.16.0", labels={"cpu-x": "true"}, features=Features(attributes={"kernel.version": {"full": "5.4"}})
    )
    assert second == Report("n1")
    assert first.order is None


async def test_our_worker_to_a_master_of_0_16() -> None:
    with nfd016.master() as (port, taken):
        reply = await asyncio.to_thread(Reporter(f"localhost:{port}", heartbeat=45.0).send, report())
        assert reply.heartbeat == 45.0
    (message,) = taken
    assert (message.nfd_version, message.node_name, dict(message.labels)) == ("1.0", "n1", {"a/b": "c"})
    assert dict(message.features.vattributes["kernel.config"].elements) == KCONFIG
    assert set(message.features.flags["cpu.cpuid"].elements) == {"AVX", "AVX2"}
    assert [dict(one.attributes) for one in message.features.instances["pci.device"].elements] == [
        {"class": "0300", "vendor": "10de"}, {"class": "0200"},
    ]  # fmt: skip
    assert "usb.device" in message.features.instances


async def test_hostile_bytes_end_with_a_status_and_harm_nobody() -> None:
    def call(method: str, data: bytes) -> object:
        with grpc.insecure_channel(f"localhost:{master.port}") as channel:
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(f"/labeler.Labeler/{method}")(data, timeout=5)
            return caught.value.code()

    def scribble(port: int) -> None:
        with socket.create_connection(("localhost", port)) as link:
            link.sendall(os.urandom(4096))

    async with running() as master:
        for method in ("SetLabels", "Report"):
            assert await asyncio.to_thread(call, method, b"\xff\xff") is grpc.StatusCode.INVALID_ARGUMENT
            assert await asyncio.to_thread(call, method, b"") is grpc.StatusCode.INVALID_ARGUMENT
            assert await asyncio.to_thread(call, method, bytes(MAX_MESSAGE + 1)) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await asyncio.to_thread(call, "Unheard", b"") is grpc.StatusCode.UNIMPLEMENTED
        await master.call(scribble)
        assert (await master.send(report())).heartbeat == 300.0


async def test_health_and_reflection() -> None:
    def look(port: int) -> tuple[list[int], set[str], set[str]]:
        with grpc.insecure_channel(f"localhost:{port}") as channel:
            check = health_pb2_grpc.HealthStub(channel).Check
            states = [check(health_pb2.HealthCheckRequest(), timeout=5).status]
            with pytest.raises(grpc.RpcError) as caught:
                check(health_pb2.HealthCheckRequest(service="unheard"), timeout=5)
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
            database = ProtoReflectionDescriptorDatabase(channel)
            file = database.FindFileContainingSymbol("labeler.Labeler")
            return states, set(database.get_services()), {method.name for method in file.service[0].method}

    async with running() as master:
        states, services, methods = await master.call(look)  # type: ignore[misc]
        assert states == [health_pb2.HealthCheckResponse.SERVING]
        assert services == {
            "labeler.Labeler", "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection",
        }  # fmt: skip
        assert methods == {"SetLabels", "Report", "Replicate"}
        await master.server.serving(False)
        states, _, _ = await master.call(look)  # type: ignore[misc]
        assert states == [health_pb2.HealthCheckResponse.NOT_SERVING]


async def test_a_taken_port_is_an_error() -> None:
    async with running() as master:
        with pytest.raises(OSError, match="cannot listen on"):
            await LabelerServer(master.taken.accept).start(f"localhost:{master.port}")
