"""What is due by time, the start and the configuration of a master fail unforeseen."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nfd.config.flags import configure, parse
from nfd.kube.informer import Informer
from nfd.kube.paths import NODES
from nfd.master import app
from nfd.master.app import open_master
from nfd.master.cli import FLAGS
from nfd.master.config import Config
from nfd.master.rules.resources import ResourceOptions
from nfd.master.service import Service
from nfd.runtime import tasks
from nfd.runtime.failures import COUNTS
from tests.faults import test_injected, test_injected_tasks
from tests.faults.conftest import FaultMasters, Made
from tests.faults.injected import MASTER, Broken, each, hurry, told
from tests.faults.proxy import FaultProxy
from tests.faults.test_injected_tasks import Clock
from tests.master.conftest import Worker, send
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
HERE = {"given-up worker", "list of Nodes", "configuration", "reload", "list", "watch event"}
"""Stages that have a test of their own, here and in `test_injected.py`."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(app, "LOOK", 0.1)


def test_every_stage_has_a_row() -> None:
    stages = {*test_injected.STAGES, *test_injected_tasks.STAGES, *HERE}
    assert {row.stage for row in MASTER} == stages


@pytest.mark.usefixtures("limited")
@each
async def test_a_worker_that_is_given_up(
    error: Exception,
    masters: FaultMasters,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`staleAfter` is over for two nodes, and the one cannot be judged: its labels stay until it can be."""
    one, other, clock = make(), make(), Clock()
    broken = Broken(error, one, on=True)
    broken.wrap(monkeypatch, Service, "_had_worker", lambda master, node: node.name)
    master = await masters.start(proxy, tick=0.1, stale_after=600.0, now=clock)
    for node in (one, other):
        await send(master, Worker(node).report({F + "cpu-a": "1"}))
    clock.ahead += 10_000.0
    await until(lambda: labels_of(place, other) == {})
    await until(lambda: broken.raised >= 2)
    assert labels_of(place, one) == {F + "cpu-a": "1"}
    assert told(caplog, "chores")
    assert any(getattr(record, "fields", {}).get("node") == one for record in caplog.records)
    broken.on = False
    await until(lambda: labels_of(place, one) == {})


@pytest.mark.usefixtures("limited")
@each
async def test_the_list_of_nodes(
    error: Exception,
    masters: FaultMasters,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The start waits for it, and goes on as soon as there is one."""
    node, broken, before = make({"theirs": "1"}), Broken(error, NODES, on=True), COUNTS["watch"]
    broken.wrap(monkeypatch, Informer, "_list", lambda watch: watch._path)
    master = await masters.make(proxy, custom=ResourceOptions())
    starting = asyncio.create_task(master.start())
    await until(lambda: COUNTS["watch"] >= before + 2)
    assert told(caplog, "watch")
    assert (starting.done(), master.leadership.reason_not_ready) == (False, "the nodes are not known yet")
    broken.on = False
    await asyncio.wait_for(starting, 15)
    await send(master, Worker(node).report({F + "cpu-a": "1"}))
    await until(lambda: labels_of(place, node) == {F + "cpu-a": "1", "theirs": "1"})


@pytest.mark.usefixtures("limited")
@each
@pytest.mark.parametrize("stage", ["configuration", "reload"])
async def test_the_configuration(
    stage: str,
    error: Exception,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The one in use stays, and the new one counts as soon as it can be read."""
    broken, node, file = Broken(error), make(), tmp_path / "nfd-master.conf"
    broken.wrap(monkeypatch, app, {"configuration": "signature", "reload": "options_of"}[stage])
    file.write_text("{}")
    words = [f"--kubeconfig={proxy.kubeconfig()}", "-port=0", "-http-port=0", f"-config={file}"]
    parsed = parse("nfd-master", words, FLAGS, Config, "NFD_MASTER", about="")
    seen: Any = app.signature(str(file))
    master = await open_master(configure(Config, parsed)[0], parsed, "none")
    await master.service.start()
    following = tasks.start("configuration", lambda: master.follow(asyncio.Event(), seen))
    worker, before = Worker(node), COUNTS[stage]
    allowed = {F + "cpu-a": "1", "example.com/b": "1"}
    try:
        await send(master.service, worker.report(allowed))
        await until(lambda: labels_of(place, node) == allowed)
        broken.on = True
        file.write_text("denyLabelNs: [example.com]\n")
        await until(lambda: COUNTS[stage] > before)
        assert told(caplog, stage)
        await send(master.service, worker.report(allowed | {F + "cpu-a": "2"}))
        await until(lambda: labels_of(place, node) == allowed | {F + "cpu-a": "2"})
        broken.on = False
        file.write_text("denyLabelNs: [example.com]\n\n")
        await until(lambda: labels_of(place, node) == {F + "cpu-a": "2"})
    finally:
        await tasks.cancel([following])
        await master.service.stop()
