"""The worker as a process: what it reports, what it survives, how it ends."""

from __future__ import annotations

import asyncio
import http.client
import signal
import socket
from pathlib import Path

import pytest

from nfd.errors import ReportError
from nfd.report import State
from tests.controlplane.process import free_ports
from tests.rpc.loopback import Running, running
from tests.worker.process import FEATURES_D, SLOT, make_machine, next_report, until, worker

CARD_LABEL = "feature.node.kubernetes.io/pci-0300_10de.present"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return make_machine(tmp_path / "machine")


def flags(machine: Path, port: int, *more: str, http: int = 0) -> list[str]:
    return [f"--host-root={machine}", f"--server=localhost:{port}", f"-port={http}", "--config=", *more]


async def first_report(master: Running) -> None:
    await until(lambda: bool(master.taken.reports))


async def test_its_loop_has_a_limit(machine: Path) -> None:
    """A stray signal of the timer for it ends nothing either."""
    async with running() as master, worker(*flags(machine, master.port)) as ours:
        await first_report(master)
        fields = dict(line.split(":\t") for line in Path(f"/proc/{ours.process.pid}/status").read_text().splitlines())
        assert int(fields["SigCgt"], 16) >> (signal.SIGPROF - 1) & 1
        ours.process.send_signal(signal.SIGPROF)
        (machine / FEATURES_D / "mine").write_text("example.com/mine=2\n")
        assert (await next_report(master)).labels["example.com/mine"] == "2"


async def test_labels_follow_the_machine(machine: Path) -> None:
    """A feature file at once; a device that is gone takes its label with it and no other."""
    async with running() as master, worker(*flags(machine, master.port)) as ours:
        await first_report(master)
        (first,) = master.taken.reports
        assert first.node == "n1"
        assert first.labels[CARD_LABEL] == "true"
        assert first.labels["example.com/mine"] == "1"
        assert first.origins[CARD_LABEL] == "pci"
        assert set(first.sources) >= {"cpu", "fake", "local", "pci"}
        assert (first.sources["pci"].state, first.sources["fake"].state) == (State.FRESH, State.OFF)
        assert first.features.instances["pci.device"][0]["vendor"] == "10de"
        assert first.order is not None
        assert first.order.sequence == 1

        (machine / FEATURES_D / "mine").write_text("example.com/mine=2\n")
        second = await next_report(master)
        assert second.labels == {**first.labels, "example.com/mine": "2"}

        (machine / SLOT).rename(machine.parent / "pulled")  # in one step, as the kernel does it
        third = await next_report(master)
        if third.labels == second.labels:  # asks for the Node's labels before NVML is opened
            third = await next_report(master)
        gone = {key for key, source in first.origins.items() if source in ("pci", "nvidia", "accelerator")}
        assert third.labels == {key: value for key, value in second.labels.items() if key not in gone}
        assert await ours.end() == (0, pytest.approx(0, abs=2))


async def test_a_master_that_comes_late_and_goes_away(machine: Path) -> None:
    """The worker stays the same process, and what arrives in the end is the newest state."""
    (port,) = free_ports(1)
    failing, working = "report not accepted; trying again", "reports are accepted again"
    async with worker(*flags(machine, port)) as ours:
        for outage, value in enumerate(("2", "3"), 1):
            (machine / FEATURES_D / "mine").write_text(f"example.com/mine={value}\n")
            await ours.says(failing, outage)
            async with running(port=port) as master:
                await first_report(master)
                assert master.taken.reports[0].labels["example.com/mine"] == value
                await ours.says(working, outage)
        assert ours.process.returncode is None
        assert ours.events().count(failing) == 2, "one line per outage"


async def test_kill_and_restart_repeat_the_same_report_with_a_newer_order(machine: Path) -> None:
    async with running() as master:
        for _ in range(2):
            async with worker(*flags(machine, master.port)) as ours:
                await next_report(master)
                ours.process.kill()
    first, second = master.taken.reports
    assert first.order is not None
    assert second.order is not None
    assert first.order < second.order
    assert first.order.boot_id == second.order.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (first.labels, first.origins) == (second.labels, second.origins)


