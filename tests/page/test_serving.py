"""The page without a cluster: hostile labels, very many nodes, light and dark, and who gets what."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nfd.config.flags import parse
from nfd.master.assembly import open_master
from nfd.master.cli import FLAGS
from nfd.master.config import Config
from nfd.master.page.picture import draw, runs
from nfd.master.page.server import ASSETS
from nfd.store.base import Node
from tests.controlplane.process import free_ports
from tests.page.browser import Browser
from tests.page.serving import make_node, served

HOSTILE = (
    "<img src=x onerror=document.title='taken'>",
    "</script><script>document.title='taken'</script>",
    '"><b>x</b>',
    "__proto__",
    "constructor",
    "javascript:document.title='taken'",
    "\u202edesrever\u0000\ud7ff",
    "{{7*7}}${7*7}",
)
MOST_ELEMENTS = 2500


def hostile_nodes() -> list[Node]:
    """Names, keys and values that no API server takes, everywhere where the page shows them."""
    return [
        make_node(
            text,
            {
                text: text,
                "nvidia.com/gpu.product": text,
                "nvidia.com/gpu.count": "2",
                "nvidia.com/gpu.state": text,
                "nvidia.com/cuda.driver-version.full": text,
                "feature.node.kubernetes.io/kernel-version.full": text,
                "feature.node.kubernetes.io/system-os_release.ID": text,
                "feature.node.kubernetes.io/cpu-model.vendor_id": text,
            },
            ({"key": text, "value": text, "effect": text},),
        )
        for text in HOSTILE
    ]


def many_nodes(count: int) -> list[Node]:
    """As fleets are: a few kinds of machine, a hundred labels each, and some that are on every node another one."""
    kinds = [{f"example.com/feature-{kind}-{index}": "true" for index in range(60)} for kind in range(12)]
    common = {f"example.com/common-{index}": str(index) for index in range(40)}
    return [
        make_node(
            f"node-{number:05}",
            {
                **common,
                **kinds[number * 7 // 100 % len(kinds)],
                "kubernetes.io/hostname": f"node-{number:05}",
                "example.com/rack": f"rack-{number * 31 % 997}",
                "nvidia.com/gpu.product": f"GPU-{number // 50 % 9}",
                "nvidia.com/gpu.count": "8",
                "feature.node.kubernetes.io/kernel-version.full": f"6.{number // 300}.0",
            },
        )
        for number in range(count)
    ]


def get(url: str, path: str = "", **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
    parts = urlsplit(url)
    link = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    try:
        link.request("GET", parts.path + path, headers={name.replace("_", "-"): text for name, text in headers.items()})
        answer = link.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        link.close()


def test_hostile_labels_are_text(browser: Browser) -> None:
    with served(hostile_nodes()) as url:
        browser.open(url)
        shown = browser.script("return document.body.innerText")
        elements = browser.script("return document.querySelectorAll('img, script:not([src]), b b, iframe').length")
        browser.script("[...document.querySelectorAll('.key')].forEach((one) => one.click())")
        names = browser.texts("#rows th button")
        for place in range(len(HOSTILE)):
            browser.script("document.querySelectorAll('#rows th button')[arguments[0]].click()", place)
            assert browser.text("#node-name") == names[place]
            labels = dict(zip(browser.texts("#node-labels th"), browser.texts("#node-labels td"), strict=True))
            assert labels[names[place]] == names[place]
            browser.script("document.getElementById('node').close()")
        assert sorted(names) == sorted(HOSTILE)
        assert elements == 0
        assert HOSTILE[0] in shown
        assert browser.driver.title == "Fleet · Node Feature Discovery"
        assert browser.text("#n-products") == str(len(HOSTILE))


def test_hostile_addresses_choose_nothing(browser: Browser) -> None:
    """What somebody sends as a link."""
    with served(hostile_nodes()) as url:
        for text in (
            '{"s":[{"key":"a","operator":"toString","values":["x"]},null,7,{"key":[],"values":{}}]}',
            "%",
            "[",
            "null",
        ):
            browser.open(f"{url}#{text}")
            assert browser.texts("#conditions li") == []
            assert browser.text("#matches") == str(len(HOSTILE))


def test_conditions_that_the_api_server_would_refuse_say_so(browser: Browser) -> None:
    bad = {"no/good/key": ["x"], "x": ["a b"], "": ["x"], "-": ["x"], "ok": []}
    conditions = [{"key": key, "operator": "In", "values": values} for key, values in bad.items()]
    conditions += [
        {"key": "x", "operator": "Gt", "values": ["1.5"]},
        {"key": "x", "operator": "Lt", "values": ["9" * 30]},
    ]
    with served(many_nodes(3)) as url:
        browser.open(f"{url}#{json.dumps({'s': conditions})}")
        hints = browser.texts(".condition .hint")
        assert len(hints) == len(conditions)
        assert all(hints), hints
        assert browser.text("#matches") == "3"


def test_five_thousand_nodes(browser: Browser) -> None:
    """The answer is small, and so is the document; a click is worked off while one blinks."""
    with served(many_nodes(5000)) as url:
        browser.open(url)
        size = next(size for name, size in browser.traffic().items() if name.endswith(".json"))
        elements = browser.script("return document.querySelectorAll('*').length")
        click = (
            "const began = performance.now(); document.querySelector('#product .row').click();"
            "return performance.now() - began"
        )
        print(f"5,000 nodes: {size} bytes, {elements} elements, {browser.script(click):.0f} ms for a click")
        assert browser.text("#matches") == "600"
        assert elements < MOST_ELEMENTS
        assert size < 100_000
        browser.script(
            "const e = document.getElementById('names'); e.value = 'node-049'; e.dispatchEvent(new Event('input'))"
        )
        assert browser.text("#listed").endswith(" nodes")


def test_light_and_dark(browser: Browser) -> None:
    """As the system says, unless the switch says otherwise; text can be read in both."""
    ink = "return [getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    with served(many_nodes(3)) as url:
        browser.open(url)
        light = browser.script(ink)
        browser.prefer("dark")
        dark = browser.script(ink)
        browser.press("t")
        assert browser.text("#theme") == "Theme: light"
        assert browser.script(ink) == light
        browser.prefer("light")
        browser.press("t")
        assert browser.text("#theme") == "Theme: dark"
        assert browser.script(ink) == dark
        browser.open(url)
        assert browser.script(ink) == dark
        browser.press("t")
        assert browser.script(ink) == light
    for quiet, back in (("#5b6675", "#fff"), ("#95a1b1", "#171c23")):
        assert contrast(quiet, back) > 4.5
    assert contrast(*map(as_hex, light)) > 10 < contrast(*map(as_hex, dark))


def as_hex(text: str) -> str:
    return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", text)[:3])


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, "contrast ratio"."""

    def luminance(colour: str) -> float:
        text = colour.lstrip("#")
        parts = [int(part, 16) / 255 for part in (re.findall("..", text) if len(text) == 6 else [2 * c for c in text])]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_what_is_sent() -> None:
    """Nothing runs but our own files, nothing is kept but them, and nothing is sent twice."""
    with served(many_nodes(30)) as url:
        for name in ("", *ASSETS, "fleet.json"):
            status, headers, body = get(url, name if name != "index.html" else "")
            assert status == 200, name
            assert "default-src 'none'; script-src 'self';" in headers["Content-Security-Policy"]
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == ("no-store" if name == "fleet.json" else "no-cache")
            status, packed, data = get(url, name if name != "index.html" else "", Accept_Encoding="gzip")
            assert (status, packed["Content-Encoding"], gzip.decompress(data)) == (200, "gzip", body)
            status, _, data = get(url, name if name != "index.html" else "", If_None_Match=headers["ETag"])
            assert (status, data) == (304, b"")
        assert get(url, "../fleet.json")[0] == 404
        assert get(url.removesuffix("page/"))[1]["Location"] == "/page/"


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"X_Forwarded_For": "10.0.0.1"}, {"Via": "1.1 x"}])
def test_only_this_machine_is_shown_the_fleet_without_a_token(headers: dict[str, str]) -> None:
    """A name that leads here from another web site does not help, and neither does a proxy on this machine."""
    with served(many_nodes(2)) as url:
        assert get(url, "fleet.json")[0] == 200
        assert get(url, "fleet.json", **headers)[0] == 403
        assert get(url, **headers)[0] == 200


