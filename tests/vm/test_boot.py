"""One machine from power-on to a labelled Node, its worker confined as the manifest says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm import confinement
from tests.vm.conftest import Boot
from tests.vm.following import Slot
from tests.vm.guest import SETTINGS, Guest
from tests.vm.recording import Recording, disagreements
from tests.vm.shapes import CPUID, SHAPES

SHAPE = SHAPES["qemu-max"]


@pytest.fixture(scope="module")
def guest(boot: Boot) -> Iterator[Guest]:
    with boot(SHAPE.hardware) as guest:
        yield guest


def test_labels_are_those_of_the_machine(guest: Guest) -> None:
    labels = {key: value for key, value in guest.labels().items() if not key.startswith(CPUID)}
    assert labels == SHAPE.expected(guest.machine.disks.release)


def test_worker_is_confined(guest: Guest) -> None:
    process = f"/proc/{guest.worker_pid()}"
    confinement.check_process(confinement.parse_status(guest.machine.read(f"{process}/status")))
    mounts = confinement.parse_mounts(guest.machine.read(f"{process}/mountinfo"))
    confinement.check_mounts(mounts, guest.pod.workload, {"/etc/os-release": "/usr/lib/os-release", "/lib": "/usr/lib"})


def test_recording_replays_as_the_machine_was(guest: Guest, tmp_path: Path) -> None:
    """And its CPU flags are those that the guest's kernel prints."""
    recording = Recording.of(guest, tmp_path / "recording")
    found = recording.discovered(SETTINGS, guest.node.name)
    assert found["labels"] == guest.node.labels
    flags = set(found["features"]["flags"]["cpu.cpuid"]["elements"])
    assert disagreements(flags, guest.machine.read("/proc/cpuinfo"))[0] == []


def test_node_follows_a_disk(guest: Guest) -> None:
    """The labels that come and go with it, each once, and no other; in which time says `make vm`."""
    slot = Slot(guest)
    slot.plug()
    slot.unplug()