async def test_an_unchanged_machine_is_silent(machine: Path) -> None:
    """Scan after scan, with every source, nothing that changes by itself (a time, a counter) is reported."""
    each_second = "-options={core: {sleepInterval: 1s}}"
    async with running() as master, worker(*flags(machine, master.port, each_second)) as ours:
        await first_report(master)
        await asyncio.sleep(3.5)
        assert await ours.end() == (0, pytest.approx(0, abs=2))
    first, *more = [one.features for one in master.taken.reports]
    assert [one for one in more if one != first] == []


async def test_beats_come_as_the_master_asks(machine: Path) -> None:
    async with running() as master:
        master.taken.beat = 1.0
        async with worker(*flags(machine, master.port)):
            await until(lambda: len(master.taken.reports) >= 3)
    first, second, third = master.taken.reports[:3]
    assert [one.order.sequence for one in (first, second, third) if one.order] == [1, 2, 3]
    assert first.labels == third.labels


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_within_two_seconds_whatever_the_master_does(machine: Path, number: int) -> None:
    """Here it takes the connection and says nothing."""
    with socket.create_server(("localhost", 0)) as mute:
        mute.setblocking(False)
        async with worker(*flags(machine, mute.getsockname()[1])) as ours:
            link, _ = await asyncio.get_running_loop().sock_accept(mute)
            assert await ours.end(number) == (0, pytest.approx(0, abs=2))
            link.close()


async def test_sighup_and_changed_files_load_the_configuration(machine: Path, tmp_path: Path) -> None:
    """A broken one is an error in the log, and the old one stays."""
    config = tmp_path / "etc/nfd-worker.conf"
    config.parent.mkdir()
    async with running() as master, worker(*flags(machine, master.port)[:3], f"--config={config}") as ours:
        await first_report(master)
        assert CARD_LABEL in master.taken.reports[0].labels
        config.write_text("core: {labelSources: [-pci, local]}\n")
        assert set((await next_report(master)).labels) == {"example.com/mine"}
        config.write_text("core: {sleepInterval: [1]}\n")
        await ours.says("configuration is invalid; the previous one stays in use")
        assert f"{config}" in ours.lines[-1]["error"]
        config.write_text("core: {labelSources: [pci]}\n")
        assert "example.com/mine" not in (await next_report(master)).labels
        loaded = ours.events().count("configuration loaded")
        ours.process.send_signal(signal.SIGHUP)
        await ours.says("configuration loaded", loaded + 1)
        assert await ours.end() == (0, pytest.approx(0, abs=2))


async def test_what_says_the_same_loads_nothing(machine: Path, tmp_path: Path) -> None:
    """A feature file that is written after each such write is reported, and that is all."""
    config = tmp_path / "conf/nfd-worker.conf"
    config.parent.mkdir()
    config.write_text("core: {labelSources: [local]}\n")
    changes = (config.touch, lambda: config.write_bytes(config.read_bytes()), config.with_name("other").touch)
    async with running() as master, worker(*flags(machine, master.port)[:3], f"--config={config}") as ours:
        await first_report(master)
        for number, change in enumerate(changes):
            change()
            (machine / FEATURES_D / "after").write_text(f"example.com/after={number}\n")
            assert (await next_report(master)).labels["example.com/after"] == str(number)
        assert "configuration loaded" not in ours.events()
        config.write_text("core: {labelSources: [-local]}\n")
        await ours.says("configuration loaded")


async def test_oneshot(machine: Path) -> None:
    async with running() as master:
        async with worker(*flags(machine, master.port, "-oneshot")) as ours:
            assert await asyncio.wait_for(ours.process.wait(), 20) == 0
        assert len(master.taken.reports) == 1
        master.taken.refuse = ReportError("not for you", retry=False, code="PERMISSION_DENIED")
        async with worker(*flags(machine, master.port, "-oneshot")) as ours:
            assert await asyncio.wait_for(ours.process.wait(), 20) == 1
        assert "not for you" in ours.lines[-1]["error"]
    async with worker(*flags(machine, *free_ports(1), "-oneshot", "-no-publish")) as ours:
        assert await asyncio.wait_for(ours.process.wait(), 20) == 0


