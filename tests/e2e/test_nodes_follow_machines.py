"""What the machine has is on its Node, and nothing that is not ours is touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.e2e.conftest import MakeNode, StartWorker
from tests.e2e.machines import Machine, discovered, expected_labels
from tests.e2e.nodes import ORIGINS, OWNED, F
from tests.e2e.programs import Program, eventually, pass_again

MakeMachine = Callable[[str], Machine]
GPU, OTHER_GPU, DISPLAY = "0000:c1:00.0", "0000:c2:00.0", "0000:c3:00.0"


@pytest.mark.parametrize("recording", ["dgx-a100", "debian-12-epyc-milan", "raspberry-pi-4"])
def test_kubectl_get_nodes_show_labels_shows_the_workers_labels(
    recording: str, machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker
) -> None:
    """One patch brings exactly what the recording expects, and the ownership annotations."""
    machine = machines(recording)
    node = nodes(machine, labels={"kubernetes.io/os": "linux"})
    mark = node.plane.mark()
    workers(node, master, f"--replay={machine.root}")
    assert node.shown() == expected_labels(recording) | {"kubernetes.io/os": "linux"}
    assert node.owned() == expected_labels(recording).keys()
    assert node.annotations.keys() == {OWNED, ORIGINS}
    assert [(event.verb, event.subresource, event.code) for event in node.writes(mark)] == [("patch", "", 200)]


def test_a_label_by_kubectl_survives_every_later_pass(
    machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker
) -> None:
    """One in our own namespace too, and one whose key starts as ours do."""
    machine = machines("debian-12-epyc-milan")
    node = nodes(machine)
    worker = workers(node, master, f"--host-root={machine.root}")
    foreign = {"foo": "bar", F + "theirs": "1", F + "pci-ffff_ffff.present": "true", "nvidia.com/theirs": "x"}
    node.kubectl_label(*(f"{key}={value}" for key, value in foreign.items()))
    machine.plug(GPU, "120000", "1000")
    pass_again(worker)
    eventually(lambda: F + "pci-1200_1000.present" in node.labels)
    machine.unplug(GPU)
    pass_again(worker)
    eventually(lambda: F + "pci-1000.present" not in node.labels)
    assert node.labels == discovered(f"--host-root={machine.root}") | foreign
    assert not node.owned() & foreign.keys()


def test_a_removed_pci_device_takes_exactly_its_labels_away_in_the_next_pass(
    machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker
) -> None:
    """Two of one kind, one of another kind, one vendor: each label goes with the last device it stands for."""
    machine = machines("debian-12-epyc-milan")
    for address, kind in ((GPU, "030200"), (OTHER_GPU, "030200"), (DISPLAY, "030000")):
        machine.plug(address, kind, "1eac")
    node = nodes(machine)
    workers(node, master, f"--host-root={machine.root}", "--options={core: {sleepInterval: 1s}}")
    before = node.labels
    own, others, alias = (F + f"pci-{name}.present" for name in ("0300_1eac", "0302_1eac", "1eac"))
    assert {own, others, alias} <= before.keys()
    version = node.version

    machine.unplug(DISPLAY)
    eventually(lambda: own not in node.labels)
    machine.unplug(OTHER_GPU)
    machine.unplug(GPU)
    eventually(lambda: others not in node.labels)
    machine.plug(GPU, "030200", "1eac")
    eventually(lambda: others in node.labels)
    machine.plug(DISPLAY, "030000", "1eac")
    eventually(lambda: own in node.labels)

    rest = {key: value for key, value in before.items() if key not in (own, others, alias)}
    both = {others: "true", alias: "true"}
    assert node.states(version) == [rest | both, rest, rest | both, before]


def test_a_source_that_fails_keeps_its_labels_and_the_others_go_on(
    machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker
) -> None:
    """A file stands where the folder of the PCI devices was; after a restart of the worker it still does."""
    machine = machines("debian-12-epyc-milan")
    machine.plug(GPU, "030200", "1eac")
    node = nodes(machine)
    worker = workers(node, master, f"--host-root={machine.root}")
    before = node.labels
    assert F + "pci-0302_1eac.present" in before

    machine.spoil("sys/bus/pci/devices")
    machine.write("etc/os-release", "ID=other\nVERSION_ID=7.1\n")
    pass_again(worker)
    eventually(lambda: node.labels[F + "system-os_release.ID"] == "other")
    assert pci(node.labels) == pci(before)
    assert worker.metric('nfd_worker_source_failed{source="pci"}') == 1
    told = worker.said("source failed; its last good result stays")
    assert [line["error"] for line in told if line["source"] == "pci"] == [
        "pci.device: sys/bus/pci/devices: is not a directory"
    ]

    worker.kill()
    worker = workers(node, master, f"--host-root={machine.root}")
    assert pci(node.labels) == pci(before)
    machine.mend("sys/bus/pci/devices")
    machine.unplug(GPU)
    pass_again(worker)
    eventually(lambda: F + "pci-0302_1eac.present" not in node.labels)
    assert node.labels == discovered(f"--host-root={machine.root}")


def pci(labels: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key.startswith(F + "pci-")}


def test_a_label_of_ours_that_somebody_deletes_or_changes_is_back_at_once(
    machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker
) -> None:
    """From the watch: the worker says nothing meanwhile."""
    machine = machines("debian-12-epyc-milan")
    node = nodes(machine)
    worker = workers(node, master, f"--host-root={machine.root}")
    before, mark = node.labels, node.plane.mark()
    node.kubectl_label(F + "kernel-version.major-", F + "system-os_release.ID=nonsense", "foo=bar")
    eventually(lambda: node.labels == before | {"foo": "bar"})
    assert len(node.writes(mark)) == 1
    assert worker.metric("nfd_worker_reports_total") == 1


def test_two_nodes_do_not_mix(
    machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker, control_plane: ControlPlane
) -> None:
    recordings = ("dgx-a100", "raspberry-pi-4")
    made = [machines(recording) for recording in recordings]
    pair = [nodes(machine) for machine in made]
    started = [workers(node, master, f"--replay={machine.root}") for node, machine in zip(pair, made, strict=True)]
    mark = control_plane.mark()
    made[0].write("etc/os-release", "ID=mine\n")
    for worker in started:
        pass_again(worker)
    eventually(lambda: pair[0].labels[F + "system-os_release.ID"] == "mine")
    assert pair[1].labels == expected_labels(recordings[1])
    assert pair[1].writes(mark) == []
