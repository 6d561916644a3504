"""Removes what a test module left in the cluster that all tests share, so that no module depends on those before it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.controlplane.api import ApiError, Json
from tests.controlplane.cluster import ControlPlane

ADMISSION = "/apis/admissionregistration.k8s.io/v1/"
COLLECTIONS = (
    f"{ADMISSION}validatingadmissionpolicybindings",
    f"{ADMISSION}validatingadmissionpolicies",
    f"{ADMISSION}validatingwebhookconfigurations",
    f"{ADMISSION}mutatingwebhookconfigurations",
    "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules",
    "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturegroups",
    "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeatures",
    "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
    "/api/v1/nodes",
)
"""What our programs list or are subject to, all over the cluster. What refuses or calls comes first."""


LONGEST_START = 30.0
"""Seconds."""


@dataclass
class Leftovers:
    """Objects of these kinds that were not there when this began."""

    plane: ControlPlane
    _first: frozenset[str] = field(init=False)
    _seen: int = field(init=False)

    def __post_init__(self) -> None:
        self._first = frozenset(self._paths())
        self._seen = self.plane.audit_log.position()

    def remove(self) -> list[str]:
        """Delete them, and return their paths; nothing is asked if no request was made since the last time."""
        if self.plane.audit_log.position() == self._seen:
            return []
        found = [path for path in self._paths() if path not in self._first]
        for path in found:
            self._answer("DELETE", path)
        self._seen = self.plane.audit_log.position()
        return found

    def _paths(self) -> Iterator[str]:
        for collection in COLLECTIONS:
            prefix, _, resource = collection.rpartition("/")
            for item in self._answer("GET", collection).get("items", ()):
                metadata = item["metadata"]
                inside = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
                yield f"{prefix}{inside}/{resource}/{metadata['name']}"

    def _answer(self, method: str, path: str) -> Json:
        """Nothing for what is not there, a kind that is not defined among it.

        After a start, or a change of a definition, the server answers 429 until it has read the kind's objects.
        """
        deadline = time.monotonic() + LONGEST_START
        while True:
            try:
                return self.plane.request(method, path)
            except ApiError as error:
                if error.status == 404:
                    return {}
                if error.status not in (429, 503) or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)
