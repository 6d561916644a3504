"""The admission policies of the chart and of the component, on a real API server: actor × key × verb.

Nobody but nfd-master changes labels and bookkeeping annotations of nfd on a Node, and nfd-master changes nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest
import yaml

from nfd.master.node.startup_taints import NAMESPACES
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.fixtures import KUBELET, KUBELET_NODE
from tests.controlplane.servers import ADMIN
from tests.deploy.rendering import NAMESPACE, ROOT, Object, chart_objects, kustomized, load, one
from tests.e2e.programs import eventually

F, N = "feature.node.kubernetes.io/", "nvidia.com/"
BOOKS = "nfd.node.kubernetes.io/feature-labels"
NODE = KUBELET_NODE
BEFORE = {
    "labels": {F + "cpu-x": "true", N + "gpu.product": "T4", N + "mig.config": "all-disabled", "team": "red"},
    "annotations": {BOOKS: "cpu-x"},
}
STARTUP_TAINTS = [f"{one}/nfd" for one in NAMESPACES]
MASTER = f"system:serviceaccount:{NAMESPACE}:nfd-master"
KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


def component() -> list[Object]:
    objects = load(kustomized(ROOT / "tests/deploy/all-components"))
    return [each for each in objects if each["kind"] in KINDS]


def of_chart(startup_taints: Sequence[str] = (), **values: Any) -> list[Object]:
    """With startup taints of these keys: the first in the master's configuration file, the others in the values."""
    given = [{"key": key, "value": "pending", "effect": "NoSchedule"} for key in startup_taints[1:]]
    config = {"startupTaints": [f"{key}=pending:NoSchedule" for key in startup_taints[:1]]}
    policy = {"labelPolicy": {"enable": True, **values}, "fullnameOverride": "nfd"}
    found = chart_objects({**policy, "startupTaints": given, "master": {"config": config}})
    return [each for each in found if each["kind"] in KINDS]


def squeeze(value: Any) -> Any:
    """Without blanks in expressions, and without what chart and kustomize add to metadata."""
    if isinstance(value, dict):
        return {key: squeeze(each) for key, each in value.items() if key not in ("labels", "namespace")}
    if isinstance(value, list):
        return [squeeze(each) for each in value]
    return "".join(value.split()) if isinstance(value, str) else value


def test_chart_and_component_are_the_same() -> None:
    named = json.loads(json.dumps(of_chart()).replace(f':{NAMESPACE}:nfd\\"', f':{NAMESPACE}:nfd-master\\"'))
    assert squeeze(by_name(named)) == squeeze(by_name(component()))


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_it_is_off_by_default() -> None:
    assert not [each for each in chart_objects() if each["kind"] in KINDS]


