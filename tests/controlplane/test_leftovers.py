"""What a module of tests leaves in the cluster that all share is removed; what was there before stays."""

from __future__ import annotations

import pytest

from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.fixtures import LEFTOVERS
from tests.controlplane.leftovers import ADMISSION, Leftovers
from tests.master.custom_resources import API, Kinds
from tests.master.custom_resources import rule as some_rule

POLICIES = f"{ADMISSION}validatingadmissionpolicies"
POLICY = {
    "metadata": {"name": "left-policy"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["nodes"]}]
        },
        "validations": [{"expression": "true"}],
    },
}


def test_what_was_left_is_removed_and_nothing_else(control_plane: ControlPlane, node_name: str) -> None:
    control_plane.create_node(node_name)
    leftovers, kinds = Leftovers(control_plane), Kinds(control_plane)
    kinds.install("nodefeatures", "nodefeaturerules")
    control_plane.create_node(f"{node_name}-left")
    kinds.features("left", "left", node_name)
    kinds.rules("left", some_rule(labels={"a": "1"}))
    control_plane.create(POLICIES, POLICY)
    with control_plane.outage():
        pass
    gone = [
        f"{POLICIES}/left-policy",
        f"{API}/nodefeaturerules/left",
        f"{API}/namespaces/left/nodefeatures/left",
        f"/api/v1/nodes/{node_name}-left",
    ]
    assert leftovers.remove() == gone
    for path in gone:
        with pytest.raises(ApiError, match="404"):
            control_plane.request("GET", path)
    assert control_plane.get_node(node_name)["metadata"]["name"] == node_name
    position = control_plane.audit_log.position()
    while leftovers.remove():  # the requests above
        pass
    assert control_plane.audit_log.position() > position
    position = control_plane.audit_log.position()
    assert (leftovers.remove(), control_plane.audit_log.position()) == ([], position)


def test_the_fixture_knows_the_cluster(control_plane: ControlPlane, request: pytest.FixtureRequest) -> None:
    assert request.config.stash[LEFTOVERS].plane is control_plane
