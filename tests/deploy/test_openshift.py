"""The chart on a cluster that has OpenShift's `config.openshift.io`: the labels of its NFD are there by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import helm_python
import pytest
import yaml

from tests.controlplane.cluster import ControlPlane
from tests.deploy.rendering import CHART, with_registry
from tests.e2e.programs import eventually

FIELDS = {"OSTREE_VERSION", "RHEL_VERSION", "OPENSHIFT_VERSION"}
NAME = "clusterversions.config.openshift.io"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": NAME,
        "annotations": {"api-approved.kubernetes.io": "https://github.com/openshift/api/pull/470"},
    },
    "spec": {
        "group": "config.openshift.io",
        "scope": "Cluster",
        "names": {"kind": "ClusterVersion", "plural": "clusterversions"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ],
    },
}


@pytest.fixture
def openshift(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster that serves the group as OpenShift does; before and after, it serves it no more than any other."""
    assert not fields(control_plane) & FIELDS
    assert fields(control_plane, openshift={"enabled": True}) > FIELDS
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    control_plane.create(path, DEFINITION)
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{NAME}")
    yield control_plane
    control_plane.request("DELETE", f"{path}/{NAME}")
    eventually(lambda: "config.openshift.io" not in control_plane.text("GET", "/apis"))


def fields(plane: ControlPlane, **values: Any) -> set[str]:
    """The fields of os-release of the configuration that an installation would have."""
    with helm_python.Config(kubeconfig_path=plane.kubeconfig, namespace="default") as helm:
        found = helm.install(str(CHART), "openshift", with_registry(values), dry_run="server")
    objects = [one for one in yaml.safe_load_all(found["manifest"]) if one]
    (config,) = [one for one in objects if "nfd-worker.conf" in (one.get("data") or {})]
    worker = yaml.safe_load(config["data"]["nfd-worker.conf"]) or {}
    return set(worker.get("sources", {}).get("system", {}).get("osReleaseLabels", ()))


def test_by_the_api_of_the_cluster(openshift: ControlPlane) -> None:
    assert fields(openshift) > FIELDS
    assert not fields(openshift, openshift={"enabled": False}) & FIELDS