def test_the_values_of_the_chart() -> None:
    objects = of_chart(
        actions=["Deny", "Audit"],
        extraNamespaces=["vendor.io"],
        exemptUsers=["system:serviceaccount:karpenter:karpenter"],
        exemptGroups=["admins"],
        exemptKeys=["vendor.io/mine"],
    )
    text = json.dumps(one(objects, KINDS[0], "node-labels")["spec"])
    for part in ("vendor.io", "system:serviceaccount:karpenter:karpenter", "admins", "vendor.io/mine"):
        assert f'\\"{part}\\"' in text
    for binding in (each for each in objects if each["kind"] == KINDS[1]):
        assert binding["spec"]["validationActions"] == ["Deny", "Audit"]


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Both policies in force for a Node that has keys of everyone; alice is any user who may change Nodes."""
    control_plane.create_node(NODE, BEFORE["labels"], BEFORE["annotations"])
    rules = [{"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["*"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "label-policy"}}
    subjects = [
        {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "ServiceAccount", "name": "nfd-master", "namespace": NAMESPACE},
        {"kind": "ServiceAccount", "name": "karpenter", "namespace": NAMESPACE},
    ]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "label-policy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "label-policy"},
        "subjects": subjects,
    }
    control_plane.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", {**role, "rules": rules})
    control_plane.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    control_plane.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    karpenter = f"system:serviceaccount:{NAMESPACE}:karpenter"
    for each in of_chart(STARTUP_TAINTS, actions=["Deny", "Audit"], exemptUsers=[karpenter]):
        text = json.dumps(each).replace(f':{NAMESPACE}:nfd\\"', f':{NAMESPACE}:nfd-master\\"')
        place = POLICIES if each["kind"] == KINDS[0] else BINDINGS
        control_plane.request("POST", f"{place}?fieldValidation=Strict", json.loads(text))
    tries = count()
    eventually(lambda: refused(control_plane, "alice", label(F + "probe", f"{next(tries)}")))
    taint = {"key": "node.kubernetes.io/x", "effect": "NoSchedule"}
    token = account(control_plane, "nfd-master")
    eventually(lambda: refused(control_plane, token, {"spec": {"taints": [{**taint, "value": f"{next(tries)}"}]}}))
    restore(control_plane)
    yield control_plane
    for place in (POLICIES, BINDINGS):
        for name in ("nfd-node-labels", "nfd-master-writes"):
            control_plane.request("DELETE", f"{place}/{name}")
    control_plane.request("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/label-policy")
    control_plane.request("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles/label-policy")
    control_plane.delete_node(NODE)


def account(plane: ControlPlane, name: str) -> str:
    return plane.service_account_token(name, NAMESPACE)


def refused(plane: ControlPlane, user: str, patch: Object, subresource: str = "") -> str:
    """The reason, "" if the server took the patch."""
    try:
        plane.request("PATCH", f"/api/v1/nodes/{NODE}{subresource}", patch, user=user)
    except ApiError as error:
        return str(error)
    return ""


def restore(plane: ControlPlane) -> None:
    """The Node as before, by an administrator."""
    metadata = plane.get_node(NODE)["metadata"]
    gone = {
        kind: {key: None for key in metadata.get(kind, {}) if not key.startswith(("kubernetes.io", "beta"))} | values
        for kind, values in BEFORE.items()
    }
    plane.request("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": gone, "spec": {"taints": None}}, user=ADMIN)


def label(key: str, value: str | None) -> Object:
    return {"metadata": {"labels": {key: value}}}


def note(key: str, value: str | None) -> Object:
    return {"metadata": {"annotations": {key: value}}}


OURS = [
    pytest.param(label(F + "new", "1"), id="adds a feature label"),
    pytest.param(label("vendor.feature.node.kubernetes.io/new", "1"), id="adds a label of a sub-domain"),
    pytest.param(label(F + "cpu-x", "false"), id="changes a feature label"),
    pytest.param(label(F + "cpu-x", None), id="removes a feature label"),
    pytest.param(label(N + "gpu.product", "H200"), id="changes a GPU label"),
    pytest.param(label(N + "gpu.product", None), id="removes a GPU label"),
    pytest.param(label("amd.com/gpu.family", "AI"), id="adds a label of AMD"),
    pytest.param(note(BOOKS, "cpu-x,kubernetes.io/arch"), id="changes a list of managed keys"),
    pytest.param(note("edge.nfd.node.kubernetes.io/taints", "x"), id="adds a list of an instance"),
]
THEIRS = [
    pytest.param(label("team", "blue"), id="changes a label of a user"),
    pytest.param(label(N + "mig.config", "all-1g.10gb"), id="changes the MIG layout"),
    pytest.param(label(N + "gpu.deploy.driver", "true"), id="adds a label of the GPU operator"),
    pytest.param(label(N + "gpu.present", "true"), id="adds gpu.present"),
    pytest.param(label(N + "gpu.clique", "x.1"), id="adds gpu.clique"),
    pytest.param(label("notfeature.node.kubernetes.io.example.com/x", "1"), id="adds a label of a similar name"),
    pytest.param(note("example.com/x", "1"), id="adds an annotation"),
]


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize("user", ["alice", KUBELET])
@pytest.mark.parametrize("patch", OURS)
def test_others_do_not_change_keys_of_nfd(plane: ControlPlane, user: str, patch: Object, subresource: str) -> None:
    assert "only nfd-master changes " in refused(plane, user, patch, subresource)


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize("patch", THEIRS)
def test_others_change_their_keys(plane: ControlPlane, patch: Object, subresource: str) -> None:
    assert refused(plane, "alice", patch, subresource) == ""
    restore(plane)


@pytest.mark.parametrize("patch", [*OURS, *THEIRS])
@pytest.mark.parametrize("name", ["nfd-master", "karpenter", ADMIN])
def test_who_is_exempt(plane: ControlPlane, name: str, patch: Object) -> None:
    assert refused(plane, name if name == ADMIN else account(plane, name), patch) == ""
    restore(plane)


def test_a_kubelet_registers_with_exported_labels_and_reports_its_status(plane: ControlPlane) -> None:
    plane.request("DELETE", f"/api/v1/nodes/{NODE}")
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": {N + "gpu.product": "NVIDIA-H200"}},
    }
    plane.request("POST", "/api/v1/nodes", body, user=KUBELET)
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    capacity = {"cpu": "8", "nvidia.com/gpu": "8"}
    assert refused(plane, KUBELET, {"status": {"conditions": conditions, "capacity": capacity}}, "/status") == ""
    restore(plane)


MASTER_MAY = [
    pytest.param({"spec": {"taints": [{"key": F + "x", "effect": "NoSchedule"}]}}, "", id="taint"),
    pytest.param({"spec": {"taints": [{"key": "vendor.io/x", "effect": "NoSchedule"}]}}, "", id="taint of a vendor"),
    pytest.param({"status": {"capacity": {"vendor.io/units": "4"}}}, "/status", id="extended resource"),
    pytest.param(label("vendor.io/x", "1"), "", id="label of a rule"),
    pytest.param(note("vendor.io/x", "1"), "", id="annotation of a rule"),
]
MASTER_MAY += [
    pytest.param({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}, "", id=f"startup taint {key}")
    for key in STARTUP_TAINTS
]
MASTER_MAY_NOT = [
    pytest.param(label("kubernetes.io/hostname", "x"), "", id="host name"),
    pytest.param(label("node-restriction.kubernetes.io/tenant", "x"), "", id="restricted label"),
    pytest.param(label("xfeature.node.kubernetes.io/x", "1"), "", id="similar namespace"),
    pytest.param(note("kubeadm.alpha.kubernetes.io/cri-socket", "x"), "", id="annotation of kubeadm"),
    pytest.param({"spec": {"unschedulable": True}}, "", id="cordon"),
    pytest.param({"spec": {"providerID": "aws:///x"}}, "", id="provider"),
    pytest.param(
        {"spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}}, "", id="foreign taint"
    ),
    pytest.param(
        {"spec": {"taints": [{"key": "x.readiness.k8s.io/nfd", "effect": "NoSchedule"}]}}, "", id="similar taint"
    ),
    *(
        pytest.param({"spec": {"taints": [{"key": f"{one}/other", "effect": "NoSchedule"}]}}, "", id=f"other of {one}")
        for one in NAMESPACES
    ),
    pytest.param({"metadata": {"finalizers": ["vendor.io/x"]}}, "", id="finalizer"),
    pytest.param({"status": {"capacity": {"cpu": "1000"}}}, "/status", id="cpu"),
    pytest.param({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "/status", id="condition"),
    pytest.param({"status": {"nodeInfo": {"kernelVersion": "x"}}}, "/status", id="node information"),
    pytest.param({"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]}}, "/status", id="address"),
]


@pytest.mark.parametrize(("patch", "subresource"), MASTER_MAY)
def test_what_the_master_changes(plane: ControlPlane, patch: Object, subresource: str) -> None:
    assert refused(plane, account(plane, "nfd-master"), patch, subresource) == ""
    restore(plane)


@pytest.mark.parametrize(("patch", "subresource"), MASTER_MAY_NOT)
def test_what_the_master_does_not_change(plane: ControlPlane, patch: Object, subresource: str) -> None:
    assert "denied request: nfd-master " in refused(plane, account(plane, "nfd-master"), patch, subresource)


def test_the_master_changes_conditions_of_nfd_alone(plane: ControlPlane) -> None:
    token, content = account(plane, "nfd-master"), "application/strategic-merge-patch+json"

    def change(kind: str) -> None:
        one = {"type": kind, "status": "True", "reason": "R", "message": "m"}
        body = {"status": {"conditions": [one]}}
        plane.request("PATCH", f"/api/v1/nodes/{NODE}/status", body, content, user=token)

    change("nfd.node.kubernetes.io/FeaturesReported")
    change("blue.nfd.node.kubernetes.io/AcceleratorsUsable")
    for kind in ("xnfd.node.kubernetes.io/FeaturesReported", "nvidia.com/GPUReady", "Ready"):
        with pytest.raises(ApiError, match="no condition of another owner"):
            change(kind)


def test_the_component_is_applied_by_kubectl(control_plane: ControlPlane) -> None:
    """kustomize gives these cluster-scoped objects a namespace."""
    text = yaml.safe_dump_all(component())
    out = control_plane.kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)
    assert out.count("created (server dry run)") + out.count("configured (server dry run)") == 4


def test_warnings_are_the_default() -> None:
    for each in yaml.safe_load_all((ROOT / "deploy/kustomize/components/label-policy/labels.yaml").read_text()):
        if each["kind"] == KINDS[1]:
            assert each["spec"]["validationActions"] == ["Warn", "Audit"]
