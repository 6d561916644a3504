"""What only a real API server shows: its audit log, its refusals, its outages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nfd.errors import ConfigError, Forbidden, Invalid, NotFound, Unavailable
from nfd.kube.check_responses import identified
from nfd.kube.client import JSON, MERGE_PATCH, METADATA_ONLY, Request, connect
from nfd.kube.paths import NODES, object_path
from nfd.master.node.annotation_budget import BUDGET
from nfd.master.node.desired import Contribution
from nfd.master.node.outcome import Outcome
from nfd.report import Report
from nfd.runtime.prometheus import render
from nfd.store.base import FIELD_MANAGER, LONGEST_ANNOTATION, Node, Patch, trim
from nfd.store.kube import KubeStore
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.master.conftest import BOOT, Masters, Worker, asking, send
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"


@pytest.fixture
def place(control_plane: ControlPlane) -> Cluster:
    return Cluster(control_plane)


@pytest.fixture
def name(node_name: str) -> str:
    return node_name


async def test_persons_labels_survive_and_passes_without_news_write_nothing(
    place: Cluster, masters: Masters, name: str
) -> None:
    place.create(name, {}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    wanted = {F + f"cpu-{number}": "true" for number in range(80)} | {"mine": "1", "nvidia.com/gpu.count": "8"}
    mark = place.plane.mark()
    await send(master, worker.report(wanted))
    assert [event.verb for event in place.plane.writes(mark)] == ["patch"]
    place.plane.kubectl("label", "node", name, "foo=bar")
    mark = place.plane.mark()
    for _ in range(100):
        await send(master, worker.report(wanted))
    assert place.plane.writes(mark) == []
    assert [event for event in place.plane.audit(mark) if event.agent.startswith("nfd-master")] == []
    await master.stop()
    second = await masters.start()
    await send(second, worker.report(wanted))
    assert place.plane.writes(mark) == []
    await send(second, worker.report({"mine": "2"}))
    assert labels_of(place, name) == {"foo": "bar", F + "mine": "2"}
    assert len(place.plane.writes(mark)) == 1


async def test_our_writes_name_their_manager(place: Cluster, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    await send(await masters.start(), Worker(name).report({F + "cpu-a": "1"}))
    managed = place.plane.request("GET", f"/api/v1/nodes/{name}")["metadata"]["managedFields"]
    assert FIELD_MANAGER in {entry["manager"] for entry in managed}


async def test_lost_race_is_a_conflict_and_planned_again(place: Cluster, masters: Masters, name: str) -> None:
    """The cache is behind for as long as the watch is cut off; a GET after the third conflict gets over it."""
    place.create(name, {}, {}, BOOT)
    master = await masters.start()
    assert master._store._watching.cancel()  # type: ignore[attr-defined]
    place.edit(name, {"metadata": {"labels": {"foo": "bar"}}})
    await send(master, Worker(name).report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == {"foo": "bar", F + "cpu-a": "1"}
    assert render(master.metrics.families(), openmetrics=False).count('node_patches_total{result="conflict"} 3')


async def test_a_version_is_parsed_once(place: Cluster, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever comes first, the answer to a PATCH or the event of the watch, which repeats it. A later version is
    parsed, and so is a Node of the same name with another uid."""
    parsed: list[tuple[str, str]] = []

    def note(item: Mapping[str, Any], version: str | None = None) -> Node:
        node = trim(item, version)
        parsed.append((node.name, node.version))
        return node

    place.create(name, {}, {}, BOOT)
    store = await place.open()
    monkeypatch.setattr("nfd.store.kube.trim", note)
    await store.start(lambda _: None)
    answer = await store.patch(name, Patch({"metadata": {"labels": {F + "cpu-a": "1"}}}))
    place.edit(name, {"metadata": {"labels": {"foo": "bar"}}})
    await until(lambda: (node := store.get(name)) is not None and "foo" in node.labels)
    assert parsed.count((name, answer.version)) == 1
    place.delete(name)
    uid = place.create(name, {}, {}, BOOT)["metadata"]["uid"]
    await until(lambda: (node := store.get(name)) is not None and node.uid == uid)
    await store.close()


