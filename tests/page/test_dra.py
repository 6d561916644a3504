"""Devices of DRA drivers on the page of a real master: taken and free, of the selected nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from nfd.kube.client import connect
from nfd.master.page.dra_reader import FRESH, DraReader
from tests.controlplane.cluster import ControlPlane
from tests.fleet.dra_cluster import dra_on
from tests.fleet.dra_objects import CASES
from tests.fleet20.place import DEPLOY, running_master
from tests.page.browser import Browser

RIGHTS = DEPLOY / "kustomize/components/page-dra/rbac.yaml"
FLAGS = ("--serve-page", "--page-dra")
HOST = "kubernetes.io/hostname"
UNITS = {"gpu.nvidia.com/memory": "MiB", "cpx_nps1": "partitions", "cpx_nps4": "partitions"}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane, chromium: Browser) -> Iterator[ControlPlane]:
    """After the browser: without one there is nothing to show it to."""
    with dra_on(control_plane):
        yield control_plane


@pytest.fixture(scope="module")
def url(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a master that may list what it needs."""
    plane.kubectl("apply", "-f", str(RIGHTS))
    try:
        with running_master(plane, tmp_path_factory.mktemp("page-dra"), *FLAGS) as master:
            yield f"http://127.0.0.1:{master.http_port}/page/"
    finally:
        plane.kubectl("delete", "-f", str(RIGHTS))


def text_of(name: str, capacity: int, offered: int, taken: int) -> str:
    rest = f" · {capacity - offered:,} not available" if capacity > offered else ""
    unit = UNITS.get(name) or UNITS.get(name.rpartition("/")[2], "")
    return f"{taken:,} taken · {offered - taken:,} free{rest}{f' ({unit})' if unit else ''}"


def expected(*nodes: str) -> dict[str, str]:
    """Resource → what the page says of it, for these nodes together."""
    sums: dict[str, tuple[int, ...]] = {}
    for node in nodes:
        for name, *amounts in CASES[node].rows:
            if not name.startswith("nvidia.com/"):
                sums[name] = tuple(map(sum, zip(sums.get(name, (0, 0, 0)), amounts, strict=True)))
    return {name: text_of(name, *amounts) for name, amounts in sorted(sums.items())}


def shown(browser: Browser) -> dict[str, str]:
    names, texts = (browser.texts(f"#devices .{part}") for part in ("name", "number"))
    return dict(zip(names, texts, strict=True))


def open_with(browser: Browser, url: str, *nodes: str) -> None:
    """The page with these nodes selected, when it has asked for DRA."""
    chosen = [{"key": HOST, "operator": "In", "values": list(nodes)}]
    browser.open(f"{url}#{quote(json.dumps({'s': chosen}))}")
    browser.until(lambda: browser.script("return !document.getElementById('dra').hidden"))


def test_it_is_read_only_when_a_page_asks_and_once_for_all(
    plane: ControlPlane, browser: Browser, tmp_path: Path
) -> None:
    """And a master without the permission, which no master has yet, says so in one note and shows the rest."""
    mark, began = plane.mark(), time.monotonic()

    def lists() -> int:
        return sum(one.verb == "list" and one.resource == "resourceslices" for one in plane.audit(mark))

    with running_master(plane, tmp_path, *FLAGS) as master:
        assert lists() == 0
        url = f"http://127.0.0.1:{master.http_port}/page/"
        for _ in range(3):
            open_with(browser, url, *CASES)
        assert 1 <= lists() <= 1 + (time.monotonic() - began) // FRESH
        assert shown(browser) == {}
        note = browser.text("#dra-note")
        assert note.startswith("DRA is not counted: ")
        assert "resourceslices" in note
        assert browser.text("#matches") == str(len(CASES))
        browser.open("about:blank", loaded=False)
    plane.provoked += [one for one in plane.audit(mark) if one.forbidden and one.resource == "resourceslices"]


def test_devices_of_the_selected_nodes(url: str, browser: Browser) -> None:
    open_with(browser, url, *CASES)
    assert shown(browser) == expected(*CASES)
    assert browser.text("#dra-note") == "1 pool cannot be counted: nfd nodes --problems says why"
    browser.until(lambda: any("DRA pool missing-slice" in text for text in browser.texts("#problem .name")))
    for name in ("full-gpus", "both-kinds", "shared-capacity", "amd-partitions-on-demand", "several-vendors"):
        open_with(browser, url, name)
        assert shown(browser) == expected(name), name
    open_with(browser, url, "missing-slice")
    assert shown(browser) == {}
    browser.open(f"{url}#{quote(json.dumps({'n': 'both-kinds'}))}")
    browser.until(lambda: "gpu.nvidia.com 1 taken · 0 free" in browser.text("#node-about"))


def test_on_a_telephone(url: str, browser: Browser) -> None:
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        open_with(browser, url, *CASES)
        edges = "return [...document.querySelectorAll('#dra, #dra *')].map((e) => e.getBoundingClientRect().right)"
        assert max(browser.script(edges)) <= 390
        assert browser.script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


async def test_what_was_read_stays_while_the_api_server_does_not_answer(plane: ControlPlane) -> None:
    client = await connect(str(plane.kubeconfig))
    reader = DraReader(client, fresh=0.0, share=0.0)
    before = await reader.read()
    assert before.nodes is not None
    assert CASES.keys() <= before.nodes.keys()
    assert (await reader.read()) is before
    client.timeout = 1e-6
    after = await reader.read()
    await client.close()
    assert after.nodes == before.nodes
    assert after.note.startswith("DRA cannot be read, the numbers are old: ")
