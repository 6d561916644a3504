"""Every stage of a worker raises what nobody foresaw: nothing vanishes, everything else goes on, and it recovers.

The worker's own loop, on a small machine, reports over gRPC to a master on a real API server.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from nfd.discovery import Plan
from nfd.events.listing import Listings
from nfd.host import Host
from nfd.rpc.client import Reporter
from nfd.runtime import failures
from nfd.runtime.failures import COUNTS
from nfd.runtime.file_watches import Folder, Watches
from nfd.runtime.prometheus import render
from nfd.runtime.signals import Signals
from nfd.sources import BUILT_IN
from nfd.worker import agent as agent_module
from nfd.worker import schedule
from nfd.worker.agent import BOOT_ID, Agent, WorkerSettings
from nfd.worker.config import model
from tests.faults.conftest import FaultMasters, Made
from tests.faults.injected import WORKER, Broken, raising, told
from tests.faults.proxy import FaultProxy
from tests.master.conftest import BOOT
from tests.master.places import Cluster, labels_of, until
from tests.worker.process import CARD, FEATURES_D, SLOT, make_machine

FIRST = "feature.node.kubernetes.io/pci-0300_10de.present"
MINE = "example.com/mine"
NAMES = ("local", "pci", "system")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)
    failures._logged.clear()


def hasten(patch: pytest.MonkeyPatch) -> None:
    """Make retries almost immediate."""
    patch.setattr(agent_module, "AGAIN", (0.05, 0.2))
    patch.setattr(agent_module, "POLL", 0.5)
    patch.setattr(schedule, "BACK_OFF", (0.05, 0.2))


@dataclass
class Machine:
    """A machine at `root` with a worker."""

    root: Path
    place: Cluster
    node: str

    def write(self, value: str) -> None:
        """Another label of source `local`."""
        (self.root / FEATURES_D / "mine").write_text(f"{MINE}={value}\n")

    def plug(self, vendor: str, slot: str) -> None:
        """One more card, which gets a label of source `pci`."""
        card = self.root / "being-made"
        card.mkdir()
        for name, value in (CARD | {"vendor": vendor}).items():
            (card / name).write_text(f"0x{value}\n")
        card.rename(self.root / SLOT.replace("0000:01:00.0", slot))

    def shows(self, key: str, value: str = "true") -> bool:
        return labels_of(self.place, self.node).get(key) == value


@dataclass
class AtWork(Machine):
    """The worker is a thread of this process."""

    agent: Agent

    def metric(self, line: str) -> bool:
        return line in render(self.agent.metrics.families(time.monotonic()), openmetrics=False)


def machine_of(folder: Path) -> Path:
    """It has booted as the Node says."""
    root = make_machine(folder)
    (root / BOOT_ID).parent.mkdir(parents=True)
    (root / BOOT_ID).write_text(f"{BOOT}\n")
    return root


def plan_of(broken: Callable[[str, str, Any], Any], seconds: float = 30.0) -> Plan:
    """`broken(source, stage, function)` may put another function in its place."""
    sections = model()().sources
    sources = tuple(
        replace(
            source,
            discover=broken(source.name, "source", source.discover),
            labels=broken(source.name, "label", source.labels),
            devices=broken(source.name, "devices", source.devices or (lambda features: {"present": 1})),
            seconds=seconds,
        )
        for source in BUILT_IN
        if source.name in NAMES
    )
    return Plan(sources, sources, {name: getattr(sections, name) for name in NAMES})


@asynccontextmanager
async def at_work(
    place: Cluster,
    node: str,
    port: int,
    root: Path,
    signals: Signals,
    broken: Broken,
    stage: str,
    seconds: float = 30.0,
) -> AsyncIterator[AtWork]:
    """The worker's loop in a thread."""
    agent = agent_of(node, port, root, signals, broken, stage, seconds)
    running = asyncio.create_task(asyncio.to_thread(agent.run))
    try:
        yield AtWork(root, place, node, agent)
    finally:
        broken.on, signals.stop = False, True
        os.kill(os.getpid(), signal.SIGHUP)  # wakes it
        await asyncio.wait_for(running, 20)


def agent_of(
    node: str, port: int, root: Path, signals: Signals, broken: Broken, stage: str, seconds: float = 30.0
) -> Agent:
    """Stage `source`, `label` or `devices` fails over source `local`."""

    def faulty(source: str, at: str, true: Any) -> Any:
        if (source, at) != ("local", stage):
            return true

        def function(*args: Any) -> Any:
            broken.trip()
            return true(*args)

        return function

    def load() -> WorkerSettings:
        if stage == "reload":
            broken.trip()
        return settings

    settings = WorkerSettings(plan_of(faulty, seconds), interval=1.0)
    folder = Folder("configuration", str(root), lambda name: os.open(name, os.O_RDONLY), deep=False)
    return Agent(
        Host(root),
        node,
        settings,
        signals,
        Reporter(f"127.0.0.1:{port}").send,
        load,
        folders=(folder,),
        changed=lambda: False,
        live=False,
    )


