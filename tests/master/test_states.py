"""State in, state out: the same on the embedded store and on a real kube-apiserver."""

from __future__ import annotations

import json

import pytest

from nfd.errors import ReportError
from nfd.master.node.desired import Contribution
from nfd.report import Report
from nfd.rules.model import Taint
from nfd.rules.policy import Policy
from tests.master.conftest import BOOT, Masters, Worker, asking, send
from tests.master.places import Folder, Place, labels_of, notes_of, until

F = "feature.node.kubernetes.io/"
TAINTS = Policy(enable_taints=True)
N = "nfd.node.kubernetes.io/"


async def test_labels_come_and_go(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {"zone": "a", F + "cpu-foreign": "x"}, {"note": "b"}, BOOT)
    master, worker = await masters.start(), Worker(name)
    reply = await send(master, worker.report({F + "pci-10de.present": "true", F + "cpu-model": "7", "mine": "1"}))
    assert 54 <= reply.heartbeat <= 66
    assert labels_of(place, name) == {
        "zone": "a", F + "cpu-foreign": "x", F + "pci-10de.present": "true", F + "cpu-model": "7", F + "mine": "1",
    }  # fmt: skip
    notes = notes_of(place, name)
    assert notes["note"] == "b"
    assert notes[N + "feature-labels"] == "cpu-model,mine,pci-10de.present"
    assert json.loads(notes[N + "origins"])["labels"] == {"local": ["mine"]}
    await send(master, worker.report({F + "cpu-model": "8"}))
    assert labels_of(place, name) == {"zone": "a", F + "cpu-foreign": "x", F + "cpu-model": "8"}
    await send(master, worker.report({}))
    assert labels_of(place, name) == {"zone": "a", F + "cpu-foreign": "x"}
    assert notes_of(place, name) == {"note": "b"}


async def test_a_reply_has_those_labels_of_the_node_that_its_worker_may_know(
    place: Place, masters: Masters, name: str
) -> None:
    chosen = {"nvidia.com/device-plugin.config": "a", "nvidia.com/gpu.deploy.dcgm-dra": "true"}
    place.create(name, {"zone": "a", "nvidia.com/gpu.product": "H100", **chosen}, {}, BOOT)
    reply = await send(await masters.start(), Worker(name).report({F + "cpu-model": "7"}))
    assert reply.node_labels == chosen


async def test_failed_source_holds_its_keys_and_no_others(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "pci-a": "1", F + "usb-a": "1", "mine": "1", "nvidia.com/gpu.count": "8"}))
    await send(master, worker.report({}, failed=("pci", "nvidia")))
    assert labels_of(place, name) == {F + "pci-a": "1", "nvidia.com/gpu.count": "8"}
    await send(master, worker.report({}, off=("pci",), failed=("nvidia",)))
    assert labels_of(place, name) == {"nvidia.com/gpu.count": "8"}
    await send(master, worker.report({}))
    assert labels_of(place, name) == {}


async def test_failed_source_keeps_its_value_against_a_weaker_one(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "by"}, origins={F + "cpu-a": "local"}))
    await send(master, worker.report({F + "cpu-a": "cpu"}, origins={F + "cpu-a": "cpu"}, failed=("local",)))
    assert labels_of(place, name) == {F + "cpu-a": "by"}
    await send(master, worker.report({F + "cpu-a": "cpu"}, origins={F + "cpu-a": "cpu"}))
    assert labels_of(place, name) == {F + "cpu-a": "cpu"}


