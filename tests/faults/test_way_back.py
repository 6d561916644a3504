"""From this product to NFD 0.19 and back: no label that both want is absent for a moment, and none is left over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.controlplane.cluster import ControlPlane
from tests.faults.conftest import FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.faults.test_fleets import changes, version
from tests.master.conftest import Worker, send
from tests.master.places import Cluster, labels_of, notes_of

F = "feature.node.kubernetes.io/"
LIST = "nfd.node.kubernetes.io/feature-labels"


def nfd_pass(plane: ControlPlane, name: str, wanted: Mapping[str, str]) -> None:
    """What NFD 0.19's master does to a node's labels in one pass: a JSON patch of labels, then of its list of them.

    What the list names and nobody wants goes, what is wanted is set, and whatever else is there stays.
    """
    metadata = plane.get_node(name)["metadata"]
    labels, notes = metadata.get("labels", {}), metadata.get("annotations", {})
    owned = {key if "/" in key else F + key for key in notes.get(LIST, "").split(",") if key}
    operations: list[dict[str, Any]] = [
        {"op": "remove", "path": pointer("labels", key)} for key in sorted((owned - wanted.keys()) & labels.keys())
    ]
    for key, value in wanted.items():
        if labels.get(key) != value:
            operations.append(
                {"op": "replace" if key in labels else "add", "path": pointer("labels", key), "value": value}
            )
    listed = ",".join(sorted(key.removeprefix(F) for key in wanted))
    if notes.get(LIST) != listed:
        operations.append(
            {"op": "replace" if LIST in notes else "add", "path": pointer("annotations", LIST), "value": listed}
        )
    if operations:
        plane.request("PATCH", f"/api/v1/nodes/{name}", operations, "application/json-patch+json")  # type: ignore[arg-type]


def pointer(kind: str, key: str) -> str:
    return f"/metadata/{kind}/{key.replace('~', '~0').replace('/', '~1')}"


async def test_to_nfd_and_back(masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made) -> None:
    name = make({"foo": "bar"})
    both = {F + "cpu-a": "1", F + "kernel-b": "1", "vendor.io/rule": "1"}
    ours = both | {"nvidia.com/gpu.count": "8", F + "pci-10de.present": "true"}
    first, worker = await masters.start(proxy), Worker(name)
    await send(first, worker.report(ours, origins=dict.fromkeys(ours, "local")))
    assert labels_of(place, name) == ours | {"foo": "bar"}
    await masters.stack.aclose()
    since = version(place.plane)
    theirs = both | {F + "cpu-theirs": "1"}
    for _ in range(2):
        nfd_pass(place.plane, name, theirs)
        assert labels_of(place, name) == theirs | {"foo": "bar"}, "what is ours alone is not left over"
    second = await masters.start(proxy)
    await send(second, Worker(name, started=2).report(ours, failed=("usb",)))
    assert labels_of(place, name) == ours | theirs | {"foo": "bar"}, "origins are unknown, and a source failed"
    await send(second, Worker(name, started=3).report(ours))
    assert labels_of(place, name) == ours | {"foo": "bar"}
    listed = {key if "/" in key else F + key for key in notes_of(place, name)[LIST].split(",")}
    assert listed == ours.keys()
    seen = [change["object"]["metadata"]["labels"] for change in changes(place.plane, since)]
    assert len(seen) == 3
    assert all(labels.items() >= (both | {"foo": "bar"}).items() for labels in seen)
