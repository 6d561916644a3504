"""/healthz, /readyz and /metrics of a running master."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from tests.master.conftest import BOOT, Masters, Worker, send
from tests.master.places import Folder, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Folder(tmp_path)


async def test_http(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master = await masters.start()
    await send(master, Worker(name).report({"feature.node.kubernetes.io/cpu-a": "1", "kubernetes.io/x": "1"}))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{master.http_port}") as http:
        for path in ("/healthz", "/readyz"):
            async with http.get(path) as answer:
                assert (answer.status, await answer.text()) == (200, "ok\n")
        async with http.get("/metrics") as answer:
            plain = (await answer.text()).splitlines()
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        async with http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}) as answer:
            openmetrics = (await answer.text()).splitlines()
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert "nfd_master_node_updates_total 1" in plain
    assert "# TYPE nfd_master_node_updates_total counter" in plain
    assert "nfd_master_node_labels_rejected_total 1" in plain
    assert "nfd_master_reporting_nodes 1" in plain
    assert "# TYPE nfd_master_node_updates counter" in openmetrics
    assert openmetrics[-1] == "# EOF"
