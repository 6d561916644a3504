"""The page in a browser without a cluster: hostile labels, very many nodes, changes, light and dark."""

from __future__ import annotations

import json
import math
import re
from itertools import combinations
from pathlib import Path

import pytest

from nfd.store.base import Node
from tests.page.browser import Browser, Keys
from tests.page.serving import make_node, many_devices, many_nodes, served

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
ASSETS = Path(__file__).parents[2] / "nfd/master/page/assets"


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
            labels = dict(
                zip(browser.texts("#node-labels th"), browser.texts("#node-labels td:nth-child(2)"), strict=True)
            )
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
        for condition, hint in zip(conditions, hints, strict=True):
            browser.open(f"{url}#{json.dumps({'s': [condition]})}")
            assert (browser.text("#matches"), browser.text("#of")) == ("–", f"Condition 1: {hint}")
            assert browser.text("#n-nodes") == "0"
            assert browser.texts("#rows tr") == []
            assert browser.script("return document.querySelector('.output').hidden")


def test_a_condition_that_is_still_empty_selects_nothing_away(browser: Browser) -> None:
    with served(many_nodes(3)) as url:
        browser.open(url)
        browser.press("n")
        assert browser.text("#matches") == "3"
        browser.press("no.such/label")
        assert browser.text("#matches") == "–"


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


ACTIONS = {
    "selecting": "document.querySelector('#product .row').click()",
    "filtering": "const e = document.getElementById('names'); e.value = 'node-01'; e.dispatchEvent(new Event('input'))",
    "searching": "const e = document.getElementById('search'); e.value = 'feat'; e.dispatchEvent(new Event('input'))",
    "sorting": "[...document.querySelectorAll('#columns button')][3].click()",
}
FLUID, SHOWN = 200.0, 3000.0
"""Milliseconds."""


def test_two_thousand_nodes_are_fluid(browser: Browser) -> None:
    """Each action with the layout that it causes; the shortest of five tries, since other tests run meanwhile."""
    nodes = many_nodes(2000)
    with served(nodes, dra=many_devices(nodes)) as url:
        browser.forget()
        browser.open(url)
        shown = float(browser.script("return performance.getEntriesByName('shown')[0].startTime"))
        browser.until(lambda: len(browser.texts("#devices li")) == 4)
        took = {}
        for name, action in ACTIONS.items():
            timed = f"const began = performance.now(); {action}; document.body.offsetHeight;"
            timed += "return performance.now() - began"
            took[name] = min(float(browser.script(timed)) for _ in range(5))
        texts = ", ".join(f"{name} {took[name]:.0f} ms" for name in took)
        print(f"2,000 nodes: first paint {browser.first_paint():.0f} ms, all shown {shown:.0f} ms, {texts}")
        assert shown < SHOWN
        assert max(took.values()) < FLUID, took


