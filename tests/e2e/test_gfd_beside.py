"""A worker without the driver library beside GFD, which has it: as where the GPU operator runs GFD itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nfd.cli import main
from tests.e2e.conftest import MakeMaster, MakeNode, StartWorker
from tests.e2e.machines import FEATURES_D, Machine
from tests.e2e.nodes import NAMESPACE, Node
from tests.e2e.programs import eventually, pass_again
from tests.e2e.test_conditions import USABLE, said
from tests.e2e.test_zero_writes import GPU

STATE, PRODUCT = "nvidia.com/gpu.state", "nvidia.com/gpu.product"
GIVEN = {PRODUCT: "Tesla-T4", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "15360"}
NVIDIA = {"NVIDIA_VISIBLE_DEVICES": "", "NFD_NVML_LIBRARY": "/nowhere/libnvidia-ml.so.1"}


class Object:
    """GFD's NodeFeature object."""

    def __init__(self, node: Node, machine: Machine) -> None:
        self.node, self.path = node, f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"
        self.name = f"nvidia-features-for-{node.name}"

    def add(self) -> None:
        metadata = {"name": self.name, "labels": {"nfd.node.kubernetes.io/node-name": self.node.name}}
        body = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature", "metadata": metadata}
        self.node.plane.request("POST", self.path, {**body, "spec": {"labels": GIVEN}})

    def remove(self) -> None:
        self.node.plane.request("DELETE", f"{self.path}/{self.name}")


class File:
    """GFD's feature file."""

    def __init__(self, node: Node, machine: Machine) -> None:
        self.machine = machine

    def add(self) -> None:
        self.machine.write(f"{FEATURES_D}/gfd", "".join(f"{key}={value}\n" for key, value in GIVEN.items()))

    def remove(self) -> None:
        (self.machine.root / FEATURES_D / "gfd").unlink()


@pytest.mark.parametrize("kind", [Object, File])
def test_no_driver_is_not_said_beside_the_labels_of_gfd(
    kind: type[Object] | type[File],
    machines: Callable[[str], Machine],
    nodes: MakeNode,
    masters: MakeMaster,
    workers: StartWorker,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It goes as GFD's labels come, does not come with a new master, and is back when GFD's labels are gone. The
    condition follows."""
    machine = machines("debian-12-epyc-milan")
    machine.plug(GPU, "030200", "10de", "1eb8")
    (machine.root / FEATURES_D).mkdir(parents=True, exist_ok=True)
    node = nodes(machine)
    theirs, master = kind(node, machine), masters("-node-conditions")
    worker = workers(node, master, f"--host-root={machine.root}", **NVIDIA)
    eventually(lambda: node.labels.get(STATE) == "no-driver")
    assert said(node, USABLE) == ("False", "NoDriver")

    theirs.add()
    eventually(lambda: node.labels.get(PRODUCT) == "Tesla-T4")
    eventually(lambda: STATE not in node.labels)
    assert said(node, USABLE) == ("True", "Usable")
    settled, version, mark = node.labels, node.version, node.plane.mark()
    pass_again(worker)
    assert node.writes(mark) == []
    assert main(["explain", node.name, STATE, "--kubeconfig", str(node.plane.kubeconfig)]) == 0
    assert "'library-missing' and 'no-driver' of the worker are left out" in capsys.readouterr().out

    worker.stop()
    master.stop()
    master = masters("-node-conditions")
    worker = workers(node, master, f"--host-root={machine.root}", **NVIDIA)
    pass_again(worker)
    assert node.labels == settled
    assert said(node, USABLE) == ("True", "Usable")
    assert all(state == settled for state in node.states(version)), "neither removed nor added for a moment"

    theirs.remove()
    eventually(lambda: node.labels.get(STATE) == "no-driver")
    assert PRODUCT not in node.labels
    assert said(node, USABLE) == ("False", "NoDriver")
