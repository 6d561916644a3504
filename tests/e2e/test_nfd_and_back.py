"""From this product to NFD 0.19 and back, with NFD's own programs; its worker stays while ours label again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from tests import nfd019
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.conftest import MakeMaster, MakeNode, StartWorker
from tests.e2e.machines import Machine
from tests.e2e.nodes import NAMESPACE, F, Node
from tests.e2e.programs import Program, eventually

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
CLIQUE = "nvidia.com/gpu.clique"
LONGEST = 10.0
"""Seconds that a label may be absent which both products give."""
StartNfd = Callable[..., Program]


def options(value: str, **more: str) -> str:
    """For both workers: a rule that gives labels of a namespace of its own, as files of a GPU's labeller do."""
    term = {"feature": "kernel.version", "matchExpressions": {"major": {"op": "Exists"}}}
    rule = {"name": "gpus", "labels": {CLIQUE: "c0ffee.1", F + "both": value, **more}, "matchFeatures": [term]}
    return "-options=" + json.dumps({"sources": {"custom": [rule]}})


class Absences:
    """The longest time in seconds that each of these keys was absent from a Node, of those that were at all."""

    def __init__(self, node: Node, keys: Collection[str]) -> None:
        self.longest: dict[str, float] = {}
        self._node, self._keys = node, keys
        self._since: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Absences:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            labels, now = self._node.labels, time.monotonic()
            for key in self._keys:
                if key not in labels:
                    since = self._since.setdefault(key, now)
                    self.longest[key] = max(self.longest.get(key, 0.0), now - since)
                else:
                    self._since.pop(key, None)


@pytest.fixture
def nfd(control_plane: ControlPlane, tmp_path: Path) -> Iterator[StartNfd]:
    """Starts NFD's `nfd-worker` or `nfd-master`."""
    made: list[Program] = []

    def start(name: str, *flags: str, **variables: str) -> Program:
        (port,) = free_ports(1)
        words = (f"-kubeconfig={control_plane.kubeconfig}", f"-port={port}", "-config=/none", *flags)
        log = tmp_path / f"{name}-{len(made)}.log"
        variables = {"KUBERNETES_NAMESPACE": NAMESPACE, **variables}
        made.append(Program(str(nfd019.ensure(name)), words, log, port, variables))
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.kill()


def test_to_nfd_and_back_with_its_worker_alive(
    nodes: MakeNode, masters: MakeMaster, workers: StartWorker, nfd: StartNfd
) -> None:
    """A DRA driver removes and sets a label meanwhile, and what NFD's worker reports anew is on the Node."""
    node = nodes(Machine(Path("/"), BOOT_ID.read_text().strip()))
    master = masters()
    worker = workers(node, master, options("1"))
    eventually(lambda: node.labels.get(F + "both") == "1")
    ours = node.labels
    worker.stop()
    master.stop()

    theirs = nfd("nfd-worker", "-owner-refs=", options("2", theirs="1"), NODE_NAME=node.name)
    their_master = nfd("nfd-master", NODE_NAME=nodes().name)
    eventually(lambda: node.labels.get(F + "both") == "2")
    both = ours.keys() & node.labels.keys()
    assert len(both) > 10

    with Absences(node, both) as absences:
        their_master.stop()
        master = masters()
        theirs.stop()
        theirs = nfd("nfd-worker", "-owner-refs=", options("3", theirs="1"), NODE_NAME=node.name)
        began = time.monotonic()
        eventually(lambda: node.labels.get(F + "both") == "3", 30)
        heard = time.monotonic() - began
        for value in (None, "c0ffee.1", None, None):
            node.plane.request("PATCH", f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {CLIQUE: value}}})
            time.sleep(0.5)
        worker = workers(node, master, options("4"))
        eventually(lambda: node.labels.get(F + "both") == "4", 30)
        for value in (None, "c0ffee.1", None):
            node.plane.request("PATCH", f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {CLIQUE: value}}})
            time.sleep(0.5)
        eventually(lambda: node.labels.keys() == ours.keys(), 30)
    assert theirs.alive()
    longest = max(absences.longest.values(), default=0.0)
    print(f"of {len(both)} labels absent: {sorted(absences.longest)}, for {longest:.2f} s at most")
    print(f"what NFD's worker reported anew was on the Node after {heard:.2f} s")
    assert longest < LONGEST
    assert set(absences.longest) <= {CLIQUE}, "only what somebody removed"
