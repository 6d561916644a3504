"""docs/getting-started.md: from step 3 on its commands print what stands there, on a cluster of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.process import Process
from tests.docs.cluster import READY
from tests.docs.newcomer import ROOT, Shell, blocks
from tests.e2e.programs import SCRIPTS, eventually

PLACE = "$PWD/.state/cluster"
PATHS = f"export PATH={SCRIPTS}:{os.environ['PATH']} KUBERC=off"
OBJECT = """apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeature
metadata:
  name: mine
  namespace: default
  labels: {nfd.node.kubernetes.io/node-name: cpu-arm-1}
spec:
  labels: {example.com/mine: "yes", kubernetes.io/bad: "yes"}
"""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a cluster as `make cluster` starts it."""
    tmp_path = tmp_path_factory.mktemp("newcomer")
    command = [sys.executable, "-m", "tests.docs.cluster", str(tmp_path / "cluster")]
    process = Process("cluster", command, tmp_path / "log")
    process.start()
    try:
        eventually(lambda: READY in process.tail() or not process.alive(), 600)  # the first time it builds
        assert process.alive(), process.tail(40)
        yield tmp_path / "cluster/kubeconfig"
    finally:
        process.stop(60)


def test_the_steps(kubeconfig: Path) -> None:
    shell = Shell(ROOT, [PATHS])
    later = [one for one in blocks() if int(one.step.partition(".")[0]) >= 3 and "make cluster" not in one.commands]
    assert len(later) == 5
    for block in later:
        commands = tuple(line.replace(PLACE, str(kubeconfig.parent)) for line in block.commands)
        printed = shell.run(commands)
        assert not block.output or printed.splitlines() == block.output.splitlines()


def test_it_takes_objects_of_any_namespace(kubeconfig: Path, tmp_path: Path) -> None:
    """As an ordinary installation does; and says why one of the labels is missing."""
    (tmp_path / "object.yaml").write_text(OBJECT)
    shell = Shell(ROOT, [PATHS, f"export KUBECONFIG={kubeconfig}"])
    shell.run((f"kubectl apply -f {tmp_path / 'object.yaml'}",))
    eventually(lambda: shell.run(("kubectl get nodes -o name -l example.com/mine=yes",)) == "node/cpu-arm-1\n")
    told = shell.run(("kubectl nfd explain cpu-arm-1 kubernetes.io/bad",))
    assert "namespace 'kubernetes.io' is not allowed" in told


def test_make_has_the_commands() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "-m tests.docs.cluster $(STATE)/cluster" in makefile
    assert "\nup: " in makefile
