"""`nfd-topology-updater` on a real API server: what it writes, when it does, and when it does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from nfd.topology.zones import fingerprint
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import Program, eventually
from tests.topology.conftest import NAMESPACE, TOPOLOGIES, Start, delete, find
from tests.topology.kubelet import Kubelet
from tests.topology.scene import GPU, ZONES

LONG = 90.0
"""Seconds that a loaded machine may take for what takes one."""
WRITES = "nfd_topology_updater_writes_total"
SCAN_ERRORS = "nfd_topology_updater_scan_errors_total"
Zones = list[dict[str, Any]]


def available(zones: Zones, zone: int, resource: str) -> str:
    (found,) = [one["available"] for one in zones[zone]["resources"] if one["name"] == resource]
    return str(found)


def writes(cluster: ControlPlane, since: int, node: str) -> int:
    return len([one for one in cluster.writes(since, "noderesourcetopologies") if one.name == node])


def written(cluster: ControlPlane, node: str, right: Callable[[Zones], bool] = bool) -> dict[str, Any]:
    """The object, once its zones are right."""
    return eventually(lambda: (found := find(cluster, node)) and right(found["zones"]) and found, LONG)


def scans(kubelet: Kubelet, more: int) -> None:
    """Wait for so many further scans."""
    wanted = kubelet.asked + more
    eventually(lambda: kubelet.asked >= wanted, LONG)


def test_the_object_is_the_one_computed_by_hand_and_is_written_once(
    cluster: ControlPlane, start: Start, node: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    """Also over a restart: nothing is written while nothing has changed."""
    before = cluster.mark()
    program = start("-sleep-interval=300ms")
    found = written(cluster, node)
    assert found["zones"] == ZONES
    assert found["topologyPolicies"] == ["SingleNUMANodePodLevel"]
    names = [(pod.namespace, pod.name) for pod in kubelet.pods]
    assert found["attributes"] == [
        {"name": "topologyManagerPolicy", "value": "single-numa-node"},
        {"name": "topologyManagerScope", "value": "pod"},
        {"name": "nodeTopologyPodsFingerprint", "value": fingerprint(names)},
    ]
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Namespace", NAMESPACE)
    (manager,) = found["metadata"]["managedFields"]
    assert manager["manager"] == "node-feature-discovery-topology-updater"
    assert manager["operation"] == "Apply"
    scans(kubelet, 5)
    assert program.ready()
    assert program.metric(WRITES) == 1
    assert program.stop() == 0
    again = start("-sleep-interval=300ms")
    scans(kubelet, 3)
    assert again.get("/healthz")[0] == 200
    assert again.metric(WRITES) == 0
    assert 'nfd_topology_updater_build_info{version="' in again.get("/metrics")[1]
    assert writes(cluster, before, node) == 1


def test_changes_of_files_and_of_pods_are_seen_at_once(
    cluster: ControlPlane, start: Start, node: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    """No interval: the kubelet's files tell of what it gave out, the API server of pods that come and go."""
    start("-sleep-interval=0")
    written(cluster, node)
    kubelet.pods = kubelet.pods[1:]
    (tmp_path / "state/unrelated").write_text("x")
    hidden = tmp_path / "state/.cpu_manager_state1"
    hidden.write_text("{}")
    hidden.rename(tmp_path / "state/cpu_manager_state")
    written(cluster, node, lambda zones: available(zones, 0, "cpu") == "6")
    kubelet.pods = [one for one in kubelet.pods if one.name != "burstable"]
    (tmp_path / "state/device-plugins/kubelet_internal_checkpoint").write_text("{}")
    written(cluster, node, lambda zones: available(zones, 1, GPU) == "2")
    kubelet.pods = [one for one in kubelet.pods if one.name != "wide"]
    delete(cluster, f"/api/v1/namespaces/{node}-other/pods/wide?gracePeriodSeconds=0")
    written(cluster, node, lambda zones: available(zones, 1, "cpu") == "8")


