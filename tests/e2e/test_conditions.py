"""Node conditions on a real API server, with real processes: what changes with them, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.children import run
from tests.controlplane.process import without_proxy
from tests.e2e.conftest import MakeMaster, MakeNode, StartWorker
from tests.e2e.machines import Machine
from tests.e2e.nodes import Node
from tests.e2e.programs import SCRIPTS, eventually, pass_again, passes, scans
from tests.e2e.test_zero_writes import GPU, TESLA
from tests.nvml.library import build, write_machine

REPORTED, USABLE = "nfd.node.kubernetes.io/FeaturesReported", "nfd.node.kubernetes.io/AcceleratorsUsable"
STATE, BOOKS = "nvidia.com/gpu.state", ("nfd.node.kubernetes.io/feature-labels", "nfd.node.kubernetes.io/origins")


def conditions_of(node: Node) -> dict[str, dict[str, Any]]:
    return {one["type"]: one for one in node.object()["status"]["conditions"]}


def said(node: Node, kind: str) -> tuple[str, str] | None:
    one = conditions_of(node).get(kind)
    return None if one is None else (one["status"], one["reason"])


def test_a_broken_gpu_is_a_condition_within_one_scan(
    machines: Callable[[str], Machine], nodes: MakeNode, masters: MakeMaster, workers: StartWorker, tmp_path: Path
) -> None:
    """Only gpu.state, its bookkeeping and the condition change; nothing is written while nothing changes; a master that
    ends leaves them; prune removes them."""
    libraries = build(TESLA, tmp_path / "driver")
    machine = machines("debian-12-epyc-milan")
    machine.plug(GPU, "030200", "10de", "1eb8")
    node, master = nodes(machine), masters("-node-conditions")
    theirs = {one["type"] for one in node.object()["status"]["conditions"]}
    flags, variables = (f"--host-root={machine.root}",), {**libraries.env, "NFD_NVML_LIBRARY": str(libraries.nvml)}
    worker = workers(node, master, *flags, **variables)
    eventually(lambda: node.labels.get("nvidia.com/gpu.product") == "Tesla-T4")
    eventually(lambda: said(node, USABLE) == ("True", "Usable"))
    assert said(node, REPORTED) == ("True", "WorkerReported")
    assert conditions_of(node).keys() == theirs | {REPORTED, USABLE}

    mark, begun, full = node.plane.mark(), passes(master), scans(worker)
    for _ in range(20):
        pass_again(worker)
    node.kubectl_label("team=red")
    eventually(lambda: passes(master) > begun)
    assert scans(worker) - full >= 20
    assert node.writes(mark) == []

    before, mark = node.object(), node.plane.mark()
    write_machine({"devices": [{**TESLA["devices"][0], "errors": {"*": 15}}]}, libraries.machine)
    full = scans(worker)
    pass_again(worker)
    eventually(lambda: said(node, USABLE) not in (None, ("True", "Usable")), 10)
    assert scans(worker) - full == 1
    after = node.object()
    state = after["metadata"]["labels"][STATE]
    assert said(node, USABLE) == ("False", "".join(part.capitalize() for part in state.split("-")))
    assert changed(before["metadata"]["labels"], after["metadata"]["labels"]) <= {STATE, *FOLLOWING}
    assert changed(before["metadata"]["annotations"], after["metadata"]["annotations"]) <= {*BOOKS}
    assert before["spec"] == after["spec"]
    assert {key: one for key, one in conditions_of(node).items() if key != USABLE} == {
        one["type"]: one for one in before["status"]["conditions"] if one["type"] != USABLE
    }
    (write,) = node.writes(mark)
    assert (write.verb, write.subresource) == ("patch", "status")

    held = conditions_of(node)
    worker.kill()
    master.stop()
    assert conditions_of(node) == held
    config = next(flag for flag in master.flags if flag.startswith("-kubeconfig="))
    command = [str(SCRIPTS / "nfd-master"), "--prune", config, "--config=", "--namespace=node-feature-discovery"]
    out = run(command, env=without_proxy())
    assert f"{node.name} conditions {USABLE}" in out.stdout
    assert conditions_of(node).keys() == theirs
    assert not [key for key in node.labels if key.startswith("nvidia.com/")]


FOLLOWING = ("nvidia.com/gpu.count.failing", "nvidia.com/gfd.timestamp")
"""Labels that say more about the state."""


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
