"""The shipped ClusterRole is enough, and none of it is idle: the audit log of all that a master can be made to do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.audit import Mark
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import without_proxy
from tests.e2e.conftest import BASE, MakeMaster, MakeNode
from tests.e2e.nodes import MASTER, NAMESPACE, F
from tests.e2e.programs import SCRIPTS, eventually, port_of
from tests.rpc import nfd016

Right = tuple[str, str, str]
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
    "metadata": {"name": "e2e-rights", "namespace": NAMESPACE},
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
def objects(control_plane: ControlPlane, definitions: None) -> Iterator[None]:
    """A rule and a group; both are gone after the test."""
    made = "".join(json.dumps(one) for one in (RULE, GROUP))
    control_plane.kubectl("apply", "-f", "-", stdin=made)
    yield
    control_plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=made)


def used(plane: ControlPlane, since: Mark) -> set[Right]:
    """What masters asked for after `since`; nothing was refused or in vain."""
    asked = [event for event in plane.audit(since) if event.user == MASTER]
    assert [event for event in asked if event.code != 200] == []
    return {(one.group, "/".join(filter(None, (one.resource, one.subresource))), one.verb) for one in asked}


def test_the_master_uses_every_right_of_its_role_and_lacks_none(
    nodes: MakeNode, masters: MakeMaster, kubeconfig: Path, objects: None
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
    statuses = {("nfd.k8s-sigs.io", f"{kind}/status", "patch") for kind in ("nodefeaturerules", "nodefeaturegroups")}
    eventually(lambda: statuses <= used(node.plane, mark))
    node.plane.kubectl("delete", "nodefeaturerule", "e2e-rights")
    eventually(lambda: node.labels == {F + "cpu-cpuid.AVX": "true"})
    assert "vendor.io/n" not in node.object()["status"]["capacity"]
    assert master.stop() == 0
    command = [str(SCRIPTS / "nfd-master"), "-config=", f"-kubeconfig={kubeconfig}", "--prune"]
    subprocess.run(command, env=without_proxy(), capture_output=True, check=True, timeout=60)
    assert node.labels == {}
    assert used(node.plane, mark) == granted()