def test_a_scan_that_fails_removes_nothing(
    cluster: ControlPlane, start: Start, node: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    """Whatever is away: it is counted, said once, and once it is back what has changed meanwhile is written."""
    program = start("-sleep-interval=200ms", "-v=1")
    there = written(cluster, node)
    kubelet.refusing = "not now"
    eventually(lambda: program.metric(SCAN_ERRORS) >= 1, LONG)
    kubelet.stop()
    eventually(lambda: program.metric(SCAN_ERRORS) >= 2, LONG)
    assert find(cluster, node) == there
    (line,) = [one for one in program.said("scan failed") if one["level"] == "warning"]
    assert "not now" in line["error"]
    kubelet.refusing, kubelet.pods = "", kubelet.pods[1:]
    kubelet.start()
    written(cluster, node, lambda zones: available(zones, 0, "cpu") == "6")
    assert program.alive()


def test_a_kubelet_configuration_that_is_away_counts_as_it_was(
    cluster: ControlPlane, start: Start, node: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    program = start("-sleep-interval=200ms")
    written(cluster, node)
    (tmp_path / "kubelet.yaml").unlink()
    kubelet.pods = kubelet.pods[1:]
    found = written(cluster, node, lambda zones: available(zones, 0, "cpu") == "6")
    assert found["topologyPolicies"] == ["SingleNUMANodePodLevel"]
    lines = eventually(lambda: program.said("cannot read the kubelet's configuration; the previous one is used"), LONG)
    scans(kubelet, 3)
    assert len(program.said(lines[0]["event"])) == 1


@contextmanager
def busy(file: Path) -> Iterator[None]:
    """The kubelet gives out and takes back all the time."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.05):
            file.write_text(str(time.monotonic()))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_an_interval_comes_also_on_a_busy_node(cluster: ControlPlane, start: Start, node: str, tmp_path: Path) -> None:
    start("-sleep-interval=2s")
    with busy(tmp_path / "state/cpu_manager_state"):
        written(cluster, node)
        (tmp_path / "kubelet.yaml").write_text("topologyManagerPolicy: restricted\n")
        eventually(lambda: find(cluster, node)["topologyPolicies"] == ["RestrictedContainerLevel"], LONG)


def test_what_somebody_else_changes_or_deletes_is_written_again(cluster: ControlPlane, start: Start, node: str) -> None:
    start("-sleep-interval=300ms")
    there = written(cluster, node)
    delete(cluster, f"{TOPOLOGIES}/{node}")
    again = written(cluster, node)
    assert again["metadata"]["uid"] != there["metadata"]["uid"]
    cluster.request("PATCH", f"{TOPOLOGIES}/{node}", {"zones": []}, content_type="application/merge-patch+json")
    assert written(cluster, node)["zones"] == ZONES


def test_an_api_server_that_is_away_is_waited_for(
    cluster: ControlPlane, start: Start, node: str, kubelet: Kubelet
) -> None:
    program = start("-sleep-interval=300ms")
    written(cluster, node)
    with cluster.outage():
        kubelet.pods = kubelet.pods[1:]
        eventually(lambda: program.metric("nfd_topology_updater_publish_errors_total") >= 1, LONG)
        assert program.alive()
    written(cluster, node, lambda zones: available(zones, 0, "cpu") == "6")


def test_once_for_one_namespace_without_what_is_excluded(
    cluster: ControlPlane, start: Start, node: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    config = tmp_path / "updater.conf"
    config.write_text(yaml.safe_dump({"excludeList": {node: ["memory"], "*": [GPU], "elsewhere": ["cpu"]}}))
    flags = (f"-config={config}", f"--watch-namespace={node}-other", "-pods-fingerprint=false")
    program = start("-oneshot", *flags)
    assert program.wait(LONG) == 0
    found = find(cluster, node)
    resources = [[one["name"] for one in zone["resources"]] for zone in found["zones"]]
    assert resources == [["cpu", "example.com/nic", "hugepages-2Mi"]] * 2
    assert [available(found["zones"], zone, "cpu") for zone in (0, 1)] == ["6", "6"]
    assert [one["name"] for one in found["attributes"]] == ["topologyManagerPolicy", "topologyManagerScope"]


def test_nothing_is_published_but_shown(cluster: ControlPlane, start: Start, node: str) -> None:
    program = start("-oneshot", "-no-publish")
    assert program.wait(LONG) == 0
    assert yaml.safe_load(program.text())["zones"] == ZONES
    assert not find(cluster, node)


def test_once_without_a_kubelet_is_a_failure(start: Start, kubelet: Kubelet) -> None:
    kubelet.stop()
    program = start("-oneshot")
    assert program.wait(LONG) == 1
    assert str(kubelet.socket) in program.said("scan failed")[0]["error"]


def test_a_pod_that_the_api_server_does_not_know_is_not_guessed_at(
    cluster: ControlPlane, start: Start, node: str, kubelet: Kubelet
) -> None:
    kubelet.pods[0].name = "stranger"
    program: Program = start("-oneshot")
    assert program.wait(LONG) == 1
    assert f"{node}/stranger" in program.said("scan failed")[0]["error"]
    assert not find(cluster, node)


def test_a_cluster_without_the_definition_is_told_of(cluster: ControlPlane, start: Start, node: str) -> None:
    """And waited for: it is written once the definition comes."""
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderesourcetopologies.topology.node.k8s.io"
    definition = cluster.request("GET", crd)
    delete(cluster, crd)
    try:
        program = start("-sleep-interval=300ms")
        line = eventually(lambda: program.said("topology not published"), LONG)[0]
        assert "no definition of NodeResourceTopology" in line["error"]
        assert not program.ready()
    finally:
        body = {key: definition[key] for key in ("apiVersion", "kind", "spec")}
        about = {key: definition["metadata"][key] for key in ("name", "annotations")}
        recreate(cluster, {**body, "metadata": about}, crd)
    written(cluster, node)


def recreate(cluster: ControlPlane, definition: dict[str, Any], path: str) -> None:
    """The old one may take a moment to be gone."""

    def gone() -> bool:
        cluster.create(path.rpartition("/")[0], definition)
        found = cluster.request("GET", path)
        conditions = found.get("status", {}).get("conditions") or ()  # null at first
        states = {one["type"]: one["status"] for one in conditions}
        return "deletionTimestamp" not in found["metadata"] and states.get("Established") == "True"

    eventually(gone, LONG)


def test_the_state_folder_may_come_later(
    cluster: ControlPlane, start: Start, node: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    start("-sleep-interval=0", f"-kubelet-state-dir={tmp_path / 'later'}")
    written(cluster, node)
    (tmp_path / "later").mkdir()
    kubelet.pods = kubelet.pods[1:]
    (tmp_path / "later/memory_manager_state").write_text("{}")
    written(cluster, node, lambda zones: available(zones, 0, "cpu") == "6")
