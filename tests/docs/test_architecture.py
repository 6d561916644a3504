"""ARCHITECTURE.md says which functions a label passes: a real pass is traced."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.docs.walk import LABELS, PAGE, ROOT, tables
from tests.nvml.asking import needs_compiler

LIMITS = {"feature.node.kubernetes.io/pci-10de.present": (59, 25), "nvidia.com/gpu.memory": (75, 28)}
"""Functions and files that a walk may have: whoever follows a label reads all of them. A change may only lower them."""


@pytest.fixture(scope="module")
def walks() -> dict[str, dict[str, list[str]]]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.docs.walk"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, dict[str, list[str]]] = json.loads(run.stdout)
    return found


@needs_compiler
@pytest.mark.parametrize("label", LABELS)
def test_the_walk_of_a_label_is_the_one_on_the_page(label: str, walks: dict[str, dict[str, list[str]]]) -> None:
    """`python -m tests.docs.walk --write` writes the tables anew."""
    told = {file: sorted(names) for file, names in tables(PAGE.read_text())[label].items()}
    assert told == {file: sorted(names) for file, names in walks[label].items()}


@needs_compiler
@pytest.mark.parametrize("label", LIMITS)
def test_the_walk_is_short(label: str, walks: dict[str, dict[str, list[str]]]) -> None:
    functions, files = LIMITS[label]
    assert sum(map(len, walks[label].values())) <= functions
    assert len(walks[label]) <= files


def test_every_file_that_the_page_names_is_there() -> None:
    text = PAGE.read_text()
    names = set(re.findall(r"`((?:nfd|gfd|tests|deploy|bench|docs)/[\w./-]*)`", text))
    assert names
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []
    rows = re.findall(r"^\| `[^`]+` \|[^|]*\|([^|]*)\|$", text, re.MULTILINE)
    assert all(row.strip() for row in rows)
