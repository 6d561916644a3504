"""While a change of rules goes through the fleet, a node with a new report does not wait for the others."""

from __future__ import annotations

import pytest

from nfd.master.rules.resources import ResourceOptions
from tests.faults.conftest import FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.faults.trouble import late
from tests.master.conftest import Worker, send
from tests.master.custom_resources import PCI, Kinds, rule
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
NODES = 24
A_WRITE = 0.25
"""Seconds; one at a time, they are six for the fleet."""


def writes(proxy: FaultProxy) -> list[str]:
    """The nodes that a PATCH was for, in order."""
    paths = (one.path.partition("?")[0] for one in list(proxy.seen) if one.method == "PATCH")
    return [path.rpartition("/")[2] for path in paths if "/api/v1/nodes/" in path]


@pytest.mark.parametrize("news", ["report", "object", "drift"])
async def test_news_of_a_node_do_not_wait_for_a_fleet(
    news: str, masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, kinds: Kinds
) -> None:
    master = await masters.start(proxy, custom=ResourceOptions(), parallelism=1)
    names = [make() for _ in range(NODES)]
    workers = {name: Worker(name) for name in names}
    for worker in workers.values():
        await send(master, worker.report({F + "cpu-a": "1"}, features=PCI))

    def ruled() -> int:
        return sum(F + "ruled" in labels_of(place, name) for name in names)

    with proxy.inject(late(A_WRITE), method="PATCH", path="/nodes/"):
        kinds.rules("sweep", rule(labels={"ruled": "yes"}))
        await until(lambda: len(master.queue) >= NODES // 2 and ruled() >= 1)
        name = next(name for name in reversed(names) if F + "ruled" not in labels_of(place, name))
        written = len(writes(proxy))
        wanted = {F + "cpu-a": "1", F + "ruled": "yes"}
        if news == "report":
            wanted[F + "cpu-a"] = "2"
            await send(master, workers[name].report({F + "cpu-a": "2"}, features=PCI))
        elif news == "object":
            wanted[F + "theirs"] = "1"
            kinds.features("others", "theirs", name, labels={"theirs": "1"})
        else:
            place.edit(name, {"metadata": {"labels": {F + "cpu-a": "3"}}})
        await until(lambda: labels_of(place, name) == wanted)
        await until(lambda: ruled() == NODES)
    assert name in writes(proxy)[written : written + 5]
    assert len({*writes(proxy)[written + 5 :]}) >= 5
