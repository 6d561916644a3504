"""`gpu-feature-discovery` as a program: its loop, signals, name, output and exit status."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.gfd.cases import PROGRAM, Start, prepare, read_labels, run_process
from tests.gfd.machines import H100, H200, ONE_SLICE, carved
from tests.nvml.asking import needs_compiler
from tests.nvml.library import write_machine

pytestmark = needs_compiler

DEADLINE = 20.0
STATE = "nvidia.com/gpu.state"
PRODUCT = "nvidia.com/gpu.product"

REFERENCE = """
cuda.driver-version.full=580.159.04 cuda.driver-version.major=580 cuda.driver-version.minor=159
cuda.driver-version.revision=04 cuda.driver.major=580 cuda.driver.minor=159 cuda.driver.rev=04
cuda.runtime-version.full=13.0 cuda.runtime-version.major=13 cuda.runtime-version.minor=0
cuda.runtime.major=13 cuda.runtime.minor=0 gpu.count=1 gpu.family=hopper gpu.machine=unknown gpu.memory=81559
gpu.mode=compute gpu.product=NVIDIA-H100-80GB-HBM3 gpu.replicas=1 gpu.sharing-strategy=none mig.capable=true
mps.capable=false vgpu.present=false gpu.compute.major=9 gpu.compute.minor=0
"""
"""Measured with GFD 0.20 on an H100 SXM in a machine without DMI, time stamp off."""


def wait_for(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.01)


class Running:
    """The program in its loop."""

    def __init__(self, start: Start) -> None:
        self.out = start.out
        self.process = subprocess.Popen(
            [str(PROGRAM), *start.argv], env=dict(start.environment), stderr=subprocess.PIPE, text=True
        )

    def labels(self) -> dict[str, str]:
        return read_labels(self.out.read_text()) if self.out.exists() else {}

    def wait_for(self, key: str, value: str | None) -> None:
        wait_for(lambda: self.out.exists() and self.labels().get(key) == value, f"{key}={value}")

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(machine: Mapping[str, Any], *flags: str, folder: Path = tmp_path, **case: Any) -> Running:
        out = "--output-file={OUT}"
        words = [out, "--use-node-feature-api=false", "--sleep-interval=100ms", *flags]
        start = prepare({"machine": machine, "plain": True, "flags": words, **case}, folder)
        started.append(Running(start))
        return started[-1]

    yield begin
    for one in started:
        one.process.kill()
        one.process.communicate()


@pytest.mark.parametrize(
    ("device", "changed"),
    [(H100, {}), (H200, {"gpu.memory": "143771", "gpu.product": "NVIDIA-H200"})],
    ids=["H100", "H200"],
)
def test_reference_output(device: Mapping[str, Any], changed: Mapping[str, str], tmp_path: Path) -> None:
    start = prepare({"machine": {"devices": [device]}, "flags": ["--no-timestamp"]}, tmp_path)
    assert run_process(start).code == 0
    wanted = {**dict(pair.split("=") for pair in REFERENCE.split()), **changed}
    ours = {"nvidia.com/gpu.present": "true"}
    assert read_labels(start.out.read_text()) == {
        **{f"nvidia.com/{key}": value for key, value in wanted.items()},
        **ours,
    }


def test_its_name_is_argv_0(running: Callable[..., Running]) -> None:
    """As NVIDIA's config-manager looks for it."""
    one = running({"devices": [H100]}, "--no-timestamp")
    one.wait_for(PRODUCT, "NVIDIA-H100-80GB-HBM3")
    proc = Path("/proc", str(one.process.pid))
    words = proc.joinpath("cmdline").read_bytes().split(b"\0")
    assert words[0] == b"gpu-feature-discovery"
    assert words[-1] == b""
    assert [word for word in words[1:] if word][-1] == b"--no-timestamp"
    assert proc.joinpath("comm").read_text().strip() == "gpu-feature-dis"


def test_three_scans(running: Callable[..., Running]) -> None:
    """MIG on with no instance, a handle that fails, and all well: the product stays, the state tells."""
    states = [
        {"devices": [carved(H100)], "inits": 5},
        {"devices": [{**H100, "errors": {"nvmlDeviceGetHandleByIndex": 15}}], "inits": 5},
        {"devices": [H100]},
    ]
    one = running({"states": states})
    for state in ("mig-pending", "degraded", None):
        one.wait_for(STATE, state)
        assert one.labels()[PRODUCT] == "NVIDIA-H100-80GB-HBM3"
        assert one.labels()["nvidia.com/gpu.memory"] == "81559"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_the_file_stays_at_the_end(number: int, running: Callable[..., Running]) -> None:
    one = running({"devices": [H100]})
    one.wait_for(PRODUCT, "NVIDIA-H100-80GB-HBM3")
    before = one.out.read_text()
    assert one.stop(number) == 0
    assert one.out.read_text() == before


