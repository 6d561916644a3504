"""The page in a browser without a cluster: hostile labels, very many nodes, changes, light and dark."""

from __future__ import annotations

import json
import re

from nfd.store.base import Node
from tests.page.browser import Browser
from tests.page.serving import make_node, many_nodes, served

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
        browser.until(lambda: browser.text("#of") == "of 4 nodes")
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
