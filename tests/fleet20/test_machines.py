"""The recorded fleet itself: each machine is labelled as the case of its GPUs says."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from nfd.cli import main
from tests.fleet20.machines import FleetNode, build_machine, load_fleet
from tests.gfd.cases import compare

OTHER_HOST = ("nvidia.com/gpu.machine", "nvidia.com/gpu.clique", "nvidia.com/gpu.mode", "nvidia.com/vgpu.*")
FLEET = load_fleet()


def test_it_has_twenty_nodes_with_names_of_their_own() -> None:
    assert len({node.name for node in FLEET}) == 20


@pytest.mark.parametrize("node", [node for node in FLEET if node.gpus and not node.broken], ids=lambda node: node.name)
def test_labels(node: FleetNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """But for what the host tells, and what the other form of a case had to leave out."""
    root = build_machine(node, tmp_path / "machine")
    config = tmp_path / "nfd-worker.conf"
    config.write_text(yaml.safe_dump(node.worker_config))
    assert main(["discover", f"--replay={root}", f"--config={config}", "--sources=nvidia", "-o", "labels"]) == 0
    labels = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    case = node.case
    expect = {key: value for key, value in case["expect"].items() if not any(fnmatch(key, one) for one in OTHER_HOST)}
    assert compare({**case, "expect": expect, "ignore": [*case.get("ignore", ()), *OTHER_HOST]}, labels) == []
