"""docs/getting-started.md: from step 3 on its commands print what stands there, on a cluster of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.process import Process
from tests.docs.cluster import READY
from tests.docs.newcomer import ROOT, Shell, blocks
from tests.e2e.programs import SCRIPTS, eventually

PLACE = "$PWD/.state/cluster"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Of a cluster as `make cluster` starts it."""
    command = [sys.executable, "-m", "tests.docs.cluster", str(tmp_path / "cluster")]
    process = Process("cluster", command, tmp_path / "log")
    process.start()
    try:
        eventually(lambda: READY in process.tail() or not process.alive(), 600)  # the first time it builds
        assert process.alive(), process.tail(40)
        yield tmp_path / "cluster/kubeconfig"
    finally:
        process.stop(60)


def test_the_steps(kubeconfig: Path) -> None:
    shell = Shell(ROOT, [f"export PATH={SCRIPTS}:{os.environ['PATH']} KUBERC=off"])
    later = [one for one in blocks() if int(one.step.partition(".")[0]) >= 3 and "make cluster" not in one.commands]
    assert len(later) == 5
    for block in later:
        commands = tuple(line.replace(PLACE, str(kubeconfig.parent)) for line in block.commands)
        printed = shell.run(commands)
        assert not block.output or printed.splitlines() == block.output.splitlines()


def test_make_has_the_commands() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "-m tests.docs.cluster $(STATE)/cluster" in makefile
    assert "\nup: " in makefile