async def test_new_master_knows_what_is_ours(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    first, worker = await masters.start(), Worker(name)
    await send(first, worker.report({F + "pci-a": "1", F + "pci-b": "1"}))
    await first.stop()
    second = await masters.start()
    await send(second, worker.report({F + "pci-b": "1"}))
    assert labels_of(place, name) == {F + "pci-b": "1"}
    assert second.metrics["node_patches"] == 1


async def test_node_of_nfd_is_taken_over_in_place(place: Place, masters: Masters, name: str) -> None:
    """Origins are unknown: nothing goes while any source fails, and then all that nobody wants."""
    listed = {F + "cpu-a": "1", F + "cpu-old": "1", F + "rule": "1", "nvidia.com/gpu.count": "8"}
    notes = {
        N + "feature-labels": "cpu-a,cpu-old,nvidia.com/gpu.count,rule",
        N + "master.version": "v0.14.0",
    }
    place.create(name, {**listed, F + "unlisted": "1"}, notes, BOOT)
    master, worker = await masters.start(), Worker(name)
    wanted = {F + "cpu-a": "1", "nvidia.com/gpu.count": "8"}
    await send(master, worker.report(wanted, failed=("usb",)))
    assert labels_of(place, name) == {**listed, F + "unlisted": "1"}
    await send(master, worker.report(wanted))
    assert labels_of(place, name) == {**wanted, F + "unlisted": "1"}
    assert notes_of(place, name)[N + "feature-labels"] == "cpu-a,nvidia.com/gpu.count"
    assert N + "master.version" not in notes_of(place, name)


async def test_allow_overwrite(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {F + "cpu-a": "theirs", F + "cpu-b": "same"}, {}, BOOT)
    master, worker = await masters.start(overwrite=False), Worker(name)
    await send(master, worker.report({F + "cpu-a": "ours", F + "cpu-b": "same", F + "cpu-c": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "theirs", F + "cpu-b": "same", F + "cpu-c": "1"}
    assert notes_of(place, name)[N + "feature-labels"] == "cpu-b,cpu-c"
    await master.stop()
    master = await masters.start(overwrite=True)
    await send(master, worker.report({F + "cpu-a": "ours", F + "cpu-b": "same", F + "cpu-c": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "ours", F + "cpu-b": "same", F + "cpu-c": "1"}


async def test_gpu_present_of_the_operator_stays_the_operators(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {"nvidia.com/gpu.present": "true"}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "1"}))
    assert notes_of(place, name)[N + "feature-labels"] == "nvidia.com/gpu.count"
    await send(master, worker.report({}))
    assert labels_of(place, name) == {"nvidia.com/gpu.present": "true"}


async def test_all_kinds_in_one_pass(place: Place, masters: Masters, name: str) -> None:
    """Resources through the status, then taints; a person's taint stays; nothing is left when the rule is gone."""
    place.create(name, {}, {}, BOOT)
    place.edit(name, {"spec": {"taints": [{"key": "person.io/x", "value": "1", "effect": "NoSchedule"}]}})
    wanted = [
        Contribution(
            "rule:object/one",
            labels={F + "rule": "1"},
            annotations={F + "note": "any text"},
            extended_resources={"vendor.io/slots": "2000"},
            taints=(
                Taint(key=F + "t", value="v", effect="NoSchedule"),
                Taint(key="person.io/x", value="2", effect="NoSchedule"),
            ),
        )
    ]
    master = await masters.start(policy=TAINTS, evaluate=asking(wanted, TAINTS))
    worker = Worker(name)
    await send(master, worker.report({}))
    node = place.get(name)
    assert node["metadata"]["labels"] == {F + "rule": "1"}
    assert node["metadata"]["annotations"][F + "note"] == "any text"
    assert node["metadata"]["annotations"][N + "extended-resources"] == "vendor.io/slots"
    assert node["metadata"]["annotations"][N + "taints"] == F + "t=v:NoSchedule"
    assert node["status"]["capacity"]["vendor.io/slots"] in ("2000", "2k")
    assert [(t["key"], t.get("value")) for t in node["spec"]["taints"]] == [("person.io/x", "1"), (F + "t", "v")]
    writes = master.metrics["node_patches"]
    await send(master, worker.report({}))
    assert master.metrics["node_patches"] == writes == 2
    wanted.clear()
    await send(master, worker.report({}))
    node = place.get(name)
    assert not node["metadata"].get("labels")
    assert not node["metadata"].get("annotations")
    assert "vendor.io/slots" not in node["status"]["capacity"]
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["person.io/x"]
    assert node["status"]["capacity"]["pods"] == "110"


async def test_report_before_the_node(place: Place, masters: Masters, name: str) -> None:
    master = await masters.start()
    await send(master, Worker(name).report({F + "cpu-a": "1"}))
    if not isinstance(place, Folder):  # the embedded store makes its Nodes itself
        place.create(name, {}, {}, BOOT)
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1"})
    place.delete(name)


async def test_recreated_node_of_the_same_boot_gets_its_labels_at_once(
    place: Place, masters: Masters, name: str
) -> None:
    place.create(name, {}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}))
    place.delete(name)
    await until(lambda: name not in master._store.names())
    place.create(name, {}, {}, BOOT)
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1"})


async def test_recreated_node_of_another_boot_waits_for_its_worker(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}))
    place.delete(name)
    await until(lambda: name not in master._store.names())
    place.create(name, {}, {}, "boot-2")
    await until(lambda: name in master._store.names())
    await master.queue.idle()
    assert labels_of(place, name) == {}
    await send(master, Worker(name, boot_id="boot-2").report({F + "cpu-b": "1"}))
    assert labels_of(place, name) == {F + "cpu-b": "1"}