def gpu_node(name: str, product: str, count: int, **labels: str) -> Node:
    return make_node(name, {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": str(count), **labels})


def test_mig_devices_are_not_gpus(browser: Browser) -> None:
    """With the strategy `single` GFD counts MIG devices in gpu.count; gpu.count.present is of GPUs."""
    nodes = [
        gpu_node("a", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 14),
        gpu_node("b", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", 7),
        gpu_node("c", "NVIDIA-H200", 8),
        gpu_node("d", "NVIDIA-H200", 3, **{"nvidia.com/gpu.count.present": "4"}),
    ]
    with served(nodes) as url:
        browser.open(url)
        assert (browser.text("#n-gpus"), browser.text("#t-gpus")) == ("11", "of 12 accelerators usable")
        assert browser.text("#t-slices") == " and 21 MIG devices"
        assert browser.texts("#product .name") == ["NVIDIA-H200", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"]
        assert browser.texts("#product .number") == ["11", "21"]
        assert browser.texts("#rows td:nth-child(2)")[2:] == ["8×NVIDIA-H200", "3/4×NVIDIA-H200"]


def test_every_product_has_its_own_colour(browser: Browser) -> None:
    """Nodes with several products too."""
    nodes = [gpu_node(f"n-{index}", f"GPU-{index}", 20 - index) for index in range(19)]
    several = {f"nvidia.com/gpu.model.GPU-{name}.count": "1" for name in (1, 2)}
    nodes.append(make_node("several", several))
    with served(nodes) as url:
        browser.open(url)
        found = browser.script("return [...document.querySelectorAll('#legend .swatch')].map((one) => one.className)")
        assert len(found) == len(set(found)) == 20


LEAST = 0.08
"""In OKLab; two greys of the page's palette that one takes for the same are 0.02 apart."""


@pytest.mark.parametrize("number", [0, 1], ids=["light", "dark"])
def test_colours_are_distinct(number: int) -> None:
    """Any two of them, and each from the colour of nodes without a value. Source: Björn Ottosson, "OKLab"."""
    themes = (ASSETS / "page.css").read_text().split(":root")[1:]
    found = dict(re.findall(r"--(c\d+|blank): (#[0-9a-f]{6})", themes[number]))
    assert len(found) == 22
    places = {name: oklab(text) for name, text in found.items()}
    near = {
        (one, other): round(math.dist(places[one], places[other]), 3)
        for one, other in combinations(places, 2)
        if {one, other} != {"c20", "blank"} and math.dist(places[one], places[other]) < LEAST
    }
    assert near == {}


def oklab(text: str) -> tuple[float, float, float]:
    red, green, blue = (linear(int(text[at : at + 2], 16) / 255) for at in (1, 3, 5))
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def linear(part: float) -> float:
    """Of a channel of sRGB."""
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def test_columns_sort(browser: Browser) -> None:
    """Numbers by size, the greatest first; text as one counts; nodes without a value last, whichever way."""
    kernel = "feature.node.kubernetes.io/kernel-version.full"
    nodes = [
        gpu_node("n-10", "GPU", 2, **{kernel: "6.10.0"}),
        gpu_node("n-2", "GPU", 10, **{kernel: "6.9.0"}),
        make_node("n-1", {}),
    ]
    with served(nodes) as url:
        browser.open(url)

        def order(column: str) -> list[str]:
            one = "[...document.querySelectorAll('#columns button')].find((one) => one.textContent === arguments[0])"
            browser.script(f"{one}.click()", column)
            return browser.texts("#rows th")

        assert browser.texts("#columns [aria-sort=ascending]") == ["Node"]
        assert order("Accelerators") == ["n-2", "n-10", "n-1"]
        assert order("Accelerators") == ["n-10", "n-2", "n-1"]
        assert order("Kernel") == ["n-2", "n-10", "n-1"]
        assert order("Kernel") == ["n-10", "n-2", "n-1"]
        assert order("Node") == ["n-1", "n-10", "n-2"]
        assert order("Node") == ["n-10", "n-2", "n-1"]
        assert browser.texts("#columns [aria-sort=descending]") == ["Node"]


def test_suggestions_begin_with_what_is_used_most(browser: Browser) -> None:
    """What tells nodes apart before what does not, and more nodes before fewer; the same for values."""
    labels = [{"a/same": "x", "a/each": str(index), "a/zone": "z" if index else "y"} for index in range(4)]
    nodes = [
        make_node(f"n-{index}", found | ({"a/rare": "1"} if not index else {})) for index, found in enumerate(labels)
    ]
    shown = "return [...document.querySelectorAll(arguments[0])].map((one) => one.value)"
    with served(nodes) as url:
        browser.open(url)
        assert browser.script(shown, "#keys option") == ["a/zone", "a/rare", "a/same", "a/each"]
        browser.press("n", "a/zone", Keys.TAB, Keys.TAB)
        assert browser.script(shown, "#values option") == ["z", "y"]
        browser.press("z,")
        assert browser.script(shown, "#values option") == ["z, z", "z, y"]


def test_a_label_that_no_node_has_is_said(browser: Browser) -> None:
    with served(many_nodes(3)) as url:
        found = {"key": "nvidia.com/gpu.prodct", "operator": "Exists", "values": []}
        browser.open(f"{url}#{json.dumps({'s': [found]})}")
        hint = "no node has this label; did you mean nvidia.com/gpu.product?"
        assert browser.texts(".condition .hint") == [hint]
        assert browser.text("#matches") == "0"


@pytest.mark.parametrize("shown", ["page", "node"])
def test_a_telephone_is_wide_enough(browser: Browser, shown: str) -> None:
    """390 px: nothing is cut or beyond the edge, but for the wide table, which moves by itself."""
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    inside = "!one.closest('main table') && (one.closest('dialog') === null) === (arguments[0] === 'page')"
    beyond = f"return [...document.querySelectorAll('body *')].filter((one) => {inside} && right(one) > 390).map(name)"
    helpers = "const right = (one) => one.getBoundingClientRect().right, name = (one) => `${one.tagName}#${one.id}`;"
    nodes = [*many_nodes(30), gpu_node("g", "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition", 8)]
    chosen = {"s": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["GPU-0"]}], "n": "g"}
    with served(nodes) as url:
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            browser.open(url if shown == "page" else f"{url}#{json.dumps(chosen)}")
            assert browser.script("return document.documentElement.scrollWidth") <= 390
            assert browser.script(helpers + beyond, shown) == []
        finally:
            browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_link_shows_a_node(browser: Browser) -> None:
    """Until it is closed."""
    with served(many_nodes(3)) as url:
        browser.open(f'{url}#{{"n":"node-00001"}}')
        assert browser.script("return document.getElementById('node').open")
        assert browser.text("#node-name") == "node-00001"
        assert browser.text("#node-why") == "kubectl nfd explain node-00001 LABEL"
        browser.press(Keys.ESCAPE)
        browser.until(lambda: "node-00001" not in browser.script("return location.hash"))


def test_what_changes_is_shown_and_what_does_not_is_not_sent_again(browser: Browser) -> None:
    """What is chosen and half typed stays."""
    nodes = many_nodes(3)
    look = "document.dispatchEvent(new Event('visibilitychange'))"
    sizes = "return performance.getEntriesByType('resource').filter(fleet).map((one) => one.encodedBodySize)"
    sizes = f"const fleet = (one) => one.name.endsWith('.json'); {sizes}"
    with served(nodes) as url:
        browser.open(url)
        browser.press("n")
        browser.press("example.com/rack")
        browser.script(look)
        browser.until(lambda: len(browser.script(sizes)) == 2)
        assert browser.script(sizes)[1] == 0
        nodes.append(make_node("new", {"example.com/rack": "r"}))
        browser.script(look)
        label = "return document.getElementById('picture').getAttribute('aria-label')"
        browser.until(lambda: "each of 4 nodes" in browser.script(label))
        assert browser.focused() == "Condition 1: label"
        assert browser.script("return document.activeElement.value") == "example.com/rack"


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
