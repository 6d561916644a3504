"""A master that starts beside an API server that starts: refusals before the server knows its roles do not end it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from nfd.kube.client import connect
from nfd.kube.informer import PATIENCE
from nfd.kube.leader_election import Lease
from nfd.store.kube import KubeStore
from tests.controlplane.api import ApiError
from tests.faults.conftest import NAMESPACE, QUICK
from tests.faults.proxy import FaultProxy
from tests.faults.trouble import answer
from tests.master.places import until

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
NAME = "patience"


async def test_the_lease_is_not_given_up_for_refusals_after_an_outage(proxy: FaultProxy) -> None:
    """The outage was longer than the patience for refusals, which counts from the first of them."""
    skew = [0.0]
    lease = Lease(await connect(str(proxy.kubeconfig())), NAMESPACE, NAME, QUICK, lambda: time.monotonic() + skew[0])
    refused = proxy.inject(answer(403), path=LEASES)
    away = proxy.inject(answer(503), path=LEASES)
    starting = asyncio.create_task(lease.start("a/b:1/c", lambda: None))
    try:
        await until(lambda: away.hits > 0)
        skew[0] = 2 * PATIENCE
        away.remove()
        await until(lambda: refused.hits > 1)
        refused.remove()
        await asyncio.wait_for(starting, 10)
        await until(lambda: lease.leading)
    finally:
        proxy.calm()
        await lease.stop(release=False)
        with suppress(ApiError):
            proxy.plane.request("DELETE", f"{LEASES}/{NAME}")


async def test_the_first_list_is_not_given_up_for_refusals_before_and_after_an_outage(proxy: FaultProxy) -> None:
    """Together they last longer than the patience, but each of them is short."""
    store = KubeStore(await connect(str(proxy.kubeconfig())), 20, patience=1.0)
    refused = proxy.inject(answer(403), path="/nodes")
    starting = asyncio.create_task(store.start(lambda name: None))
    try:
        await until(lambda: refused.hits == 1)
        away = proxy.inject(answer(503), path="/nodes")
        await until(lambda: away.hits == 1)
        away.remove()
        await until(lambda: refused.hits == 2)
        refused.remove()
        await asyncio.wait_for(starting, 10)
    finally:
        proxy.calm()
        await store.close()