async def test_recreated_node_that_names_no_boot_yet_is_no_other_one(place: Place, masters: Masters, name: str) -> None:
    """What is kept of its worker holds, and goes on to hold when the boot turns out to be the same."""
    place.create(name, {}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}))
    place.delete(name)
    await until(lambda: name not in master._store.names())
    place.create(name, {}, {}, "")
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1"})
    place.edit(name, {"status": {"nodeInfo": {"bootID": BOOT}}}, "status")
    await until(lambda: (node := master._store.get(name)) is not None and node.boot_id == BOOT)
    await master.queue.idle()
    assert labels_of(place, name) == {F + "cpu-a": "1"}
    place.edit(name, {"metadata": {"labels": {F + "cpu-a": None}}})
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1"})


async def test_recreated_node_that_names_another_boot_a_moment_later_waits_for_its_worker(
    place: Place, masters: Masters, name: str
) -> None:
    place.create(name, {}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}))
    place.delete(name)
    await until(lambda: name not in master._store.names())
    place.create(name, {}, {}, "")
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1"})
    place.edit(name, {"status": {"nodeInfo": {"bootID": "boot-2"}}}, "status")
    await until(lambda: master._handler.reports.get(name) is None)
    with pytest.raises(ReportError, match="Node has boot id boot-2"):
        await send(master, worker.report({F + "cpu-b": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "1"}, "the report of the machine before is used no more"
    await send(master, Worker(name, boot_id="boot-2").report({F + "cpu-c": "1"}))
    assert labels_of(place, name) == {F + "cpu-c": "1"}


async def test_order_of_reports(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, "boot-2")
    master = await masters.start()
    new = Worker(name, boot_id="boot-2", started=10)
    late = new.report({F + "cpu-a": "late"})
    await send(master, new.report({F + "cpu-a": "new"}))
    with pytest.raises(ReportError, match="newer report"):
        await send(master, late)
    with pytest.raises(ReportError, match="newer report"):
        await send(master, Worker(name, boot_id="boot-2", started=9).report({F + "cpu-a": "older worker"}))
    with pytest.raises(ReportError, match="Node has boot id boot-2"):
        await send(master, Worker(name, boot_id="boot-1", started=99).report({F + "cpu-a": "before the reboot"}))
    with pytest.raises(ReportError, match="was replaced"):
        await send(master, new.report({F + "cpu-a": "x"}, node_uid="other"))
    assert labels_of(place, name) == {F + "cpu-a": "new"}
    await send(master, Worker(name, boot_id="boot-2", started=11).report({F + "cpu-a": "restarted"}))
    assert labels_of(place, name) == {F + "cpu-a": "restarted"}


async def test_report_of_an_nfd_worker_is_whole(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master = await masters.start()
    await send(master, Report(name, labels={"cpu-a": "1", F + "pci-b": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "1", F + "pci-b": "1"}
    notes = notes_of(place, name)
    assert notes.keys() == {N + "feature-labels", N + "origins"}
    assert notes[N + "feature-labels"] == "cpu-a,pci-b"
    assert json.loads(notes[N + "origins"])["labels"] == {"-": ["*"]}, "it names no source"
    await send(master, Report(name, labels={"cpu-a": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "1"}


async def test_no_publish_writes_nothing(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master = await masters.start(publish=False)
    await send(master, Worker(name).report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == {}


async def test_refused_namespaces_harm_no_other(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master = await masters.start()
    bad = {"kubernetes.io/hostname": "evil", "node.kubernetes.io/x": "1", F + "cpu-bad": "not legal!", "/x": "1"}
    await send(master, Worker(name).report({**bad, F + "cpu-a": "1", "vendor.io/b": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "1", "vendor.io/b": "1"}
    rejected = master.metrics["node_labels_rejected"]
    assert rejected > 0
    assert rejected % 4 == 0, "four in each pass"
