"""A fleet with accelerators of seven vendors on a real API server: `nfd gpus`, the page, and one selector for all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from nfd.cli import main
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import eventually
from tests.fleet20.accelerators import ANY, LARGE, NODES, WITH_80_GB
from tests.fleet20.place import SELECTOR, FleetPlace, fleet_on
from tests.page.browser import Browser

DOCS = Path(__file__).parents[2] / "docs"
MOST_PIXELS = 150_000
DEVICES = {
    "AMD_Instinct_MI300X_OAM": 9,
    "AMD_Instinct_MI308X": 8,
    "Gaudi2": 8,
    "Gaudi3": 1,
    "Max_1550": 4,
    "Meteor_Lake_NPU": 1,
    "NVIDIA-A100-SXM4-80GB": 8,
    "TPU_v5e": 4,
    "Trainium": 16,
}


@pytest.fixture(scope="module")
def fleet(
    control_plane: ControlPlane, chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FleetPlace]:
    folder = tmp_path_factory.mktemp("accelerators")
    with fleet_on(control_plane, folder, "--serve-page", "--cluster-name=ai-lab", nodes=NODES) as place:
        labelled = [one.name for one in NODES if one.name != "cpu-1"]
        eventually(lambda: all(f"{ANY}.present" in place.node(name)["metadata"]["labels"] for name in labelled))
        yield place


def printed(fleet: FleetPlace, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    status = main([*words, "--kubeconfig", str(fleet.plane.kubeconfig), "--selector", SELECTOR])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return out


def test_gpus_of_every_vendor(fleet: FleetPlace, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(fleet, capsys, "accelerators", "-o", "json"))
    found: dict[str, int] = {}
    for one in data["groups"]:
        found[one["product"]] = found.get(one["product"], 0) + one["present"]
    assert found == DEVICES
    amounts: dict[str, Any] = {}
    for one in data["groups"]:
        for name, amount in one["resources"].items():
            before = amounts.get(name, (0, 0, ""))
            amounts[name] = (before[0] + amount["allocatable"], before[1] + amount["allocated"], amount.get("unit", ""))
    assert amounts == {
        "nvidia.com/gpu": (8, 2, ""),
        "habana.ai/gaudi": (9, 4, ""),
        "gpu.intel.com/xe": (40, 3, "share"),
        "amd.com/cpx_nps1": (64, 24, "partition"),
        "amd.com/gpu": (33, 1, ""),
        "npu.intel.com/accel": (10, 2, "share"),
        "google.com/tpu": (4, 0, ""),
        "aws.amazon.com/neuron": (16, 2, ""),
        "aws.amazon.com/neuroncore": (32, 0, "view"),
    }
    text = printed(fleet, capsys, "gpus")
    assert "AMD_Instinct_MI308X · 192 GiB · driver amdgpu · 8 AMD GPUs on 1 node" in text
    assert "monitoring" not in text


def test_one_selector_for_any_accelerator_with_80_gb(fleet: FleetPlace, capsys: pytest.CaptureFixture[str]) -> None:
    """The command, and what the API server's own selectors make of the same labels."""
    found = printed(fleet, capsys, "find", "accelerator-any.memory > 79999", "-o", "name")
    assert {name.removeprefix("node/") for name in found.split()} == WITH_80_GB
    affinity = yaml.safe_load(printed(fleet, capsys, "find", "accelerator-any.memory > 79999", "-o", "affinity"))
    terms = affinity["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [LARGE]}]
    nodes = fleet.plane.request("GET", f"/api/v1/nodes?labelSelector={quote(f'{SELECTOR},{ANY}.present=true')}")[
        "items"
    ]
    assert {one["metadata"]["name"] for one in nodes} == {one.name for one in NODES} - {"cpu-1"}


def test_the_page(fleet: FleetPlace, browser: Browser, request: pytest.FixtureRequest) -> None:
    """`--update-expected` takes the picture of docs/ anew."""
    url = f"http://127.0.0.1:{fleet.master.http_port}/page/"
    key, _, value = SELECTOR.partition("=")
    ours = {"key": key, "operator": "In", "values": [value]}
    browser.open(f"{url}#{quote(json.dumps({'c': 'product', 's': [ours]}))}")
    browser.until(lambda: browser.text("#matches") == str(len(NODES)))
    assert browser.text("#t-gpus").endswith("accelerators") or browser.text("#t-gpus").endswith("accelerators usable")
    words = browser.texts("h2, .tiles span, #columns button, #colour option")
    assert [text for text in words if "GPU" in text] == []
    browser.script("document.querySelector('#product .more')?.click()")
    names, numbers = (browser.texts(f"#product .row .{part}") for part in ("name", "number"))
    assert dict(zip(names, map(int, numbers), strict=True)) == DEVICES
    browser.script(
        "[...document.querySelectorAll('#product .row')].find((e) => e.textContent.includes('MI308X')).click()"
    )
    browser.until(lambda: browser.text("#matches") == "1")
    browser.open(f"{url}#{quote(json.dumps({'c': 'driver', 's': [ours]}))}")
    drivers = set(browser.texts("#driver .row .name"))
    assert {"amdgpu", "habanalabs"} <= drivers
    browser.script(
        "[...document.querySelectorAll('#driver .row')].find((e) => e.textContent.startsWith('habanalabs')).click()"
    )
    browser.until(lambda: set(browser.texts("#rows th")) == {"acc-gaudi2-1", "acc-mixed-1"})
    browser.open(f"{url}#{quote(json.dumps({'c': 'product', 's': [ours, LARGE]}))}")
    browser.until(lambda: browser.text("#matches") == str(len(WITH_80_GB)))
    file = DOCS / "page-accelerators.png"
    if request.config.getoption("--update-expected"):
        browser.driver.set_window_size(1360, 1080)
        browser.script("document.getElementById('state').textContent = ''")
        browser.until(lambda: browser.script("return !document.getAnimations().length"))
        browser.driver.save_screenshot(str(file))
    assert 20_000 < file.stat().st_size < MOST_PIXELS
    assert f"({file.name})" in (DOCS / "accelerators.md").read_text()