async def test_http(machine: Path) -> None:
    def get(path: str) -> tuple[int, str]:
        link = http.client.HTTPConnection("localhost", port, timeout=5)
        link.request("GET", path, headers={"Accept": "application/openmetrics-text"})
        reply = link.getresponse()
        return reply.status, reply.read().decode()

    (port,) = free_ports(1)
    async with running() as master, worker(*flags(machine, master.port, http=port)) as ours:
        await first_report(master)
        assert await asyncio.to_thread(get, "/healthz") == (200, "ok\n")
        assert await asyncio.to_thread(get, "/readyz") == (200, "ok\n")
        await until(lambda: "nfd_worker_reports_total 1\n" in get("/metrics")[1])
        text = (await asyncio.to_thread(get, "/metrics"))[1]
        assert 'nfd_worker_feature_discovery_duration_seconds_count{node="n1"} 1\n' in text
        assert 'nfd_worker_source_failed{source="pci"} 0\n' in text
        assert "nfd_worker_last_report_age_seconds 0." in text
        assert text.endswith("# EOF\n")
        assert await ours.end() == (0, pytest.approx(0, abs=2))


async def test_a_taken_http_port_is_no_reason_to_stop(machine: Path) -> None:
    async with running() as master:
        with socket.create_server(("", 0)) as other:
            async with worker(*flags(machine, master.port, http=other.getsockname()[1])) as ours:
                await first_report(master)
                assert "cannot serve probes and metrics" in ours.events()


@pytest.mark.parametrize(
    ("words", "variables", "text"),
    [
        (["-nonsense"], {}, "-nonsense: unknown flag"),
        (["stray"], {}, "'stray': not a flag"),
        (["-port=x"], {}, "-port: 'x' is not a whole number"),
        (["-port=70000"], {}, "70000 is not a port number"),
        (["-ca-file=a", "-key-file=b"], {}, "must be given together"),
        (["-options={core: {sleepInterval: x}}"], {}, "core.sleepInterval"),
        (["-server=master"], {}, "-server: 'master' is not HOST:PORT"),
        (["-replay=/nonexistent"], {}, "--replay /nonexistent: No such file"),
        (["-host-root=/nonexistent"], {}, "--host-root /nonexistent: No such file"),
        (["-feature-gates=Nonsense=true"], {}, "'Nonsense' is not a feature gate"),
        ([], {"NODE_NAME": "Not_A_Node"}, "NODE_NAME: node name 'Not_A_Node' must be"),
    ],
)
async def test_usage_errors_are_one_line_and_status_2(words: list[str], variables: dict[str, str], text: str) -> None:
    async with worker("-config=", *words, **{"node": "n1", **variables}) as ours:
        assert await asyncio.wait_for(ours.process.wait(), 20) == 2
    (line,) = ours.events()
    assert line.startswith("nfd-worker: ")
    assert text in line


@pytest.mark.parametrize("dash", ["-", "--"])
async def test_every_flag_that_nfd_users_know(machine: Path, dash: str) -> None:
    """NFD 0.19 and 0.16, gRPC mode included."""
    known = (
        "config= options= kubeconfig=x oneshot port=0 no-publish no-owner-refs owner-refs=node,pod,ds "
        "feature-sources=pci label-sources=all,-local no-publish-features=pci.* "
        "feature-gates=NodeFeatureGroupAPI=true "
        "server=localhost:1 server-name-override=x ca-file= cert-file= key-file= enable-nodefeature-api=false "
        "grpc-health=8082 add_dir_header alsologtostderr alsologtostderrthreshold=INFO "
        "legacy_stderr_threshold_behavior "
        "log_backtrace_at= log_dir=/tmp log_file= log_file_max_size=1 logtostderr one_output skip_headers "
        "skip_log_headers stderrthreshold=2 v=1 vmodule="
    )
    async with worker(f"--host-root={machine}", *(f"{dash}{word}" for word in known.split())) as ours:
        assert await asyncio.wait_for(ours.process.wait(), 20) == 0, ours.lines
    async with worker(f"--host-root={machine}", f"{dash}metrics=0", f"{dash}oneshot", f"{dash}no-publish") as ours:
        assert await asyncio.wait_for(ours.process.wait(), 20) == 0
    async with worker(f"{dash}version") as ours:
        assert await asyncio.wait_for(ours.process.wait(), 20) == 0
