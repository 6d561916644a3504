"""A short run of every fuzz target, and the inputs that once found something. At length: `make fuzz`."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import run
from tests.fuzz.run import giving_up, run_input
from tests.fuzz.target import Broken, Made, Target
from tests.fuzz.targets import TARGETS
from tests.nvml.library import compiler

FOUND = Path(__file__).parent / "found"
INPUTS = 500


def skip_if_it_cannot_run(target: Target) -> None:
    if target.name == "nvml" and compiler() is None:
        pytest.skip("the driver's library is compiled from C: install gcc")


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_some_inputs(target: Target) -> None:
    """The same ones each time; what is refused is refused with a documented error."""
    skip_if_it_cannot_run(target)
    chance, corpus = Random(f"short {target.name}"), list(target.seeds())
    known: set[str] = set()
    with giving_up():
        for index in range(INPUTS):
            data = corpus[index] if index < len(corpus) // 4 else target.make(chance, corpus)
            kind, _ = run_input(target, data, again=index % 8 == 0)
            if kind not in known:
                known.add(kind)
                corpus.append(data)
    assert len(known) > 1


@pytest.mark.parametrize("path", sorted(FOUND.iterdir()), ids=lambda path: str(path.name))
def test_inputs_that_found_something(path: Path) -> None:
    """Named TARGET--WHAT."""
    target = TARGETS[path.name.partition("--")[0]]
    skip_if_it_cannot_run(target)
    with giving_up():
        run_input(target, path.read_bytes(), again=True)


@pytest.mark.parametrize("kind", ["computes", "waits"])
def test_what_does_not_end_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(data: bytes) -> Made:
        for _ in count():
            time.sleep(0.01 if kind == "waits" else 0)
        raise AssertionError

    monkeypatch.setattr(run, "HANGS", (0.2, 60) if kind == "computes" else (60, 0.2))
    with giving_up(), pytest.raises(Broken, match="does not end"):
        run_input(Target("hangs", "", lambda: [b""], lambda chance, corpus: b"", forever), b"")
