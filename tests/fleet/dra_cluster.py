"""The nodes of `dra_objects` on a real API server, with their ResourceSlices, ResourceClaims and pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nfd.kube.dra_lists import GROUP
from tests.controlplane.cluster import ControlPlane
from tests.fleet.dra_objects import CASES, Case


def node_of(name: str, case: Case) -> dict[str, Any]:
    amounts = {"cpu": "8", **case.allocatable}
    labels = {"nvidia.com/gpu.present": "true", "kubernetes.io/hostname": name}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


@contextmanager
def dra_on(plane: ControlPlane) -> Iterator[None]:
    """All of them, and gone again afterwards."""
    made: list[str] = []

    def create(path: str, body: Mapping[str, Any]) -> None:
        status = body.get("status")
        plane.request("POST", path, {key: value for key, value in body.items() if key != "status"})
        made.append(f"{path}/{body['metadata']['name']}")
        if status:
            plane.request("PATCH", f"{made[-1]}/status", {"status": status})

    for name, labels in (("dra", {}), ("dra-admin", {"resource.kubernetes.io/admin-access": "true"})):
        plane.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    try:
        for name, case in CASES.items():
            create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node_of(name, case)})
            for one in case.slices:
                create(f"{GROUP}/v1/resourceslices", one)
            for one in case.claims:
                create(f"{GROUP}/v1/namespaces/{one['metadata']['namespace']}/resourceclaims", one)
            for one in case.pods:
                create("/api/v1/namespaces/dra/pods", one)
        yield
    finally:
        for path in reversed(made):
            grace = "?gracePeriodSeconds=0" if "/pods/" in path else ""
            plane.request("DELETE", path + grace)