async def test_recreated_node_behind_our_back_is_not_written(place: Cluster, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master = await masters.start()
    assert master._store._watching.cancel()  # type: ignore[attr-defined]
    place.delete(name)
    place.create(name, {}, {}, "boot-2")
    await send(master, Worker(name).report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == {}


POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


@pytest.fixture
async def forbidden_resource(control_plane: ControlPlane) -> AsyncIterator[str]:
    """The API server refuses this resource, by an admission policy of the cluster's."""
    expression = "!has(object.status.capacity) || !('vendor.io/forbidden' in object.status.capacity)"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    control_plane.request("POST", POLICY, {"metadata": {"name": "no-resource"}, "spec": spec})
    binding = {
        "metadata": {"name": "no-resource"},
        "spec": {"policyName": "no-resource", "validationActions": ["Deny"]},
    }
    control_plane.request("POST", f"{POLICY.removesuffix('ies')}ybindings", binding)
    probe = "/api/v1/nodes/probe"
    control_plane.create_node("probe")
    body = {"status": {"capacity": {"vendor.io/forbidden": "1"}}}

    def refused() -> bool:
        try:
            control_plane.request("PATCH", f"{probe}/status", body)
        except ApiError as error:
            return error.status == 422
        return False

    await until(refused, 30)
    yield "vendor.io/forbidden"
    control_plane.request("DELETE", f"{POLICY.removesuffix('ies')}ybindings/no-resource")
    control_plane.request("DELETE", f"{POLICY}/no-resource")
    control_plane.delete_node("probe")


async def test_a_refused_amount_takes_nothing_down(
    place: Cluster, masters: Masters, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The other resources change as they are asked to; the refused one stays as it was, and is no contest."""
    place.create(name, {}, {}, BOOT)
    wanted: list[Contribution] = []
    master, worker = await masters.start(evaluate=asking(wanted)), Worker(name)

    async def ask(**amounts: str) -> dict[str, str]:
        found = {f"vendor.io/{key}": amount for key, amount in amounts.items()}
        wanted[:] = [Contribution("rule:o/r", extended_resources=found)] if found else []
        await send(master, worker.report({F + "cpu-a": str(len(caplog.messages))}))
        capacity = place.get(name)["status"]["capacity"]
        return {key.removeprefix("vendor.io/"): value for key, value in capacity.items() if "vendor.io/" in key}

    assert await ask(widgets="5", gone="1", big="7") == {"widgets": "5", "gone": "1", "big": "7"}
    much = {"big": "99999999999999999999", "bigger": "7Ei"}
    assert await ask(widgets="6", new="2", **much) == {"widgets": "6", "new": "2", "big": "7"}
    assert await ask(widgets="7", **much) == {"widgets": "7", "big": "7"}
    assert caplog.messages.count("keys are rejected; the others were written") == 1
    assert await ask(widgets="7", big="8", bigger="8Ei") == {"widgets": "7", "big": "8", "bigger": str(2**63 - 1)}
    for _ in range(3):
        await ask(big="99999999999999999999")
        assert await ask() == {}
    assert master.metrics["drift_restored"] == 0


@pytest.mark.parametrize(("resource", "amount"), [("vendor.io/forbidden", "1"), ("vendor.io/big", "9" * 20)])
async def test_what_is_refused_is_no_contest(
    place: Cluster, masters: Masters, name: str, forbidden_resource: str, resource: str, amount: str
) -> None:
    """A rule that comes and goes again and again is nobody's doing, though a part of what it asks for is refused."""
    place.create(name, {}, {}, BOOT)
    rule = Contribution("rule:o/r", labels={F + "cpu-a": "rule"}, extended_resources={resource: amount})
    asked: list[tuple[Contribution, ...]] = [()]

    def ask(node: Node, report: Report | None) -> Outcome | None:
        return asking(asked[0])(node, report)

    master = await masters.start(evaluate=ask)
    await send(master, Worker(name).report({F + "cpu-a": "1"}))
    for found, value in (((rule,), "rule"), ((), "1")) * 4:
        asked[0] = found
        master.queue.add(name)
        await until(lambda value=value: labels_of(place, name) == {F + "cpu-a": value})  # type: ignore[misc]
    assert master.metrics["drift_restored"] == 0


async def test_refused_resource_does_not_take_labels_down(
    place: Cluster, masters: Masters, name: str, forbidden_resource: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The labels are written, and nothing repeats."""
    place.create(name, {}, {}, BOOT)
    wanted = [Contribution("rule:o/r", extended_resources={forbidden_resource: "1"})]
    master, worker = await masters.start(evaluate=asking(wanted)), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "1"}
    await send(master, worker.report({F + "cpu-a": "1"}))
    mark = place.plane.mark()
    await send(master, worker.report({F + "cpu-a": "1"}))
    assert place.plane.writes(mark) == []
    assert master.metrics["drift_restored"] == 0
    assert "keys are rejected; the others were written" in caplog.messages
    wanted.clear()
    await send(master, worker.report({F + "cpu-b": "1"}))
    assert labels_of(place, name) == {F + "cpu-b": "1"}


async def test_of_too_many_labels_as_many_as_fit_are_written(
    place: Cluster, masters: Masters, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The annotations of a Node, our lists of keys among them, may have 256 KiB; 6,000 long keys need more."""
    place.create(name, {}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    many = {F + f"cpu-{number:05d}{'x' * 50}": "1" for number in range(6000)}
    await send(master, worker.report(many))
    written = labels_of(place, name)
    assert 3000 < len(written) < 6000
    assert written.items() < many.items()
    assert "more keys rejected" in caplog.messages
    mark = place.plane.mark()
    await send(master, worker.report(many))
    assert place.plane.writes(mark) == []
    await send(master, worker.report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "1"}


async def test_outage_of_the_api_server(place: Cluster, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}))
    with place.plane.outage():  # in this thread: the server lives no longer than the thread that starts it
        reply = asyncio.create_task(send(master, worker.report({F + "cpu-a": "2"})))
        await until(lambda: master.metrics["node_update_failures"] > 0)
    assert (await reply).heartbeat > 0
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "2"}, 30)
    await until(lambda: master._store.connected, 30)
    place.edit(name, {"metadata": {"labels": {F + "cpu-a": None}}})
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "2"})


