"""A few lives of each program, ended at seeded moments; `python -m tests.faults.terms` does hundreds."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nfd.runtime.signals import KILLED
from tests.controlplane.cluster import ControlPlane
from tests.faults.terms import MOMENTS, NODES, PROGRAMS, Terms
from tests.master.conftest import Kinds


@pytest.fixture
def terms(control_plane: ControlPlane, kinds: Kinds, tmp_path: Path) -> Iterator[Terms]:
    found = Terms(control_plane, tmp_path)
    found.prepare()
    yield found
    for name in NODES:
        control_plane.delete_node(name)


@pytest.mark.parametrize(
    ("program", "lives"), [(name, 6 if name in ("master", "elected") else 3) for name in PROGRAMS], ids=PROGRAMS
)
def test_a_signal_at_any_moment_ends_it(program: str, lives: int, terms: Terms) -> None:
    chance = random.Random(program)
    endings = [terms.end(program, chance, MOMENTS[number % len(MOMENTS)]) for number in range(lives)]
    assert [ending for ending in endings if ending.wrong] == []


HANGS = """
import asyncio, signal, sys
from nfd.runtime import signals, tasks
signals.begin()
signals.GRACE = 1.0

async def hang(asked):
    print("ready", flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

async def work(asked):
    await tasks.first_of(hang(asked), asked.stop.wait())

tasks.serve(work)
"""
WAITS = """
import time
from nfd.runtime import signals
signals.begin()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [(HANGS, 1, "did not end in time"), (WAITS, KILLED + signal.SIGTERM, "")],
    ids=["an end that hangs", "nothing to release yet"],
)
def test_the_first_line_and_the_last(script: str, status: int, said: str) -> None:
    """Before there is anything to release it ends at once; an end that does not come is cut off."""
    with subprocess.Popen([sys.executable, "-c", script], stdout=-1, stderr=-1, text=True) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGTERM)
        try:
            assert program.wait(10) == status
        finally:
            program.kill()
        assert said in program.stderr.read()
