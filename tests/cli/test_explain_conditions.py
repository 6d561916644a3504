"""`nfd explain NODE` shows the conditions of nfd, since when, and what the master would set: with a real master."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nfd.cli import main
from nfd.cli.explain.conditions import Wanted, explain_conditions
from nfd.rpc.client import Reporter
from nfd.store.base import Condition
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import Program, port_of
from tests.fleet20.place import running_master
from tests.master.conftest import BOOT, Worker
from tests.master.places import Cluster

REPORTED, USABLE = "nfd.node.kubernetes.io/FeaturesReported", "nfd.node.kubernetes.io/AcceleratorsUsable"
PRESENT, STATE = "nvidia.com/gpu.present", "nvidia.com/gpu.state"
SINCE = "2026-03-01T00:00:00Z"
BROKEN = Condition("False", "Degraded", "state of accelerators: nvidia: degraded")
FINE = Condition("True", "Usable", "no accelerator has a fault")


def on_node(**found: Condition) -> dict[str, Any]:
    """A Node with these conditions of nfd, and the kubelet's."""
    rows = [
        {
            "type": f"nfd.node.kubernetes.io/{name}",
            "status": one.status,
            "reason": one.reason,
            "message": one.message,
            "lastTransitionTime": SINCE,
        }
        for name, one in found.items()
    ]
    return {"status": {"conditions": [{"type": "Ready", "status": "True"}, *rows]}}


@pytest.mark.parametrize(
    ("node", "wanted", "why", "lines"),
    [
        (on_node(), None, "", []),
        (on_node(), {USABLE: None}, "", []),
        (on_node(AcceleratorsUsable=FINE), None, "", [f"{USABLE} is True since {SINCE}: Usable: {FINE.message}"]),
        (on_node(AcceleratorsUsable=FINE), {USABLE: FINE}, "", ["  this is what the master sets"]),
        (on_node(AcceleratorsUsable=FINE), {USABLE: BROKEN}, "", ["would set False: Degraded: state of accelerators"]),
        (on_node(AcceleratorsUsable=FINE), {USABLE: BROKEN}, "p rejects it", [f"{BROKEN.message}; p rejects it"]),
        (on_node(AcceleratorsUsable=FINE), {USABLE: None}, "", ["removes it with the next change: the Node has no"]),
        (on_node(AcceleratorsUsable=FINE), {}, "", ["leaves it as it is, because what it depends on"]),
        (on_node(AcceleratorsUsable=FINE), {}, "no recent report", ["  no recent report"]),
        (on_node(), {USABLE: FINE}, "", [f"{USABLE} is missing: the master would set True: Usable: {FINE.message}"]),
    ],
)  # fmt: skip
def test_what_is_said_of_a_condition(node: dict[str, Any], wanted: Wanted | None, why: str, lines: list[str]) -> None:
    shown = [line for one in explain_conditions(node, wanted, why) for line in one.lines()]
    assert [line for line in lines if line not in "\n".join(shown)] == []
    assert bool(shown) == bool(lines)
    assert "Ready" not in "".join(shown)


def test_on_a_cluster(
    control_plane: ControlPlane,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, name = Cluster(control_plane), "explained-conditions"
    place.create(name, {}, {}, BOOT)
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))

    def explain(*words: str) -> str:
        assert main(["explain", name, *words]) == 0
        return capsys.readouterr().out

    def of(program: Program) -> str:
        return f"--master=http://localhost:{program.http_port}"

    assert "it has no condition of nfd" in explain()
    with running_master(control_plane, tmp_path, "--serve-reports", "--node-conditions") as program:
        assert "the master has no recent report of the Node's worker" in explain(of(program))
        worker, reporter = Worker(name), Reporter(f"127.0.0.1:{port_of(program)}")
        reporter.send(worker.report({PRESENT: "true", STATE: "degraded"}))
        told = explain(of(program))
        assert f"{REPORTED} is True since 20" in told
        assert f"{USABLE} is False since 20" in told
        assert f": Degraded: {BROKEN.message}\n    this is what the master sets" in told
        assert "use --master URL to see which conditions the master would set" in explain()
        found = json.loads(explain(of(program), "-o", "json"))
        by_type = {one["type"]: one for one in found["conditions"]}
        assert by_type[USABLE] == {
            "type": USABLE,
            "status": "False",
            "reason": "Degraded",
            "message": BROKEN.message,
            "since": by_type[USABLE]["since"],
            "why": "this is what the master sets",
        }
        assert found["node"] == name
        assert json.loads(explain(STATE, "-o", "json"))["value"] == "degraded"
        place.edit(name, {"status": {"nodeInfo": {"bootID": "boot-2"}}}, "status")
        assert explain(of(program)).count("the master would set Unknown: Rebooted: ") == 2
    with running_master(control_plane, tmp_path, "--serve-reports") as program:
        told = explain(of(program))
        assert told.count("the master sets no node conditions (--node-conditions)") == 2
    place.delete(name)
