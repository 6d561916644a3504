"""Faults of GPUs that answer: each appears and goes within one scan, in labels, features and metrics."""

from pathlib import Path
from typing import Any

import pynvml
import pytest

from gfd.inventory import Gpu, Inventory
from gfd.labels.faults import details, find_faults
from gfd.labels.settings import LabelSettings
from gfd.nvml.health_and_links import fabric_health
from gfd.nvml.library import unload
from nfd.discovery import Discovery
from nfd.runtime.prometheus import render
from nfd.worker.metrics import Metrics
from tests.gfd.machines import H100, at, laid
from tests.gfd.restarts import alone
from tests.gfd.test_source import scan
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

CLUSTER = "7f3c0102-0304-0506-0708-090a0b0c0dff"
WELL: dict[str, Any] = {
    "recovery": 0,
    "remap": {"pending": 0, "failed": 0},
    "unrepairable": 0,
    "pcie": {"width": 16, "max": 16},
    "nvlinks": [{} for _ in range(18)],
    "fabric": {"cluster_uuid": CLUSTER, "clique": 7, "health": 1, "health_mask": 0x1AA},
}


def fabric(**more: Any) -> dict[str, Any]:
    return {"fabric": {**WELL["fabric"], **more}}


FAULTS: dict[str, tuple[dict[str, Any], dict[str, str], dict[str, str], str]] = {
    # what the second GPU says, labels, features, metric
    "gpu reset": ({"recovery": 1}, {"gpu.recovery": "gpu-reset"}, {"recovery": "gpu-reset"}, "recovery"),
    "node reboot": ({"recovery": 2}, {"gpu.recovery": "node-reboot"}, {"recovery": "node-reboot"}, "recovery"),
    "drain": ({"recovery": 3}, {"gpu.recovery": "drain-p2p"}, {"recovery": "drain-p2p"}, "recovery"),
    "drain, reset": ({"recovery": 4}, {"gpu.recovery": "drain-and-reset"}, {"recovery": "drain-and-reset"}, "recovery"),
    "later action": ({"recovery": 5}, {"gpu.recovery": "5"}, {"recovery": "5"}, "recovery"),
    "odd action": ({"recovery": 4_000_000_000}, {"gpu.recovery": "other"}, {"recovery": "other"}, "recovery"),
    "pending": ({"remap": {"pending": 1, "failed": 0}}, {"gpu.remap": "pending"}, {"remap": "pending"}, "remap"),
    "failed": ({"remap": {"pending": 1, "failed": 1}}, {"gpu.remap": "failed"}, {"remap": "failed"}, "remap"),
    "unrepairable": ({"unrepairable": 1}, {"gpu.remap": "unrepairable"}, {"unrepairable": "true"}, "remap"),
    "not started": (
        fabric(state=1),
        {"gpu.fabric.state": "not-started"},
        {"fabric.state": "not-started"},
        "fabric",
    ),
    "starting": (fabric(state=2), {"gpu.fabric.state": "in-progress"}, {"fabric.state": "in-progress"}, "fabric"),
    "fabric error": (fabric(status=999), {"gpu.fabric.state": "failed"}, {"fabric.state": "failed"}, "fabric"),
    "unhealthy": (fabric(health=2), {"gpu.fabric.state": "unhealthy"}, {"fabric.health": "unhealthy"}, "fabric"),
    "limited": (fabric(health=3), {"gpu.fabric.state": "limited"}, {"fabric.health": "limited"}, "fabric"),
    "no partition": (
        fabric(health=2 - 1, health_mask=4 << 8),
        {"gpu.fabric.state": "misconfigured"},
        {"fabric.health": "misconfigured"},
        "fabric",
    ),
    "older struct": (
        fabric(newest=2, health_mask=1),
        {"gpu.fabric.state": "limited"},
        {"fabric.health": "limited"},
        "fabric",
    ),
    "a link": ({"nvlinks": [{"up": 0}, *[{}] * 17]}, {}, {"nvlink.up": "17", "nvlink.count": "18"}, "nvlink"),
    "all links": ({"nvlinks": [{"up": 0}] * 18}, {}, {"nvlink.up": "0"}, "nvlink"),
    "half the lanes": ({"pcie": {"width": 8, "max": 16}}, {}, {"pcie.width": "8", "pcie.width.max": "16"}, "pcie"),
}


