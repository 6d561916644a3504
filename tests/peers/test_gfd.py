"""docs/migrating.md with the real GFD: its labels stay when our worker reads the GPUs, and when GFD comes back."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import without_proxy
from tests.e2e.conftest import MakeMaster, MakeNode, StartWorker
from tests.e2e.machines import FEATURES_D, PCI, Machine
from tests.e2e.nodes import NAMESPACE, Node
from tests.e2e.programs import eventually, pass_again
from tests.gfd.machines import H100
from tests.nvml.library import build
from tests.peers.conftest import AddRow
from tests.peers.history import look
from tests.peers.nfd import OBJECTS
from tests.peers.programs import given, given_version
from tests.peers.switch import Switch

PRODUCT = "nvidia.com/gpu.product"
OURS = "this product"
BLIND = '-options={"core": {"featureSources": ["all", "-nvidia"]}}'
"""What `gpu.mode=off` configures: the worker leaves the GPUs to others."""


@dataclass
class Gfd:
    """GFD on one Node; `form`: it writes an object, or a feature file."""

    form: str
    machine: Machine
    node: Node
    libraries: Mapping[str, str]
    log: Path

    @property
    def file(self) -> Path:
        return self.machine.root / FEATURES_D / "gfd"

    @property
    def object(self) -> str:
        return f"{OBJECTS}/nvidia-features-for-{self.node.name}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """It ends with the block, and its object with its pod."""
        plane = self.node.plane
        flags = [f"--output-file={self.file}", "--mig-strategy=none", "--sleep-interval=1s"]
        flags += [f"--use-node-feature-api={str(self.form == 'object').lower()}"]
        env = {**without_proxy(), **self.libraries, "KUBECONFIG": str(plane.kubeconfig), "POD_NAME": "gfd"}
        env |= {"NODE_NAME": self.node.name, "NAMESPACE": NAMESPACE, "HOME": os.environ.get("HOME", "/")}
        path = given("gpu-feature-discovery", "gpu-feature-discovery")
        with self.log.open("ab") as log:
            process = subprocess.Popen([str(path), *flags], env=env, stderr=log, stdout=log)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        if self.form == "object":
            plane.request("DELETE", self.object)
        else:
            assert not self.file.exists()

    def written(self) -> bool:
        if self.form == "file":
            return self.file.exists()
        names = [one["metadata"]["name"] for one in self.node.plane.request("GET", OBJECTS)["items"]]
        return self.object.rpartition("/")[2] in names


@pytest.mark.parametrize("form", ["object", "file"])
def test_there_and_back(
    form: str,
    machines: Callable[[str], Machine],
    nodes: MakeNode,
    masters: MakeMaster,
    workers: StartWorker,
    control_plane: ControlPlane,
    tmp_path: Path,
    add_row: AddRow,
) -> None:
    libraries, machine = build({"devices": [H100]}, tmp_path / "driver"), machines("debian-12-epyc-milan")
    address = str(H100["pci"]["bus_id"]).removeprefix("0000")
    machine.plug(address, "030200", "10de", "2330")
    (machine.root / PCI / address / "config").write_bytes(bytes(256))  # no capability: no guest with a vGPU
    (machine.root / FEATURES_D).mkdir(parents=True, exist_ok=True)
    node, master = nodes(machine), masters()
    initial, root = look(node), f"--host-root={machine.root}"
    gfd = Gfd(form, machine, node, libraries.env, tmp_path / "gfd.log")
    name = f"GFD {given_version('gpu-feature-discovery')}, {form}"

    blind = workers(node, master, root, BLIND)
    with gfd.running():
        eventually(lambda: node.labels.get(PRODUCT) == "NVIDIA-H100-80GB-HBM3", 60)
        switch = Switch(add_row, [node], [initial])
        blind.stop()
        worker = workers(node, master, root, NFD_NVML_LIBRARY=str(libraries.nvml), **variables(libraries.env))
        pass_again(worker)
    pass_again(worker)
    switch.end(f"{name} → {OURS}", "nvidia.com/")

    with gfd.running():
        eventually(gfd.written, 60)
        pass_again(worker)
        worker.stop()
        blind = workers(node, master, root, BLIND)
        pass_again(blind)
        switch.end(f"{OURS} → {name}", "nvidia.com/")


def variables(env: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in env.items() if key != "NFD_NVML_LIBRARY"}
