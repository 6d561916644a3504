"""`nfd explain` and `nfd diff` on a Node that a master with `--instance` labels: the same answers as without."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfd.cli import main
from nfd.rpc.client import Reporter
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import port_of
from tests.fleet20.place import running_master
from tests.master.conftest import BOOT, Worker
from tests.master.places import Cluster, labels_of, notes_of

KEY = "feature.node.kubernetes.io/cpu-a"
TAINT = {"key": "readiness.k8s.io/labels", "effect": "NoSchedule"}
TEXT = "readiness.k8s.io/labels:NoSchedule"


@pytest.mark.parametrize("instance", ["", "blue", "a.b"])
def test_on_a_node_of_an_instance(
    control_plane: ControlPlane,
    tmp_path: Path,
    instance: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, name, other = Cluster(control_plane), f"labelled-by-{instance}x", f"unlabelled-by-{instance}x"
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))

    def ask(*words: str) -> str:
        assert main(words) == 0
        return capsys.readouterr().out

    for one in (name, other):
        place.create(one, {}, {}, BOOT)
    place.edit(name, {"spec": {"taints": [TAINT]}})
    assert "nfd-worker has not reported for this Node" in ask("explain", name)
    flags = ("--serve-reports", f"--instance={instance}", f"--startup-taints={TEXT}")
    with running_master(control_plane, tmp_path, *flags) as program:
        Reporter(f"127.0.0.1:{port_of(program)}").send(Worker(name).report({KEY: "1"}))
        for master in ([], [f"--master=http://localhost:{program.http_port}"]):
            assert "set by source cpu\n" in ask("explain", name, KEY, *master)
            assert f"{TEXT} was removed once the Node was labelled" in ask("explain", name, *master)
    notes = notes_of(place, name)
    assert {key for key in notes if "nfd." in key} == {
        f"{instance}{'.' if instance else ''}nfd.node.kubernetes.io/{end}"
        for end in ("feature-labels", "origins", "startup-taints-removed")
    }
    assert "its labels are of the Node's own boot" in ask("explain", name)
    place.edit(other, {"metadata": {"labels": labels_of(place, name)}})
    assert ask("diff", name, other) == f"{name} and {other} have no differences\n"
    for one in (name, other):
        place.delete(one)