def machine(**second: Any) -> dict[str, Any]:
    return {"devices": [at(1, {**H100, **WELL}), at(2, {**H100, **WELL, **second})]}


def told(found: Discovery) -> dict[str, str]:
    names = ("gpu.state", "gpu.recovery", "gpu.remap", "gpu.fabric.state", "gpu.count.failing")
    return {name: found.labels[f"nvidia.com/{name}"] for name in names if f"nvidia.com/{name}" in found.labels}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_appears_and_goes_within_one_scan(name: str, tmp_path: Path) -> None:
    change, labels, features, kind = FAULTS[name]
    with laid(machine(), tmp_path) as one:
        well = scan(one.host)
        one.becomes(machine(**change))
        ill = scan(one.host, well)
        one.becomes(machine())
        again = scan(one.host, ill)
        calls = [call.function for call in one.libraries.calls()]
    assert told(well) == told(again) == {}
    assert told(ill) == {**labels, "gpu.state": "degraded"}
    first, second = ill.features.instances["nvidia.gpu"]
    assert features.items() <= second.items()
    assert not features.items() <= first.items()
    counts = {"recovery": 0, "remap": 0, "fabric": 0, "nvlink": 0, "pcie": 0}
    assert ill.devices["nvidia"] == {"present": 2, "usable": 2, "failing": 0, **counts, kind: 1}
    assert again.devices["nvidia"] == {"present": 2, "usable": 2, "failing": 0, **counts}
    assert [one.subject for one in ill.problems] == ["GPU 1"]
    assert not ill.failed
    assert ill.labels["nvidia.com/gpu.product"] == well.labels["nvidia.com/gpu.product"]
    assert calls.count("nvmlInitWithFlags") == calls.count("nvmlShutdown") == 3


def test_metrics_have_no_uuid(tmp_path: Path) -> None:
    with laid(machine(recovery=2), tmp_path) as one:
        found = scan(one.host)
    metrics = Metrics("1", "n", 0.0)
    metrics.scanned(found, 0.1, full=True)
    text = render(metrics.families(0.0), openmetrics=True)
    assert 'nfd_worker_devices{source="nvidia",state="recovery"} 1\n' in text
    assert "GPU-" not in text


def test_the_worst_of_all_gpus_is_the_label() -> None:
    def label(**values: list[str]) -> dict[str, str]:
        gpus = [Gpu(n, name="x", recovery=one) for n, one in enumerate(values["recovery"])]
        return dict(details(Inventory(gpus=tuple(gpus)), LabelSettings()).labels)

    assert label(recovery=["none", "drain-p2p", "gpu-reset"]) == {"gpu.recovery": "gpu-reset"}
    assert label(recovery=["drain-and-reset", "6", "5"]) == {"gpu.recovery": "6"}
    assert label(recovery=["7", "node-reboot", "other"]) == {"gpu.recovery": "node-reboot"}
    assert label(recovery=["none", ""]) == {}


