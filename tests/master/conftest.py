"""Masters on both node stores, and workers' reports that reach them over real gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nfd.features import Features
from nfd.master.node.desired import Contribution, derive_freshness
from nfd.master.node.outcome import Outcome
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.rules.evaluation import Evaluation
from nfd.master.service import Options, Service
from nfd.report import Reply, Report, SourceState, State
from nfd.report_order import Order
from nfd.rpc.client import Reporter
from nfd.rules.policy import Policy
from nfd.store.base import Node, NodeStore
from tests.controlplane.cluster import ControlPlane
from tests.master.custom_resources import KINDS, Kinds
from tests.master.places import PROOF, Cluster, Folder, Place

BOOT = "boot-1"
_numbers = count(1)


@dataclass
class Worker:
    """Says what it is told to say; `sources` that are not named are fresh."""

    node: str
    boot_id: str = BOOT
    started: int = 1
    sequence: int = 0

    def report(
        self,
        labels: Mapping[str, str],
        failed: tuple[str, ...] = (),
        off: tuple[str, ...] = (),
        origins: Mapping[str, str] | None = None,
        features: Features | None = None,
        **fields: Any,
    ) -> Report:
        self.sequence += 1
        names = {"cpu", "pci", "usb", "kernel", "local", "custom", "nvidia"}
        states = dict.fromkeys(names, State.FRESH) | dict.fromkeys(failed, State.FAILED) | dict.fromkeys(off, State.OFF)
        return Report(
            self.node,
            order=Order(self.boot_id, self.started, self.sequence),
            labels=labels,
            origins=origins if origins is not None else {key: origin_of(key) for key in labels},
            sources={name: SourceState(state) for name, state in states.items()},
            features=features or Features(),
            **fields,
        )


def origin_of(key: str) -> str:
    """The source that a label of these tests comes from."""
    if key.startswith("nvidia.com/"):
        return "nvidia"
    name = key.removeprefix("feature.node.kubernetes.io/")
    return name.partition("-")[0] if "-" in name and "/" not in name else "local"


@dataclass
class Masters:
    """Starts masters on the place; they are stopped after the test."""

    place: Place
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start(self, store: NodeStore | None = None, parallelism: int = 10, **settings: Any) -> Service:
        given = {"settings": ReconcileOptions(**{"proof": PROOF, **settings}), "parallelism": parallelism}
        options = Options(host="127.0.0.1", port=0, http_port=0, resync=0, **given)  # type: ignore[arg-type]
        service = Service(store or await self.place.open(), options)
        self.stack.push_async_callback(service.stop)
        await service.start()
        return service


def asking(
    wanted: Sequence[Contribution],
    policy: Policy = Policy(),  # noqa: B008  # frozen
) -> Callable[[Node, Report | None], Outcome | None]:
    """Rules that ask for this whatever the report says."""

    def ask(node: Node, report: Report | None) -> Outcome | None:
        if report is None:
            return None
        return Outcome(report, derive_freshness(report), Evaluation(wanted), policy)  # type: ignore[arg-type]  # the very same list

    return ask


async def send(service: Service, report: Report) -> Reply:
    """A worker's call, over a connection of its own."""
    return await asyncio.to_thread(Reporter(f"127.0.0.1:{service.port}").send, report)


@pytest.fixture(params=["file", "cluster"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "file":
        return Folder(tmp_path)
    return Cluster(request.getfixturevalue("control_plane"))


@pytest.fixture
async def masters(place: Place) -> AsyncIterator[Masters]:
    found = Masters(place)
    async with found.stack:
        yield found


@pytest.fixture
def name(place: Place) -> str:
    return f"master-{next(_numbers)}"


@pytest.fixture
def kinds(control_plane: ControlPlane) -> Iterator[Kinds]:
    """The definitions of all custom resources, and objects that are gone after the test."""
    found = Kinds(control_plane)
    found.install(*KINDS)
    yield found
    found.clear()
