"""What the GPU operator itself decided in the last `make peers` still fits the labels that our worker gives today."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.children import run
from tests.consumers import operators
from tests.consumers.fleet import FLEET, GPU_NODES, make
from tests.controlplane.process import without_proxy
from tests.e2e.machines import parse_labels
from tests.e2e.programs import SCRIPTS
from tests.nvml.asking import needs_compiler

RECORDED: Mapping[str, Any] = json.loads(Path(__file__).with_name("gpu_operator.json").read_text())
Labels = Mapping[str, Mapping[str, str]]

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Labels:
    """Of every node of the fleet, as the master writes them."""
    folder = tmp_path_factory.mktemp("fleet")
    return {name: discovered(name, folder / name) for name in FLEET}


def discovered(name: str, folder: Path) -> Mapping[str, str]:
    built, config = make(FLEET[name], folder), folder / "worker.json"
    config.write_text(json.dumps(dict(FLEET[name].config)))
    command = [str(SCRIPTS / "nfd"), "discover", f"--replay={built.machine.root}", f"--config={config}"]
    done = run([*command, "-o", "labels"], env={**without_proxy(), **built.variables})
    return parse_labels(done.stdout)


@pytest.mark.parametrize("mode", RECORDED)
def test_its_pods_would_be_on_the_same_nodes(mode: str, labels: Labels) -> None:
    """By the node selectors of its DaemonSets, over our labels and what it and an administrator added."""
    added = RECORDED[mode]["labels"]
    whole = {name: {**labels[name], **added.get(name, {})} for name in FLEET}
    for name, found in RECORDED[mode]["daemonSets"].items():
        selected = sorted(node for node, keys in whole.items() if found["selector"].items() <= keys.items())
        assert selected == found["nodes"], name


def test_it_decided_as_our_copy_of_its_rules_does(labels: Labels) -> None:
    """tests/consumers/operators.py, by which the scheduling tests write its labels; ours that it found are not its."""
    decided = {name: operators.gpu_operator(labels[name]).items() - labels[name].items() for name in GPU_NODES}
    assert {name: dict(keys) for name, keys in decided.items()} == RECORDED["plain"]["labels"]


def test_every_gpu_node_was_found_in_every_mode() -> None:
    assert {mode: sorted(found["labels"]) for mode, found in RECORDED.items()} == dict.fromkeys(
        RECORDED, sorted(GPU_NODES)
    )