@pytest.mark.parametrize(
    ("links", "faulty"),
    [
        ([(12, "gpu"), (12, "gpu"), (0, "")], []),  # two of three PCIe cards have a bridge
        ([(18, "switch"), (18, "switch"), (0, "")], [2]),
        ([(18, "switch"), (17, "switch")], [1]),
        ([(0, ""), (0, "")], []),
        ([(None, ""), (18, "switch")], []),
        ([(6, "gpu"), (5, "gpu")], [1]),
    ],
)
def test_links_are_compared_with_those_of_gpus_of_the_model(
    links: list[tuple[int | None, str]], faulty: list[int]
) -> None:
    gpus = tuple(
        Gpu(n, name="x", nvlink_up=up, nvlink_count=18, nvlink_peer=peer) for n, (up, peer) in enumerate(links)
    )
    assert [fault.gpu for fault in find_faults(Inventory(gpus=gpus))] == faulty
    other = (Gpu(9, name="y", nvlink_up=36, nvlink_peer="switch"),)
    assert [fault.gpu for fault in find_faults(Inventory(gpus=gpus + other))] == faulty


@pytest.mark.parametrize(
    ("mask", "summary", "health"),
    [
        (0, 0, ""),
        (0, 1, "healthy"),
        (0b10101010 | 1 << 8, 0, "healthy"),
        (0b01 << 4, 0, "unhealthy"),
        (0b01 << 4, 1, "unhealthy"),
        (0b01 << 2, 1, "recovering"),
        (0b01 << 6, 1, "recovering"),
        (0b01, 1, "limited"),
        (8 << 8, 3, "misconfigured"),
        (2 << 12, 1, "healthy"),  # no partition is assigned: since fabric manager is configured so
    ],
)
def test_health_of_the_fabric(mask: int, summary: int, health: str) -> None:
    assert fabric_health(mask, summary) == health


MISSING = (
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetUnrepairableMemoryFlag_v1",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetGpuFabricInfoV",
)


def test_an_old_library_reports_no_fault(tmp_path: Path) -> None:
    change = {"recovery": 2, "remap": {"pending": 1}, "unrepairable": 1, "pcie": {"width": 1, "max": 16}}
    with laid({**machine(**change, **fabric(health=2)), "missing": list(MISSING)}, tmp_path) as one:
        found = scan(one.host)
    assert told(found) == {}
    assert not found.problems
    assert not found.failed
    assert found.labels["nvidia.com/gpu.clique"] == f"{CLUSTER}.7", "by the older call"


def test_a_driver_without_the_fields_reports_no_fault(tmp_path: Path) -> None:
    second = {"field_errors": {"230": 2, "144": 3, "145": 13}}
    with laid(machine(**second), tmp_path) as one:
        found = scan(one.host)
    assert told(found) == {}
    assert not found.problems


def test_one_field_that_fails_costs_its_own_label(tmp_path: Path) -> None:
    """The last known value stays, and the others go on."""
    change = {"recovery": 2, "remap": {"pending": 1, "failed": 0}}
    with laid(machine(**change), tmp_path) as one:
        ill = scan(one.host)
        one.becomes(machine(recovery=0, field_errors={"144": 999}))
        half = scan(one.host, ill)
        new = scan(one.host)
    assert told(ill) == {"gpu.recovery": "node-reboot", "gpu.remap": "pending", "gpu.state": "degraded"}
    assert told(half) == {"gpu.remap": "pending", "gpu.state": "degraded", "gpu.count.failing": "1"}
    assert not half.failed
    assert told(new) == {"gpu.state": "degraded", "gpu.count.failing": "1"}
    assert new.failed, "what stands on the Node stays"


def test_a_fault_outlives_the_gpu_that_falls_silent(tmp_path: Path) -> None:
    with laid(machine(recovery=2), tmp_path) as one:
        ill = scan(one.host)
        one.becomes(machine(recovery=2, errors={"nvmlDeviceGetHandleByIndex": 15}))
        for _ in range(3):
            ill = scan(one.host, ill)
            assert told(ill)["gpu.recovery"] == "node-reboot"


