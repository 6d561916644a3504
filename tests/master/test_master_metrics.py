"""What a master counts: patches by result, removed keys by cause, reports refused by status."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfd.errors import ReportError
from nfd.master.node.desired import Contribution
from nfd.master.service import Options, Service
from nfd.report import Report
from nfd.rules.policy import Policy
from nfd.runtime.prometheus import render
from tests.master.conftest import BOOT, Masters, Worker, asking, send
from tests.master.places import Folder, Place, labels_of, until

F = "feature.node.kubernetes.io/"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Folder(tmp_path)


def counted(master: Service) -> dict[str, float]:
    """All samples that are not zero."""
    lines = [line for line in render(master.metrics.families(), openmetrics=False).splitlines() if line[0] != "#"]
    pairs = (line.rpartition(" ") for line in lines)
    return {name.removeprefix("nfd_master_"): float(value) for name, _, value in pairs if float(value)}


def removed(master: Service) -> dict[tuple[str, str], float]:
    """(kind, cause) → keys."""
    found = {}
    for name, value in counted(master).items():
        if name.startswith("node_keys_removed_total"):
            kind, cause = name.split('"')[1::2]
            found[kind, cause] = value
    return found


async def test_removed_keys_by_cause(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    rule = Contribution("rule:objects/one", labels={F + "ruled": "1"}, extended_resources={"vendor.io/n": "4"})
    other = Contribution("object:ns/name", annotations={F + "told": "1"})
    master, worker = await masters.start(evaluate=asking([rule, other])), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1", F + "cpu-b": "1", "vendor.io/x": "1"}))
    assert removed(master) == {}
    await send(master, worker.report({F + "cpu-b": "1", "vendor.io/x": "1"}))
    assert removed(master) == {("label", "scan"): 1}
    await master.stop()
    denied = Policy(deny_label_ns=frozenset({"vendor.io"}))
    denying = await masters.start(policy=denied, evaluate=asking([other], denied))
    await send(denying, worker.report({F + "cpu-b": "1", "vendor.io/x": "1"}))
    wanted = {("label", "policy"): 1, ("label", "rule"): 1, ("extendedResource", "rule"): 1}
    assert removed(denying) == wanted
    await denying.stop()
    last = await masters.start()
    place.edit(name, {"metadata": {"annotations": {"nfd.node.kubernetes.io/origins": None}}})
    await until(lambda: counted(last)["nodes"] == 1)
    await send(last, Worker(name, started=2).report({}))
    assert removed(last) == {("label", "unknown"): 1, ("annotation", "unknown"): 1}
    assert labels_of(place, name) == {}


async def test_a_worker_that_names_no_sources_has_scanned(place: Place, masters: Masters, name: str) -> None:
    """As NFD's worker, during a switch node by node."""
    place.create(name, {}, {}, BOOT)
    master = await masters.start()
    await send(master, Report(name, labels={F + "cpu-a": "1", F + "cpu-b": "1"}))
    await send(master, Report(name, labels={F + "cpu-b": "1"}))
    assert removed(master) == {("label", "scan"): 1}


async def test_keys_of_a_worker_that_was_given_up(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    options = Options(host="127.0.0.1", port=0, http_port=0, resync=0, stale_after=0.01, tick=0.05, now=Clock())
    master = Service(await place.open(), options)
    masters.stack.push_async_callback(master.stop)
    await master.start()
    await send(master, Worker(name).report({F + "cpu-a": "1"}))
    await until(lambda: removed(master) == {("label", "silence"): 1})


class Clock:
    """A monotonic clock in a hurry: an hour each time that it is looked at."""

    seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 3600.0
        return self.seconds


async def test_reports_and_patches_by_result(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master, early = await masters.start(), Worker(name)
    old = early.report({F + "cpu-a": "old"})
    await send(master, early.report({F + "cpu-a": "new"}))
    for report in (old, Report("not a name")):
        with pytest.raises(ReportError):
            await send(master, report)
    found = counted(master)
    assert found["reports_total"] == found['node_patches_total{result="written"}'] == 1
    assert found['reports_refused_total{code="FAILED_PRECONDITION"}'] == 1
    assert found['reports_refused_total{code="INVALID_ARGUMENT"}'] == 1
    assert found["node_patch_duration_seconds_count"] == 1
    assert found["node_plan_duration_seconds_count"] >= 1
