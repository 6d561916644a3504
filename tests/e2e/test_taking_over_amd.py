"""Coming after AMD's node labeller: its labels are taken over, what it left is named, and only a person removes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nfd.cli import main
from tests.e2e.conftest import MakeNode, StartWorker
from tests.e2e.machines import Machine, discovered
from tests.e2e.programs import Program, pass_again

RECORDING = "amd-mi308x"
AMD = "amd.com/gpu."
THEIRS = {f"{AMD}vram": "47G", f"{AMD}cu-count": "20", f"{AMD}device-id": "74a2"}
"""As an older labeller wrote them; the first is wrong."""
STALE = {f"{AMD}vram.64G": "2", f"beta.{AMD}device-id.740f": "2", f"beta.{AMD}firmware.MEC.feat.49": "8"}
FOREIGN = {"amd.com/gpu": "true", "foo": "bar"}


def test_its_labels_are_taken_over_and_stale_ones_named(
    machines: Callable[[str], Machine],
    nodes: MakeNode,
    master: Program,
    workers: StartWorker,
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine = machines(RECORDING)
    wanted = discovered(f"--host-root={machine.root}")
    node = nodes(machine, labels=THEIRS | STALE | FOREIGN)
    version = node.version
    worker = workers(node, master, f"--host-root={machine.root}")
    assert node.labels == wanted | STALE | FOREIGN
    assert node.owned() == wanted.keys()
    assert all(THEIRS.keys() <= state.keys() for state in node.states(version)), "no label was absent"

    def problems() -> str:
        assert main(["nodes", node.name, "-o", "json", "--kubeconfig", str(node.plane.kubeconfig)]) == 0
        return capsys.readouterr().out

    assert f"not managed by nfd: {', '.join(sorted(STALE))}" in problems()
    node.kubectl_label(*(f"{key}-" for key in STALE))
    pass_again(worker)
    assert node.labels == wanted | FOREIGN
    assert "not managed by nfd" not in problems()