def test_a_new_process_keeps_no_fault_that_is_over(tmp_path: Path) -> None:
    """Where another fact cannot be read, labels of the file stay, but not those of which all is known."""
    before = {"nvidia.com/gpu.recovery": "node-reboot", "nvidia.com/gpu.remap": "pending"}
    pending = {"remap": {"pending": 1, "failed": 0}}
    with laid(machine(recovery=2, **pending), tmp_path) as one, alone(one.host, "none", tmp_path) as running:
        assert before.items() <= running.go().items()
        one.becomes(machine(recovery=0, field_errors={"144": 999}, errors={"nvmlDeviceGetMemoryInfo": 999}))
        running.restart("worker restart")
        after = running.go()
    assert "nvidia.com/gpu.recovery" not in after
    assert after["nvidia.com/gpu.remap"] == "pending"


def opened(path: Path) -> tuple[int, int]:
    """Descriptors and mappings of a file in this process."""
    links = [one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    maps = Path("/proc/self/maps").read_text().splitlines()
    return links.count(path), sum(line.endswith(str(path)) for line in maps)


def test_between_scans_no_device_file_is_open_or_mapped(tmp_path: Path) -> None:
    node = tmp_path / "dev" / "nvidia0"
    node.parent.mkdir()
    node.write_bytes(bytes(4096))
    with laid({**machine(), "device_node": str(node)}, tmp_path) as one:
        found = scan(one.host)
        assert opened(node) == (0, 0)
        scan(one.host, found)
        assert opened(node) == (0, 0)
        pynvml.nvmlInit()
        assert opened(node) == (1, 1), "this library opens it, as NVIDIA's does"
        pynvml.nvmlShutdown()
    assert opened(node) == (0, 0)


VERSIONS = "kernel module 580.82.07, library 580.95.05"


def test_a_library_of_another_version_than_the_module(tmp_path: Path) -> None:
    well = {**machine(), "library": "580.95.05"}
    other = {**well, "errors": {"nvmlInit": 18}}
    with laid(other, tmp_path, {"sys/module/nvidia/version": "580.82.07\n"}) as one:
        first = scan(one.host)
        one.becomes(well)
        good = scan(one.host, first)
        one.becomes(other)
        upgraded = scan(one.host, good)
    assert told(first) == told(upgraded) == {"gpu.state": "driver-mismatch"}
    assert told(good) == {}
    assert first.failed
    assert VERSIONS in first.failed["nvidia"]
    assert [VERSIONS in one.reason for one in first.problems if one.subject == "driver"] == [True]
    assert (
        upgraded.features.attributes["nvidia.driver"].items() >= {"module": "580.82.07", "library": "580.95.05"}.items()
    )
    assert upgraded.labels["nvidia.com/gpu.product"] == good.labels["nvidia.com/gpu.product"]


def test_a_module_without_a_library_says_what_to_restart(tmp_path: Path) -> None:
    """As in a container that is older than the driver; and a worker that had the library keeps what it read."""
    files = {"sys/module/nvidia/version": "580.82.07\n"}
    with laid(machine(), tmp_path, files) as one:
        library = one.libraries.nvml
        library.rename(library.with_name("away"))
        first = scan(one.host)
        library.with_name("away").rename(library)
        good = scan(one.host, first)
        library.rename(library.with_name("away"))
        unload()  # as in a new process
        lost = scan(one.host, good)
    assert told(first) == told(lost) == {"gpu.state": "library-missing"}
    assert [one.reason for one in first.problems if one.subject == "driver"] == [first.failed["nvidia"]]
    assert "kernel module 580.82.07" in first.failed["nvidia"]
    assert "restart the pod" in first.failed["nvidia"]
    assert first.features.attributes["nvidia.driver"]["library"] == "missing"
    assert told(good) == {}
    assert lost.labels["nvidia.com/gpu.product"] == good.labels["nvidia.com/gpu.product"]


def test_no_module_and_no_library_is_a_node_without_a_driver(tmp_path: Path) -> None:
    with laid(machine(), tmp_path) as one:
        one.libraries.nvml.unlink()
        found = scan(one.host)
    assert told(found) == {"gpu.state": "no-driver"}
    assert not found.problems
    assert "library" not in found.features.attributes["nvidia.driver"]
