"""The shipped ClusterRole is enough, and none of it is idle: by the audit log of all that a master can be made to do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import without_proxy
from tests.e2e.conftest import BASE, MakeMaster, MakeNode
from tests.e2e.nodes import MASTER, F
from tests.e2e.programs import SCRIPTS, eventually, port_of
from tests.rpc import nfd016

Right = tuple[str, str, str]
CRDS = BASE.parents[1] / "crds"
API = "nfd.k8s-sigs.io/v1alpha1"
HOLDS = [{"feature": "cpu.cpuid", "matchExpressions": {"AVX": {"op": "Exists"}}}]
RULE = {
    "apiVersion": API,
    "kind": "NodeFeatureRule",
    "metadata": {"name": "e2e-rights"},
    "spec": {
        "rules": [
            {"name": "r", "labels": {"ruled": "yes"}, "extendedResources": {"vendor.io/n": "4"}, "matchFeatures": HOLDS}
        ]
    },
}
GROUP = {
    "apiVersion": API,
    "kind": "NodeFeatureGroup",
    "metadata": {"name": "e2e-rights", "namespace": "default"},
    "spec": {"featureGroupRules": [{"name": "r", "matchFeatures": HOLDS}]},
}
ASKING_FOR_MORE = (
    "-feature-gates=NodeFeatureGroupAPI=true",
    "-options={restrictions: {nodeFeatureNamespaceSelector: {matchLabels: {some: thing}}}}",
)


def granted() -> set[Right]:
    """(API group, resource or resource/subresource, verb) of every right in the manifest."""
    role = next(one for one in yaml.safe_load_all((BASE / "rbac.yaml").read_text()) if one["kind"] == "ClusterRole")
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.fixture
def custom_resources(control_plane: ControlPlane) -> Iterator[None]:
    """A rule and a group, on the shipped definitions; all gone after the test."""
    control_plane.kubectl("apply", "-k", str(CRDS))
    control_plane.kubectl("wait", "--for=condition=Established", "-k", str(CRDS), "--timeout=30s")
    for one in (RULE, GROUP):
        control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(one))
    yield
    control_plane.kubectl("delete", "-k", str(CRDS), "--timeout=60s")


def status(plane: ControlPlane, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plane.kubectl("get", kind, "e2e-rights", "-n", "default", "-o", "json"))
    return dict(found.get("status", {}))


def test_the_master_uses_every_right_of_its_role_and_lacks_none(
    nodes: MakeNode, masters: MakeMaster, kubeconfig: Path, custom_resources: None
) -> None:
    """Labels patch the Node, an extended resource its status; --prune reads each Node once more before it writes."""
    node = nodes()
    mark = node.plane.mark()
    master = masters(*ASKING_FOR_MORE)
    request = nfd016.v016()(node_name=node.name, labels={"cpu-cpuid.AVX": "true"})
    request.features.flags["cpu.cpuid"].elements["AVX"].SetInParent()
    nfd016.set_labels(port_of(master), request.SerializeToString())
    eventually(lambda: node.labels == {F + "cpu-cpuid.AVX": "true", F + "ruled": "yes"})
    assert node.object()["status"]["capacity"]["vendor.io/n"] == "4"
    eventually(lambda: status(node.plane, "nodefeaturerule").get("nodes"))
    eventually(lambda: status(node.plane, "nodefeaturegroup").get("nodes"))
    node.plane.kubectl("delete", "nodefeaturerule", "e2e-rights")
    eventually(lambda: node.labels == {F + "cpu-cpuid.AVX": "true"})
    assert "vendor.io/n" not in node.object()["status"]["capacity"]
    assert master.stop() == 0
    command = [str(SCRIPTS / "nfd-master"), "-config=", f"-kubeconfig={kubeconfig}", "--prune"]
    subprocess.run(command, env=without_proxy(), capture_output=True, check=True, timeout=60)
    assert node.labels == {}
    asked = [event for event in node.plane.audit(mark) if event.user == MASTER]
    assert [event for event in asked if event.code != 200] == []
    used = {(one.group, "/".join(filter(None, (one.resource, one.subresource))), one.verb) for one in asked}
    assert used == granted()
