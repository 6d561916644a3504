"""Masters that reach the real API server through a proxy which makes trouble."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from nfd.kube.client import connect
from nfd.kube.leader_election import Lease, Timing
from nfd.master.leadership import Election
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.rules.resources import CustomResources, ResourceOptions
from nfd.master.service import Options, Service
from nfd.store.kube import KubeStore
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.faults.injected import limited as limited
from tests.faults.proxy import FaultProxy
from tests.master.conftest import kinds as kinds
from tests.master.places import PROOF, Cluster

NAMESPACE = "default"
QUICK = Timing(duration=5.0, renew=3.5, retry=0.3)
"""For tests in which a lease runs out. Masters and test share a loop: what blocks it for `renew` ends a lease."""
STEADY = Timing(duration=15.0, renew=10.0, retry=0.3)
"""For tests in which a lease is given up or kept."""
_numbers = count(1)


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultProxy]:
    with FaultProxy(control_plane) as proxy:
        yield proxy


@pytest.fixture
def place(control_plane: ControlPlane) -> Cluster:
    return Cluster(control_plane)


@dataclass
class Made:
    """Names of Nodes that no other test has; they are gone after the test."""

    place: Cluster
    names: list[str] = field(default_factory=list)

    def __call__(self, labels: dict[str, str] | None = None, notes: dict[str, str] | None = None) -> str:
        self.names.append(f"fault-{next(_numbers)}")
        self.place.create(self.names[-1], labels or {}, notes or {}, "boot-1")
        return self.names[-1]


@pytest.fixture
def make(place: Cluster) -> Iterator[Made]:
    made = Made(place)
    yield made
    for name in made.names:
        with suppress(ApiError):  # a test has deleted it
            place.delete(name)


@dataclass
class FaultMasters:
    """Starts masters that go through a proxy; with `lease`, they are replicas that elect a leader."""

    plane: ControlPlane
    timing: Timing = QUICK
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    def proxy(self) -> FaultProxy:
        """One more proxy."""
        return self.stack.enter_context(FaultProxy(self.plane))

    async def make(
        self,
        proxy: FaultProxy,
        lease: str = "",
        silence: float = 60.0,
        custom: ResourceOptions | None = None,
        **options: object,
    ) -> Service:
        """One that has yet to be started; it is stopped after the test. With `custom` it watches custom resources."""
        kubeconfig = str(proxy.kubeconfig())
        client = await connect(kubeconfig)
        election = None
        if lease:
            held = Lease(await connect(kubeconfig), NAMESPACE, lease, self.timing)
            election = Election(held, f"master-{next(_numbers)}", "127.0.0.1")
            client.fence = held
        settings = ReconcileOptions(proof=PROOF)
        values = {"host": "127.0.0.1", "port": 0, "http_port": 0, "resync": 0, "settings": settings, **options}
        resources = (lambda metrics: CustomResources(client, custom, metrics)) if custom is not None else None
        store = KubeStore(client, 20, silence=silence)
        service = Service(store, Options(election=election, **values), resources)  # type: ignore[arg-type]
        self.stack.push_async_callback(service.stop)
        return service

    async def start(self, proxy: FaultProxy, lease: str = "", silence: float = 60.0, **options: Any) -> Service:
        service = await self.make(proxy, lease, silence, **options)
        await service.start()
        return service


def remembered(master: Service) -> set[str]:
    """The nodes that passes remember anything of."""
    passes = master._reconciler
    memories = (passes._settled, passes._logged, passes._unchanged, passes._contradicted, passes._foreign)
    return set().union(*memories, passes._rejections.nodes(), passes.drift._nodes)


@pytest.fixture
async def masters(proxy: FaultProxy) -> AsyncIterator[FaultMasters]:
    """Stopped before the proxy is."""
    found = FaultMasters(proxy.plane)
    async with found.stack:
        yield found
