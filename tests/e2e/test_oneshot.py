"""`nfd-worker --oneshot` delivers all labels before it ends, also those that need the master's first reply."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.e2e.conftest import MakeNode
from tests.e2e.machines import Machine
from tests.e2e.programs import Program, eventually, port_of
from tests.e2e.test_zero_writes import GPU, TESLA
from tests.nvml.library import build


def test_gpu_labels_are_delivered(
    machines: Callable[[str], Machine], nodes: MakeNode, master: Program, tmp_path: Path
) -> None:
    libraries = build(TESLA, tmp_path / "driver")
    machine = machines("debian-12-epyc-milan")
    machine.plug(GPU, "030200", "10de", "1eb8")
    node = nodes(machine)
    variables = {**libraries.env, "NFD_NVML_LIBRARY": str(libraries.nvml), "NODE_NAME": node.name}
    flags = (f"--server=localhost:{port_of(master)}", f"--host-root={machine.root}", "--http-port=0", "--config=")
    command = [str(Path(sys.executable).parent / "nfd-worker"), *flags, "--oneshot"]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    eventually(lambda: node.labels.get("nvidia.com/gpu.product") == "Tesla-T4")
    assert node.labels["nvidia.com/gpu.count"] == "1"
