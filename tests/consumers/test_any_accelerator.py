"""One selector for accelerators of 80 GB or more of any vendor: where kube-scheduler puts pods that have it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.consumers.cluster import apply, clear, daemon_set, deployment, placed, pods_of
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import eventually
from tests.fleet20.accelerators import ANY, LARGE, NODES, WITH_80_GB
from tests.fleet20.place import FleetPlace, fleet_on
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

EACH, ONE_A_NODE = "on-each-large-one", "one-a-node"


@pytest.fixture(scope="module")
def fleet(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetPlace]:
    with fleet_on(cluster, tmp_path_factory.mktemp("any-accelerator"), nodes=NODES) as place:
        labelled = [one.name for one in NODES if one.name != "cpu-1"]
        eventually(lambda: all(f"{ANY}.present" in place.node(name)["metadata"]["labels"] for name in labelled))
        yield place
        clear(cluster)


def selecting(**more: object) -> dict[str, object]:
    """The selector as `docs/accelerators.md` has it, and no other one."""
    required = {"nodeSelectorTerms": [{"matchExpressions": [LARGE]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}, **more}}


def test_pods_get_to_the_nodes_with_80_gb_of_every_vendor(cluster: ControlPlane, fleet: FleetPlace) -> None:
    """A DaemonSet, and a Deployment with one pod more than there are such nodes, at most one on each."""
    apart = {"labelSelector": {"matchLabels": {"consumer": ONE_A_NODE}}, "topologyKey": "kubernetes.io/hostname"}
    alone = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    one_a_node = deployment(ONE_A_NODE, selecting(podAntiAffinity=alone), len(WITH_80_GB) + 1)
    apply(cluster, daemon_set(EACH, selecting()), one_a_node)
    wanted = {EACH: sorted(WITH_80_GB), ONE_A_NODE: sorted({"", *WITH_80_GB})}
    eventually(lambda: placed(cluster) == wanted, 60)
    others = len(NODES) - len(WITH_80_GB)
    reason = f"{others} node(s) didn't match Pod's node affinity/selector"
    eventually(lambda: any(reason in message for message in unschedulable(cluster)))


def unschedulable(plane: ControlPlane) -> list[str]:
    """Why the scheduler has left pods without a node."""
    conditions = (one for pod in pods_of(plane, ONE_A_NODE) for one in pod["status"].get("conditions") or ())
    return [one["message"] for one in conditions if one.get("reason") == "Unschedulable"]