@dataclass(frozen=True)
class Stage:
    """Which function fails, by what the log and metrics name it, and whether labels of all sources wait for its end."""

    owner: Any = None
    name: str = ""
    task: str = ""
    all_wait: bool = False


STAGES = {
    "source": Stage(),
    "label": Stage(),
    "devices": Stage(task="devices"),
    "report": Stage(Agent, "_report", "report", all_wait=True),
    "sending": Stage(Reporter, "send", "report", all_wait=True),
    "event of a listing": Stage(Listings, "changed", "events"),
    "event of a file": Stage(Watches, "read", "events"),
    "reload": Stage(task="reload"),
    "pass": Stage(agent_module, "derive_content", "pass", all_wait=True),
}


def test_every_stage_has_a_row() -> None:
    assert {row.stage for row in WORKER} == STAGES.keys()


@raising
@pytest.mark.parametrize("stage", STAGES)
async def test_a_stage_harms_itself_alone(
    stage: str,
    error: Exception,
    masters: FaultMasters,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    signals: Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    at, broken, node = STAGES[stage], Broken(error), make()
    if at.owner is not None:
        broken.wrap(monkeypatch, at.owner, at.name)
    master = await masters.start(proxy)
    async with at_work(place, node, master.port, machine_of(tmp_path), signals, broken, stage) as machine:
        await until(lambda: machine.shows(MINE, "1") and machine.shows(FIRST))
        before = COUNTS[at.task]
        broken.on = True
        if stage == "reload":
            os.kill(os.getpid(), signal.SIGHUP)
        machine.plug("8086", "0000:02:00.0")
        machine.write("2")
        await until(lambda: broken.raised >= 1)
        new = "feature.node.kubernetes.io/pci-0300_8086.present"
        if not at.all_wait:
            await until(lambda: machine.shows(new))
        if stage in ("source", "label"):
            await until(lambda: machine.metric('nfd_worker_source_failed{source="local"} 1'))
            await until(lambda: any(getattr(one, "fields", {}).get("source") == "local" for one in caplog.records))
        else:
            await until(lambda: COUNTS[at.task] > before and told(caplog, at.task))
            assert machine.metric(f'nfd_worker_task_failures_total{{task="{at.task}"}} {COUNTS[at.task]}')
        assert machine.shows(FIRST)
        assert machine.shows(MINE, "1") or stage not in ("source", "label")
        broken.on = False
        machine.write("3")
        await until(lambda: machine.shows(MINE, "3") and machine.shows(new) and machine.shows(FIRST))
        assert broken.raised < 300, "what fails is not tried again and again"


@pytest.mark.parametrize("stage", ["source", "label"])
@pytest.mark.parametrize("kind", ["computation", "call"])
async def test_an_endless_run_of_a_source_is_given_up(
    stage: str,
    kind: str,
    masters: FaultMasters,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    signals: Signals,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Others are reported meanwhile. A computation is ended; a call that hangs is waited for, and not made twice."""

    class Endless(Broken):
        running = 0

        def trip(self) -> None:
            if not self.on:
                return
            self.raised += 1
            self.running += 1
            try:
                while self.on:
                    if kind == "call":
                        time.sleep(3.0)
            finally:
                self.running -= 1

    broken, node = Endless(OSError()), make()
    master = await masters.start(proxy)
    root = machine_of(tmp_path)
    async with at_work(place, node, master.port, root, signals, broken, stage, seconds=0.5) as machine:
        await until(lambda: machine.shows(MINE, "1") and machine.shows(FIRST))
        broken.on = True
        machine.plug("8086", "0000:02:00.0")
        machine.write("2")
        new = "feature.node.kubernetes.io/pci-0300_8086.present"
        await until(lambda: machine.shows(new))
        await until(lambda: any("did not end within" in str(vars(one)) for one in caplog.records))
        assert machine.shows(MINE, "1")
        assert machine.shows(FIRST)
        assert broken.running <= 1
        assert machine.metric('nfd_worker_source_failed{source="local"} 1')
        if kind == "computation":
            await until(lambda: broken.raised >= 2)  # the first has been ended, so that there is another try
        broken.on = False
        machine.write("3")
        await until(lambda: machine.shows(MINE, "3") and machine.shows(FIRST))
    await until(lambda: broken.running == 0)
