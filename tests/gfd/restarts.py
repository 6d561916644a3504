"""Both programs over one machine, each with what it leaves behind: Node and feature file outlive a process.

The worker's part is its source, its report and a real master on a folder of Nodes; the other one's is its loop's pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol

from gfd.agent import Agent, Run
from gfd.config import Config
from gfd.discover import ReadSettings
from gfd.labels.settings import LabelSettings
from gfd.options import parse_options
from gfd.output import FileOutput
from gfd.source import SOURCE
from nfd.discovery import Discovery, Plan, discover
from nfd.host import Host
from nfd.master.service import Options as MasterOptions
from nfd.master.service import Service
from nfd.report import Report, SourceState
from nfd.report_order import Order
from nfd.rpc.client import Reporter
from nfd.runtime.signals import Signals
from nfd.worker.report_content import derive_content
from tests.master.places import Folder, labels_of, until

NODE = "n1"
OF_THE_MOMENT = frozenset(
    f"nvidia.com/{name}" for name in ("gfd.timestamp", "gpu.state", "gpu.count.present", "gpu.count.failing")
)
RESTARTS = ("worker restart", "container restart", "reboot")


class Program(Protocol):
    """One of the two."""

    def go(self) -> dict[str, str]:
        """A pass; the labels that stand afterwards, those apart that tell of the moment."""
        ...

    def restart(self, kind: str) -> None:
        """A new process, which has nothing but what the old one left."""
        ...


@dataclass
class Worker:
    """`nfd-worker` and its master."""

    host: Host
    strategy: str
    service: Service
    place: Folder
    loop: asyncio.AbstractEventLoop
    boot: int = 1
    _started: Iterator[int] = field(default_factory=lambda: count(1))
    _found: Discovery | None = None
    _order: Order = field(default_factory=lambda: Order("boot-1", 0, 0))
    sources: dict[str, SourceState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart("worker restart")

    def restart(self, kind: str) -> None:
        if kind == "reboot":
            self.boot += 1
            self.place.edit(NODE, {"status": {"nodeInfo": {"bootID": f"boot-{self.boot}"}}})
            self.loop.run_until_complete(until(self._is_known))
        if kind == "container restart":
            self.host = Host(self.host.root)
        self._found = None
        self._order = Order(f"boot-{self.boot}", next(self._started), 0)

    def _is_known(self) -> bool:
        """Whether the master has seen the boot: until then it refuses reports of it."""
        node = self.service._store.get(NODE)
        return node is not None and node.boot_id == f"boot-{self.boot}"

    def go(self) -> dict[str, str]:
        plan = Plan((SOURCE,), (SOURCE,), {"nvidia": Config(mig_strategy=self.strategy)})  # type: ignore[arg-type]
        self._found = discover(self.host, plan, self._found)
        content = derive_content(plan, self._found)
        self._order = Order(self._order.boot_id, self._order.started, self._order.sequence + 1)
        self.sources = {name: SourceState(state) for name, state in content.states.items()}
        report = Report(NODE, "1", "", self._order, content.labels, {}, content.origins, self.sources, content.features)
        call = asyncio.to_thread(Reporter(f"127.0.0.1:{self.service.port}").send, report)
        self.loop.run_until_complete(call)
        return lasting(labels_of(self.place, NODE))


@dataclass
class Alone:
    """`gpu-feature-discovery`."""

    host: Host
    strategy: str
    file: Path
    signals: Signals

    def __post_init__(self) -> None:
        self.restart("worker restart")

    def restart(self, kind: str) -> None:
        if kind == "container restart":
            self.host = Host(self.host.root)
        settings = LabelSettings(self.strategy, alone=True)
        choice = parse_options(["--fail-on-init-error=false"], {})
        run = Run(choice.load(), ReadSettings(), settings)
        self._agent = Agent(self.host, choice, run, lambda loaded: FileOutput(str(self.file)), self.signals)

    def go(self) -> dict[str, str]:
        self._agent.label()
        return lasting(dict(line.split("=", 1) for line in self.file.read_text().splitlines()))


def lasting(labels: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in OF_THE_MOMENT}


@contextmanager
def worker(host: Host, strategy: str, folder: Path) -> Iterator[Worker]:
    place = Folder(folder / "nodes")
    place.path.mkdir()
    place.create(NODE, {}, {}, "boot-1")
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        store = loop.run_until_complete(place.open())
        options = MasterOptions(host="127.0.0.1", port=0, http_port=0, resync=0)
        service = Service(store, options)
        loop.run_until_complete(service.start())
        try:
            yield Worker(host, strategy, service, place, loop)
        finally:
            loop.run_until_complete(service.stop())


@contextmanager
def alone(host: Host, strategy: str, folder: Path) -> Iterator[Alone]:
    signals = Signals()
    try:
        yield Alone(host, strategy, folder / "gfd", signals)
    finally:
        signals.close()


PROGRAMS = {"worker": worker, "alone": alone}
