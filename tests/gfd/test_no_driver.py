"""The source `nvidia` where no driver answers: what PCI alone tells, and that nobody complains."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from gfd.pci import read_functions, read_passed_through
from nfd.host import Host
from nfd.host.replay import LIBRARY_VARIABLE, Replay
from tests.gfd.machines import H100, laid
from tests.gfd.test_source import scan, short
from tests.nvml.asking import needs_compiler
from tests.nvml.machines import lay_out

pytestmark = needs_compiler

PCI = {"class": "0x030200", "device": "0x2330", "bus_id": "00000000:3B:00.0"}


def no_driver(tmp_path: Path, pci: dict[str, Any]) -> Path:
    return lay_out({"machine": {"libraries": [], "devices": [{"name": "x", "pci": pci}]}}, tmp_path / "root")


@pytest.fixture
def no_library() -> dict[str, str]:
    return {LIBRARY_VARIABLE: "/nowhere/libnvidia-ml.so.1"}


def test_without_a_driver_pci_tells_and_nobody_complains(tmp_path: Path, no_library: dict[str, str]) -> None:
    found = scan(Host(no_driver(tmp_path, PCI), no_library))
    assert dict(found.labels) == {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.state": "no-driver"}
    assert not found.problems
    assert found.failed, "what a driver told before must not go"


@pytest.mark.parametrize("pci_class", ["0x040300", "0x068000", "0x020000"])
def test_audio_functions_and_bridges_are_no_gpus(pci_class: str, tmp_path: Path, no_library: dict[str, str]) -> None:
    found = scan(Host(no_driver(tmp_path, {**PCI, "class": pci_class}), no_library))
    assert not found.labels
    assert not found.features
    assert not found.failed


@pytest.mark.parametrize("driver", ["vfio-pci", "nvgrace_gpu_vfio_pci"])
def test_passed_through_gpus_need_no_driver(driver: str, tmp_path: Path, no_library: dict[str, str]) -> None:
    found = scan(Host(no_driver(tmp_path, {**PCI, "driver": driver}), no_library))
    assert dict(found.labels) == {"nvidia.com/gpu.present": "true"}


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        (None, "GH100 [H100 SXM5 80GB]"),
        ("10de  NVIDIA Corporation\n\t2330  Of the machine\n", "Of the machine"),
        ("10de  NVIDIA Corporation\n\t2331  Another\n", "UNKNOWN_DEVICE"),
    ],
)
def test_names_are_those_of_the_machine_or_our_own(listed: str | None, name: str, tmp_path: Path) -> None:
    root = no_driver(tmp_path, {**PCI, "driver": "mlx5_vfio_pci"})
    if listed is not None:
        (root / "usr/share/misc").mkdir(parents=True)
        (root / "usr/share/misc/pci.ids").write_text(listed)
    host = Host(root)
    assert [gpu.name for gpu in read_passed_through(host, read_functions(host)).gpus] == [name]


def test_a_driver_that_comes_later_is_found(tmp_path: Path) -> None:
    with laid({"devices": [H100]}, tmp_path) as machine:
        library = machine.libraries.nvml
        away = library.with_name("away")
        library.rename(away)
        first = scan(machine.host)
        away.rename(library)
        second = scan(machine.host, first)
    assert short(first, "present", "state", "product") == ["true", "no-driver", None]
    assert short(second, "present", "state", "product") == ["true", None, "NVIDIA-H100-80GB-HBM3"]


def test_a_machine_without_gpus_is_silent(tmp_path: Path) -> None:
    found = scan(Host(lay_out({"machine": {}}, tmp_path), {}))
    assert not found.features
    assert not found.labels


def test_replay_asks_nobody(tmp_path: Path) -> None:
    """Without a library named and without a recorded inventory, PCI facts are all."""
    found = scan(Replay(no_driver(tmp_path, PCI)))
    assert dict(found.labels) == {"nvidia.com/gpu.present": "true"}
    assert not found.failed


@pytest.mark.parametrize("name", ["vendor", "class", "config", "uevent"])
@pytest.mark.parametrize(("code", "fails"), [(errno.EIO, True), (errno.EMFILE, True), (errno.EACCES, False)])
def test_a_device_that_cannot_be_read_is_not_gone(name: str, code: int, fails: bool, tmp_path: Path) -> None:
    root = no_driver(tmp_path, PCI)
    before = scan(Replay(root))
    failures = {f"sys/bus/pci/devices/0000:3b:00.0/{name}": [code, "out of order"]}
    (root / "host.json").write_text(json.dumps({"failures": failures}))
    found = scan(Replay(root), before)
    assert bool(found.failed) is fails
    if fails:
        assert found.labels == before.labels
        assert found.features == before.features