def test_a_file_that_another_program_deletes_is_back_at_once(running: Callable[..., Running], tmp_path: Path) -> None:
    """As GFD does when it ends; not for a folder that is gone, which is an error of the next pass."""
    one = running({"devices": [H100]}, "--sleep-interval=infinite")
    one.wait_for(PRODUCT, "NVIDIA-H100-80GB-HBM3")
    before, longest = one.out.read_text(), 0.0
    for _ in range(5):
        one.out.unlink()
        began = time.monotonic()
        wait_for(one.out.exists, "the file")
        longest = max(longest, time.monotonic() - began)
        assert one.out.read_text() == before
    print(f"the file was absent for {1000 * longest:.0f} ms at most")
    assert longest < 2
    one.out.with_name("other").write_text("a=1")
    assert one.stop(signal.SIGTERM) == 0
    assert one.process.stderr is not None
    assert sum("another program removed the labels" in line for line in one.process.stderr) == 5


def test_hangup_reads_the_configuration_again(running: Callable[..., Running], tmp_path: Path) -> None:
    one = running({"devices": [H100]}, "--config-file={DIR}/config.yaml", "--sleep-interval=infinite", config="")
    one.wait_for("nvidia.com/gpu.replicas", "1")
    config = tmp_path / "config.yaml"
    config.write_text("version: v1\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}\n")
    one.process.send_signal(signal.SIGHUP)
    one.wait_for("nvidia.com/gpu.replicas", "4")
    config.write_text("version: v7\n")
    one.process.send_signal(signal.SIGHUP)
    assert one.process.stderr is not None
    line = next(line for line in one.process.stderr if "cannot reload" in line)
    assert "config.yaml:1: version" in line
    assert one.labels()["nvidia.com/gpu.replicas"] == "4"
    assert one.stop(signal.SIGTERM) == 0


def test_labels_survive_a_restart_without_driver(running: Callable[..., Running]) -> None:
    one = running({"devices": [H100]})
    one.wait_for(PRODUCT, "NVIDIA-H100-80GB-HBM3")
    before = one.labels()
    assert one.stop(signal.SIGTERM) == 0
    start = prepare({"machine": {"libraries": [], "devices": [H100]}}, one.out.parent / "again")
    flags = ["--oneshot", f"--output-file={one.out}", "--use-node-feature-api=false", "--fail-on-init-error=false"]
    assert run_process(Start(flags, start.environment, one.out)).code == 0
    stamp = "nvidia.com/gfd.timestamp"
    assert {**one.labels(), stamp: ""} == {**before, stamp: "", STATE: "stale"}
    flags[-1] = "--fail-on-init-error=true"
    kept = one.out.read_text()
    assert run_process(Start(flags, start.environment, one.out)).code == 1
    assert one.out.read_text() == kept


def test_mig_labels_survive_a_restart_while_a_gpu_is_carved(running: Callable[..., Running]) -> None:
    one = running({"devices": [carved(H100, *[ONE_SLICE] * 7)]}, "--mig-strategy=mixed")
    one.wait_for("nvidia.com/mig-1g.10gb.count", "7")
    assert one.stop(signal.SIGTERM) == 0
    start = prepare({"machine": {"devices": [carved(H100)]}}, one.out.parent / "third")
    flags = ["--oneshot", f"-o={one.out}", "--use-node-feature-api=false", "--mig-strategy=mixed"]
    assert run_process(Start(flags, start.environment, one.out)).code == 0
    assert one.labels()[STATE] == "mig-pending"
    assert one.labels()["nvidia.com/mig-1g.10gb.count"] == "7"


def test_the_driver_arrives_without_a_restart(running: Callable[..., Running], tmp_path: Path) -> None:
    one = running({"errors": {"nvmlInit": 9}, "devices": [H100]}, "--fail-on-init-error=false")
    one.wait_for(STATE, "no-driver")
    machine = tmp_path / "machine" / "machine.json"
    fresh = machine.with_suffix(".next")
    fresh.write_text(machine.read_text().replace('"errors": {"nvmlInit": 9}, ', ""))
    fresh.replace(machine)
    one.wait_for(PRODUCT, "NVIDIA-H100-80GB-HBM3")


def test_cleanup_removes_the_file(tmp_path: Path) -> None:
    start = prepare({"machine": {"devices": [H100]}}, tmp_path)
    assert run_process(start).code == 0
    (tmp_path / "gfd-tmp").mkdir()
    assert run_process(Start([*start.argv, "--cleanup"], start.environment, start.out)).code == 0
    assert not start.out.exists()
    assert not (tmp_path / "gfd-tmp").exists()


def test_a_missing_folder_fails(tmp_path: Path) -> None:
    start = prepare({"machine": {"devices": [H100]}}, tmp_path)
    argv = ["--oneshot", f"-o={tmp_path}/none/gfd", "--use-node-feature-api=false"]
    outcome = run_process(Start(argv, start.environment, start.out))
    assert outcome.code == 1
    assert "none/gfd" in outcome.stderr


@pytest.mark.parametrize("flag", ["--help", "-h", "--version", "-v", "-version"])
def test_questions(flag: str) -> None:
    outcome = run_process(Start([flag], {}, Path()))
    assert outcome.code == 0
    assert outcome.stdout.startswith("gpu-feature-discovery") or "gpu-feature-discovery" in outcome.stdout


