"""A Node of the real API server as an outsider sees it: labels, history, and who wrote it by the audit log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.controlplane.audit import Event, Mark
from tests.controlplane.cluster import ControlPlane

NAMESPACE = "node-feature-discovery"
ACCOUNT = "nfd-master"
MASTER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
F = "feature.node.kubernetes.io/"
OWNED = "nfd.node.kubernetes.io/feature-labels"
ORIGINS = "nfd.node.kubernetes.io/origins"


def asked(plane: ControlPlane, since: Mark) -> list[Event]:
    """What masters asked about Nodes after `since`, in order."""
    return [event for event in plane.audit(since) if event.user == MASTER and event.resource == "nodes"]


@dataclass(frozen=True)
class Node:
    plane: ControlPlane
    name: str

    def object(self) -> dict[str, Any]:
        return self.plane.get_node(self.name)

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.object()["metadata"].get("labels", {}))

    @property
    def annotations(self) -> dict[str, str]:
        return dict(self.object()["metadata"].get("annotations", {}))

    @property
    def version(self) -> str:
        return str(self.object()["metadata"]["resourceVersion"])

    def owned(self) -> set[str]:
        """The labels that are ours by the list annotation, in full."""
        items = self.annotations.get(OWNED, "").split(",")
        return {item if "/" in item else F + item for item in items if item}

    def kubectl_label(self, *changes: str) -> None:
        """`kubectl label node NAME key=value key-`."""
        self.plane.kubectl("label", "node", self.name, "--overwrite", *changes)

    def shown(self) -> dict[str, str]:
        """What `kubectl get nodes --show-labels` prints for it."""
        line = self.plane.kubectl("get", "nodes", self.name, "--show-labels", "--no-headers")
        text = line.split()[-1]
        return {} if text == "<none>" else dict(pair.split("=", 1) for pair in text.split(","))

    def writes(self, since: Mark) -> list[Event]:
        """The write requests for this Node after `since`, refused ones included, but for the admin's own."""
        return [event for event in self.plane.writes(since) if event.name == self.name and event.user != "admin"]

    def states(self, version: str) -> list[Mapping[str, str]]:
        """Its labels after each change since that resourceVersion, as a watch from there tells them."""
        query = f"watch=1&resourceVersion={version}&timeoutSeconds=1&fieldSelector=metadata.name%3D{self.name}"
        lines = self.plane.text("GET", f"/api/v1/nodes?{query}").splitlines()
        events = [json.loads(line) for line in lines]
        assert {event["type"] for event in events} <= {"MODIFIED"}, events
        return [event["object"]["metadata"].get("labels", {}) for event in events]