@pytest.mark.parametrize("switch", [(), ("--serve-page",)])
async def test_off_by_default(switch: tuple[str, ...], tmp_path: Path) -> None:
    """On a store of files it needs no API server."""
    port, http_port = free_ports(2)
    words = [f"--node-store=file:{tmp_path}", f"-port={port}", f"-http-port={http_port}", "-config=", *switch]
    parsed = parse("nfd-master", words, FLAGS, Config, "NFD_MASTER", about="")
    master = await open_master(Config(), parsed, "none")
    await master.service.start()
    try:
        found = await asyncio.to_thread(get, f"http://127.0.0.1:{http_port}/page/", "fleet.json")
    finally:
        await master.service.stop()
    assert found[0] == (200 if switch else 404)


def test_runs() -> None:
    assert runs([]) == []
    assert runs([0, 1, 2, 5, 6, 9]) == [0, 3, 2, 2, 2, 1]


def test_conditions_come_from_taints() -> None:
    """The master keeps no conditions; the control plane taints nodes by them."""
    keys = ("not-ready", "unschedulable", "disk-pressure")
    taints = tuple({"key": f"node.kubernetes.io/{key}", "effect": "NoSchedule"} for key in keys)
    problems = dict(draw([make_node("a", {"feature.node.kubernetes.io/x": "1"}, taints)])["facts"]["problem"])
    assert set(problems) == {"not ready", "cordoned", "DiskPressure"}