USAGE = {
    "unknown": (["--surprise"], "--surprise"),
    "two spellings": (["-o", "a", "--output-file", "b"], "output-file"),
    "no value": (["--mig-strategy"], "mig-strategy"),
    "negative time-out": (["--nvml-timeout=-1s"], "nvml-timeout"),
    "no such file": (["--config-file=/nowhere/config.yaml"], "/nowhere/config.yaml"),
    "no such machine": (["--replay=/nowhere", "--oneshot", "-o="], "/nowhere"),
}


@pytest.mark.parametrize("case", USAGE)
def test_usage_errors_are_one_line(case: str) -> None:
    argv, word = USAGE[case]
    outcome = run_process(Start(argv, {}, Path()))
    assert outcome.code == 2
    assert word in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_families_are_data(tmp_path: Path) -> None:
    (tmp_path / "families.yaml").write_text('"9.0": grace-hopper\n"14.0": vera\n')
    vera = {**H100, "compute": "14.2"}
    for number, (device, family) in enumerate(((H100, "grace-hopper"), (vera, "vera"))):
        case = {"machine": {"devices": [device]}, "flags": [f"--families-file={tmp_path}/families.yaml"]}
        start = prepare(case, tmp_path / str(number))
        assert run_process(start).code == 0
        assert read_labels(start.out.read_text())["nvidia.com/gpu.family"] == family
    (tmp_path / "families.yaml").write_text("nine: hopper\n")
    outcome = run_process(start)
    assert outcome.code == 2
    assert re.search("families.yaml.*nine", outcome.stderr)


def test_config_errors_name_file_line_and_key(tmp_path: Path) -> None:
    text = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: gpu\n      replicas: 1\n"
    start = prepare({"machine": {}, "config": text}, tmp_path)
    outcome = run_process(start)
    assert outcome.code == 2
    assert "config.yaml:6: sharing.timeSlicing.resources[0].replicas: " in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    """A thousand rewrites under a reader that looks all the time."""
    from gfd.output import FileOutput, render

    path = tmp_path / "gfd"
    contents = [{f"nvidia.com/key-{n}": str(which) * 50 for n in range(40)} for which in range(2)]
    FileOutput(str(path)).write(contents[0])
    whole = {render(one) for one in contents}
    seen: set[str] = set()
    looks = 0
    done = threading.Event()

    def look() -> None:
        nonlocal looks
        while not done.is_set():
            seen.add(path.read_text())
            looks += 1

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(1, 1001):
        assert FileOutput(str(path)).write(contents[number % 2])
    done.set()
    reader.join()
    assert seen <= whole
    assert looks > 100
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_is_0644_and_unchanged_content_is_not_rewritten(tmp_path: Path) -> None:
    from gfd.output import FileOutput

    path = tmp_path / "gfd"
    mask = os.umask(0o077)
    try:
        assert FileOutput(str(path)).write({"a": "1", "b": ""})
    finally:
        os.umask(mask)
    before = path.stat()
    assert before.st_mode & 0o777 == 0o644
    assert path.read_text() == "a=1\nb=\n"
    assert FileOutput(str(path)).read() == {"a": "1", "b": ""}
    assert not FileOutput(str(path)).write({"b": "", "a": "1"})
    assert path.stat().st_ino == before.st_ino


CAPABILITIES = "proc/driver/nvidia/capabilities/gpu0/mig"


def test_a_new_layout_of_mig_is_read_before_the_interval_is_over(
    running: Callable[..., Running], tmp_path: Path
) -> None:
    """As soon as the driver's files have stayed the same for a second."""
    files = {f"{CAPABILITIES}/config": ""}
    one = running({"devices": [H100]}, "--sleep-interval=60s", "--mig-strategy=single", files=files)
    one.wait_for(PRODUCT, "NVIDIA-H100-80GB-HBM3")
    write_machine({"devices": [carved(H100, ONE_SLICE)]}, tmp_path / "machine/machine.json")
    (tmp_path / "root" / CAPABILITIES / "gi1/ci0").mkdir(parents=True)
    started = time.monotonic()
    one.wait_for(PRODUCT, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb")
    assert time.monotonic() - started < 3


def test_an_infinite_interval_waits_for_signals_alone(running: Callable[..., Running], tmp_path: Path) -> None:
    one = running({"devices": [H100]}, "--sleep-interval=infinite", files={f"{CAPABILITIES}/config": ""})
    one.wait_for(PRODUCT, "NVIDIA-H100-80GB-HBM3")
    write_machine({"devices": [H200]}, tmp_path / "machine/machine.json")
    (tmp_path / "root" / CAPABILITIES / "gi1/ci0").mkdir(parents=True)
    time.sleep(2.5)
    assert one.labels()[PRODUCT] == "NVIDIA-H100-80GB-HBM3"
    one.process.send_signal(signal.SIGHUP)
    one.wait_for(PRODUCT, "NVIDIA-H200")
