"""Every host case gets the labels and features it asks for.

The scan takes the way of `nfd discover --replay DIR --config FILE`; the labels are what a master with default settings
puts on the node.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from nfd.cli.machine import Seen, plan_of, scan
from nfd.features import from_json
from nfd.host.replay import Replay
from tests.cases_hosts.compare import differences
from tests.cases_hosts.layout import CASES, lay_out, open_up
from tests.children import run

DISTRIBUTIONS = Path(__file__).parent / "distributions"
FILES = sorted([*CASES.glob("*.yaml"), *DISTRIBUTIONS.glob("*.yaml")])
NOBODY = 65534


@pytest.fixture
def machine() -> Iterator[Path]:
    """An empty directory that every user can enter."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "host"
        root.mkdir()
        Path(folder).chmod(0o755)
        yield root


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without root's right to read everything."""
    user = os.geteuid()
    os.seteuid(NOBODY if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("file", FILES, ids=attrgetter("stem"))
def test_case(file: Path, machine: Path) -> None:
    case = yaml.safe_load(file.read_text())
    lay_out(case, machine)
    try:
        with as_nobody() if case.get("modes") else nullcontext():
            seen = scan_case(case, machine)
    finally:
        open_up(case, machine)
    problems = "\n".join(f"  problem of {one.source}: {one.subject}: {one.reason}" for one in seen.problems)
    assert not differences(case, seen.labels, seen.discovery.features), problems


def scan_case(case: Mapping[str, Any], root: Path) -> Seen:
    """One pass over the case's machine, with its configuration and environment."""
    plan, odd = plan_of(Namespace(config=write_config(case, root), sources=None))
    return scan(Replay(root, case.get("env") or {}), plan, odd)


def write_config(case: Mapping[str, Any], root: Path) -> str | None:
    """The path of the case's configuration file, beside its machine; None without one."""
    if "config" not in case:
        return None
    file = root.with_name("config.yaml")
    file.write_text(case["config"])
    return str(file)


@pytest.mark.parametrize("name", ["options-white-list-alternatives", "hostile-release-is-folder", "system-nodename"])
def test_the_command_prints_what_was_found(name: str, machine: Path) -> None:
    """The real program, in a process of its own."""
    case = yaml.safe_load((CASES / f"{name}.yaml").read_text())
    lay_out(case, machine)
    file = write_config(case, machine)
    command = [sys.executable, "-m", "nfd.cli", "discover", "--replay", str(machine), "-o", "json"]
    environment = {name: value for name, value in os.environ.items() if name != "NODE_NAME"} | (case.get("env") or {})
    done = run(command + (["--config", file] if file else []), env=environment)
    found = json.loads(done.stdout)
    assert not differences(case, found["labels"], from_json(found["features"])), found["problems"]