async def test_store_pages_patches_and_errors(place: Cluster, name: str, control_plane: ControlPlane) -> None:
    names = {f"{name}-{number}" for number in range(5)}
    for one in names:
        place.create(one, {"n": one}, {}, BOOT)
    store = await place.open()
    try:
        await store.start(lambda changed: None)
        assert names <= set(store.names())
        node = store.get(f"{name}-0")
        assert node is not None
        assert (node.labels, node.boot_id, node.resources) == ({"n": f"{name}-0"}, BOOT, {})
        assert await store.ensure("nobody") is None
        after = await store.patch(node.name, Patch({"metadata": {"labels": {"new": "1"}}}))
        assert (after.labels["new"], after.boot_id) == ("1", BOOT)
        with pytest.raises(NotFound):
            await store.read("nobody")
        with pytest.raises(Invalid, match="labels"):
            await store.patch(node.name, Patch({"metadata": {"labels": {"new": "not legal!"}}}))
    finally:
        await store.close()
        for one in names:
            place.delete(one)


@pytest.mark.parametrize("accept", [JSON, METADATA_ONLY])
async def test_answers_begin_with_name_uid_and_version(place: Cluster, name: str, accept: str) -> None:
    """So an answer that says what the watch has brought is not parsed."""
    place.create(name, {}, {}, BOOT)
    client = await connect(str(place.plane.kubeconfig))
    body = b'{"metadata":{"labels":{"resourceVersion":"1"}}}'
    try:
        async with client.open(Request("PATCH", object_path(NODES, name), {}, body, MERGE_PATCH, accept)) as response:
            answer = await response.read()
    finally:
        await client.close()
    said = json.loads(answer)["metadata"]
    assert identified(answer) == tuple(one.encode() for one in (name, said["uid"], said["resourceVersion"]))


