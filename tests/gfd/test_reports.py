"""Machines from reports: what NVML said there, with the machine's root."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nfd.host import Host
from tests.gfd.machines import laid
from tests.gfd.test_source import scan, short
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

REPORTS = Path(__file__).parents[1] / "cases" / "reports"
MACHINES = sorted(path for folder in ("153-*", "154-*") for path in REPORTS.glob(f"{folder}/*.json"))


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_memory_that_is_the_machines(path: Path, tmp_path: Path) -> None:
    """A GB10, whose drivers tell a total of the machine's memory, of nothing, or Not Supported."""
    shutil.copytree(path.parent / "root", tmp_path / "host")
    with laid(json.loads(path.read_text()), tmp_path) as machine:
        found = scan(Host(tmp_path / "host", machine.libraries.env))
    assert short(found, "product", "memory", "memory.unified", "state") == ["NVIDIA-GB10", "124610", "true", None]
    assert not found.failed
    assert not found.problems


def test_the_reports_are_there() -> None:
    assert [path.stem for path in MACHINES] == ["notsupported", "success", "zero"]


@pytest.mark.parametrize("memory", [{"memory_bytes": 130663165952}, {"memory_bytes": 0}, {}])
@pytest.mark.parametrize("compute", ["8.7", "11.0", "12.1"])
def test_the_memory_of_the_machine_cannot_be_read(memory: dict[str, int], compute: str, tmp_path: Path) -> None:
    """Then nothing of it goes."""
    device = {"name": "NVIDIA GB10", "compute": compute, **memory, "pci": {"bus_id": "0000000F:01:00.0"}}
    with laid({"devices": [device]}, tmp_path, {"proc/meminfo": {"dir": True}}) as machine:
        found = scan(machine.host)
    assert short(found, "memory.unified") == ["true"]
    assert found.failed or "nvidia.com/gpu.memory" in found.labels


def test_a_gpu_with_memory_of_its_own_that_tells_none_is_failing(tmp_path: Path) -> None:
    device = {"name": "NVIDIA L4", "compute": "8.9", "memory_bytes": 0, "pci": {"bus_id": "00000000:01:00.0"}}
    with laid({"devices": [device]}, tmp_path) as machine:
        found = scan(machine.host)
    assert short(found, "product", "memory", "memory.unified", "state") == ["NVIDIA-L4", None, None, "degraded"]
    assert found.failed
