"""GPU labels follow MIG: the driver's files change, and the Node's labels within three seconds; NVML stays closed while
MIG manager works."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.controlplane.process import free_ports
from tests.e2e.conftest import MakeNode, StartWorker
from tests.e2e.machines import Machine
from tests.e2e.nodes import Node
from tests.e2e.programs import Program, eventually
from tests.gfd.machines import A100, ONE_SLICE, at, carved
from tests.nvml.asking import needs_compiler
from tests.nvml.library import Libraries, build, write_machine

pytestmark = needs_compiler

GPU = "0000:65:00.0"
BUS = 0x65
SECONDS = 3.0
CAPABILITIES = "proc/driver/nvidia/capabilities"
TWO_SLICES = {**ONE_SLICE, "profile": "2g.20gb", "gi_enum": 1, "gi_profile_id": 14, "gi_slices": 2, "memory_mb": 19968}
PLAIN, ONE, TWO = (at(BUS, A100), carved(at(BUS, A100), *[ONE_SLICE] * 7), carved(at(BUS, A100), *[TWO_SLICES] * 3))
PRODUCT, COUNT, STATE = "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.state"
NAME = "NVIDIA-A100-SXM4-80GB"
MIG_STATE = "nvidia.com/mig.config.state"


@dataclass
class Gpu:
    """A machine with one GPU, its worker and its Node."""

    machine: Machine
    libraries: Libraries
    node: Node
    worker: Program

    def divide(self, device: dict[str, object]) -> None:
        """As the driver does: MIG devices first, then the files that show them."""
        write_machine({"devices": [device]}, self.libraries.machine)
        mig = self.machine.root / CAPABILITIES / "gpu0/mig"
        for old in sorted(mig.rglob("*"), reverse=True):
            old.unlink() if old.is_file() else old.rmdir()
        found = device["mig"]
        assert isinstance(found, dict)
        for number in range(len(found.get("devices", ()))):
            self.machine.write(f"{CAPABILITIES}/gpu0/mig/gi{number + 1}/ci0/access", "DeviceFileMinor: 12\n")

    def product(self, wanted: str, count: str) -> bool:
        labels = self.node.labels
        return (labels.get(PRODUCT), labels.get(COUNT)) == (wanted, count)

    def opened(self) -> int:
        """How often NVML has been initialised so far."""
        return sum(call.function.startswith("nvmlInit") for call in self.libraries.calls())


@pytest.fixture
def gpu(
    machines: Callable[[str], Machine], nodes: MakeNode, master: Program, workers: StartWorker, tmp_path: Path
) -> Gpu:
    libraries = build({"devices": [PLAIN]}, tmp_path / "driver")
    machine = machines("debian-12-epyc-milan")
    machine.plug(GPU, "030200", "10de", "20b2")
    machine.write(f"{CAPABILITIES}/gpu0/mig/config", "")
    (machine.root / CAPABILITIES / "gpu0/mig/config").unlink()
    node = nodes(machine)
    options = "--options={sources: {nvidia: {migStrategy: single}}}"
    worker = workers(node, master, f"--host-root={machine.root}", options, **libraries.env)
    found = Gpu(machine, libraries, node, worker)
    eventually(lambda: found.product(NAME, "1"))
    return found


def within(change: Callable[[], object], condition: Callable[[], bool]) -> float:
    """Seconds from the change until the condition holds."""
    change()
    started = time.monotonic()
    eventually(condition)
    took = time.monotonic() - started
    assert took < SECONDS
    return took


def test_labels_follow_a_new_layout(gpu: Gpu) -> None:
    """The timer is at 60 s. Each change is one reading, and none is made in between."""
    opened = gpu.opened()
    within(lambda: gpu.divide(ONE), lambda: gpu.product(f"{NAME}-MIG-1g.10gb", "7"))
    within(lambda: gpu.divide(TWO), lambda: gpu.product(f"{NAME}-MIG-2g.20gb", "3"))
    within(lambda: gpu.divide(PLAIN), lambda: gpu.product(NAME, "1"))
    assert gpu.opened() - opened == 3


def test_nvml_is_closed_from_the_pause_to_the_resumption(gpu: Gpu) -> None:
    """MIG manager marks the Node before it changes anything, and after it has restarted what it stopped."""
    opened = gpu.opened()
    gpu.node.kubectl_label(f"{MIG_STATE}=pending", "nvidia.com/gpu.deploy.device-plugin=paused-for-mig-change")
    gpu.divide(ONE)
    paused = eventually(lambda: gpu.worker.said("source failed; its last good result stays"))
    assert paused[0]["error"] == f"{MIG_STATE} is pending: NVML is not opened"
    for device in (TWO, ONE):
        gpu.divide(device)
        time.sleep(2.5)  # a change is followed by a scan within that time
    gpu.node.kubectl_label(f"{MIG_STATE}=success")
    time.sleep(2.5)
    assert gpu.opened() == opened, "the device plugin is still paused"
    assert gpu.product(NAME, "1")
    resumed = lambda: gpu.node.kubectl_label("nvidia.com/gpu.deploy.device-plugin=true")  # noqa: E731
    within(resumed, lambda: gpu.product(f"{NAME}-MIG-1g.10gb", "7"))
    assert gpu.opened() == opened + 1
    assert len(gpu.worker.said("source works again")) == 1


def test_a_worker_that_starts_during_the_change_does_not_open_nvml(gpu: Gpu) -> None:
    """It does not know the Node's labels before the master's first reply."""
    gpu.node.kubectl_label(f"{MIG_STATE}=pending")
    gpu.worker.kill()
    opened = gpu.opened()
    gpu.worker.start()
    reason = f"{MIG_STATE} is pending: NVML is not opened"
    eventually(
        lambda: reason in [line["error"] for line in gpu.worker.said("source failed; its last good result stays")]
    )
    assert gpu.opened() == opened
    assert gpu.product(NAME, "1")
    gpu.divide(ONE)
    done = lambda: gpu.node.kubectl_label(f"{MIG_STATE}=success")  # noqa: E731
    within(done, lambda: gpu.product(f"{NAME}-MIG-1g.10gb", "7"))
    assert gpu.opened() == opened + 1


def test_a_worker_without_a_master_reads_the_gpus_all_the_same(
    machines: Callable[[str], Machine], tmp_path: Path
) -> None:
    libraries = build({"devices": [PLAIN]}, tmp_path / "driver")
    machine = machines("debian-12-epyc-milan")
    machine.plug(GPU, "030200", "10de", "20b2")
    machine.write(f"{CAPABILITIES}/gpu0/mig/config", "")
    nobody, http_port = free_ports(2)
    words = (f"--server=localhost:{nobody}", f"--http-port={http_port}", "--config=", f"--host-root={machine.root}")
    worker = Program("nfd-worker", words, tmp_path / "log", http_port, {"NODE_NAME": "alone", **libraries.env})
    worker.start()
    try:
        eventually(lambda: libraries.calls())
        assert not worker.said("source failed; its last good result stays")
    finally:
        worker.kill()


def test_a_driver_that_leaves_and_comes_back(gpu: Gpu) -> None:
    """Without kernel events: the folder in /proc goes with the module."""
    driver = gpu.machine.root / "proc/driver/nvidia"

    def leave() -> None:
        write_machine({"devices": [], "errors": {"nvmlInitWithFlags": 9}}, gpu.libraries.machine)
        driver.rename(gpu.machine.root / "unloaded")

    def come_back() -> None:
        write_machine({"devices": [PLAIN]}, gpu.libraries.machine)
        (gpu.machine.root / "unloaded").rename(driver)

    within(leave, lambda: gpu.node.labels.get(STATE) == "stale")
    assert gpu.product(NAME, "1")
    within(come_back, lambda: STATE not in gpu.node.labels)