async def test_an_answer_that_the_watch_has_brought_is_not_parsed(
    place: Cluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one of another Node, or of another version, is."""
    place.create(name, {}, {}, BOOT)
    store, change = await place.open(), Patch({"metadata": {"labels": {"new": "1"}}})
    parsed, whole = list[object](), KubeStore._node_of

    def node_of(self: KubeStore, answer: object, *rest: Any) -> Node:
        parsed.append(answer)
        return whole(self, answer, *rest)

    try:
        await store.start(lambda changed: None)
        monkeypatch.setattr(KubeStore, "_node_of", node_of)
        await store.patch(name, change)
        after = store.get(name)
        parsed.clear()
        assert await store.patch(name, change) is after  # nothing changed, so the version is the same
        assert not parsed
        store._nodes.items["", name] = replace(after, uid="another")
        assert (await store.patch(name, change)).uid == after.uid
        assert len(parsed) == 1
    finally:
        await store.close()


async def test_rights_that_stay_missing_are_told(control_plane: ControlPlane) -> None:
    store = KubeStore(await connect(str(control_plane.kubeconfig_for("alice"))), patience=1)
    with pytest.raises(Forbidden, match="alice"):
        await store.start(lambda name: None)
    await store.close()


async def test_bad_kubeconfigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="not in a pod with a service account"):
        await connect()
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    shapeless = (
        {"clusters": 7},
        {"contexts": 7},
        {"contexts": [{"name": "x", "context": 7}]},
        {"contexts": [context], "clusters": [{"name": "c", "cluster": 7}], "users": []},
        {"contexts": [context], "clusters": [{"name": "c", "cluster": {"server": 7}}], "users": []},
    )
    for text in ("", "null", "7", "a", "{", "[]", *(json.dumps({"current-context": "x", **one}) for one in shapeless)):
        (tmp_path / "config").write_text(text)
        with pytest.raises(ConfigError, match=f"kubeconfig {tmp_path}") as caught:
            await connect(str(tmp_path / "config"))
        assert " object " not in str(caught.value), text
    with pytest.raises(ConfigError, match="No such file"):
        await connect(str(tmp_path / "absent"))


async def test_nobody_there_is_unavailable(tmp_path: Path) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    client = await connect(str(tmp_path / "config"))
    with pytest.raises(Unavailable):
        await client.json("GET", "/api/v1/nodes")
    await client.close()


@pytest.mark.parametrize(("others", "annotations", "labels"), [(0, 300, 50), (180 * 1024, 0, 2000)])
async def test_a_node_without_room_gets_one_patch(
    place: Cluster, masters: Masters, name: str, others: int, annotations: int, labels: int
) -> None:
    """The API server rejects nothing, and what does not fit is named. A longer annotation of another writer counts."""
    place.create(name, {}, {"others.io/large": "x" * 2000}, BOOT)
    store = await place.open()
    master = await masters.start(store)
    place.edit(name, {"metadata": {"annotations": {"others.io/large": "x" * max(others, 2000)}}})
    cut = max(others, 2000) - LONGEST_ANNOTATION - 1
    await until(lambda: (node := store.get(name)) is not None and node.cut == cut)
    notes = {f"{F}note-{number:03}": "z" * 1000 for number in range(annotations)}
    wanted = {f"{F}cpu-{number:05}-{'y' * 40}": "1" for number in range(labels)}
    origins = {**dict.fromkeys(notes, "custom"), **dict.fromkeys(wanted, "cpu")}
    await send(master, Worker(name).report(wanted, origins=origins, annotations=notes))
    await master.queue.idle()
    assert master.metrics["node_patches"] == 1
    assert not master.unwritten()
    found = place.get(name)["metadata"]
    assert 210 * 1024 < sum(len(key) + len(text) for key, text in found["annotations"].items()) <= BUDGET
    assert len(found["labels"].keys() & wanted.keys()) == labels if annotations else 500 < len(found["labels"]) < labels
