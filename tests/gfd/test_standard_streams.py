"""`gpu-feature-discovery` whose standard output or error is closed or read by nobody."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.children import run
from tests.gfd.cases import PROGRAM, prepare, read_labels
from tests.gfd.machines import H100
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

DEADLINE = 20.0


def test_labels_that_nobody_reads_any_more_end_it(tmp_path: Path) -> None:
    flags = ["--output-file=", "--use-node-feature-api=false", "--sleep-interval=100ms"]
    start = prepare({"machine": {"devices": [H100]}, "plain": True, "flags": flags}, tmp_path)
    with subprocess.Popen(
        [str(PROGRAM), *start.argv],
        env=dict(start.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(DEADLINE) == 1
        assert process.stderr.read().splitlines()[-1] == "gpu-feature-discovery: standard output: Broken pipe"


def test_a_closed_standard_error_takes_no_label(tmp_path: Path) -> None:
    start = prepare({"machine": {"devices": [H100]}}, tmp_path)
    words = ["sh", "-c", 'exec "$@" 2>&-', "sh", str(PROGRAM), *start.argv]
    run(words, env=dict(start.environment), timeout=60)
    assert read_labels(start.out.read_text())["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
