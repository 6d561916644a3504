"""A fleet that is split among masters by a label: each writes its own Nodes, and a Node may go over to another."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nfd.errors import ReportError
from nfd.kube.client import connect
from nfd.master.node.prune import prune
from nfd.master.service import Service
from nfd.store.kube import KubeStore
from tests.controlplane.cluster import ControlPlane
from tests.master.conftest import BOOT, Masters, Worker, send
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
POOL = "example.com/pool-of-selector-tests"


@pytest.fixture
def place(control_plane: ControlPlane) -> Cluster:
    return Cluster(control_plane)


async def start(masters: Masters, place: Cluster, selector: str) -> Service:
    client = await connect(str(place.plane.kubeconfig))
    return await masters.start(KubeStore(client, selector=selector))


async def test_each_master_takes_its_own_nodes(place: Cluster, masters: Masters, name: str) -> None:
    for number, pool in enumerate(("a", "b", None)):
        place.create(f"{name}-{number}", {POOL: pool} if pool else {}, {}, BOOT)
    first, rest = await start(masters, place, f"{POOL}=a"), await start(masters, place, f"{POOL}!=a")
    assert first.nodes()
    assert {node.labels[POOL] for node in first.nodes()} == {"a"}
    for number, own, other in ((0, first, rest), (1, rest, first), (2, rest, first)):
        worker = Worker(f"{name}-{number}")
        with pytest.raises(ReportError, match=f"no node {name}-{number} is selected by this master's") as refusal:
            await send(other, worker.report({"mine": "1"}))
        assert (refusal.value.code, refusal.value.retry_after) == ("FAILED_PRECONDITION", 60.0)
        await send(own, worker.report({"mine": "1"}))
        assert labels_of(place, worker.node)[F + "mine"] == "1"
        place.delete(worker.node)


async def test_node_that_goes_over_loses_nothing(place: Cluster, masters: Masters, name: str) -> None:
    """The old master writes nothing more; the new one knows what is ours, and removes what the next report lacks."""
    place.create(name, {POOL: "a"}, {}, BOOT)
    first, second = await start(masters, place, f"{POOL}=a"), await start(masters, place, f"{POOL}=b")
    worker = Worker(name)
    await send(first, worker.report({"mine": "1", "cpu-old": "true"}))
    mark = place.plane.mark()
    place.edit(name, {"metadata": {"labels": {POOL: "b"}}})
    await until(lambda: not first.nodes() and bool(second.nodes()))
    await send(second, worker.report({"mine": "1", "cpu-old": "true"}))
    assert labels_of(place, name) == {POOL: "b", F + "mine": "1", F + "cpu-old": "true"}
    assert not [event for event in place.plane.writes(mark) if event.agent.startswith("nfd-master")]
    with pytest.raises(ReportError, match="no node"):
        await send(first, worker.report({"mine": "2"}))
    await send(second, worker.report({"mine": "2"}))
    assert labels_of(place, name) == {POOL: "b", F + "mine": "2"}


async def test_removal_leaves_the_nodes_of_others(place: Cluster, masters: Masters, name: str) -> None:
    for pool in ("gone", "kept"):
        place.create(f"{name}-{pool}", {POOL: pool}, {}, BOOT)
    master = await masters.start()
    for pool in ("gone", "kept"):
        await send(master, Worker(f"{name}-{pool}").report({"mine": "1"}))
    store = KubeStore(await connect(str(place.plane.kubeconfig)), selector=f"{POOL}=gone")
    await store.start(lambda name: None)
    assert [planned.node.name async for planned in prune(store)] == [f"{name}-gone"]
    await store.close()
    assert F + "mine" in labels_of(place, f"{name}-kept")


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--node-selector=pool=a b",), "'pool=a b'"),
        (("--node-selector=pool=a", "--node-store=file:/tmp/nodes"), "--node-selector needs --node-store=kubernetes"),
    ],
)
def test_bad_flags(flags: tuple[str, ...], reason: str) -> None:
    words = [sys.executable, "-m", "nfd.master.cli", "-port=0", "-http-port=0", "-config=", *flags]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert reason in found.stderr
