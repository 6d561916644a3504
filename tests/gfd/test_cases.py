"""Every case of tests/cases/gfd, most of them in one process, the rest as the installed program."""

from pathlib import Path

import pytest

from tests.gfd.cases import Case, Outcome, Start, differences, load_cases, prepare, run_batch, run_process
from tests.nvml.asking import needs_compiler

CASES = load_cases()
EVERY = 10
"""One case in so many runs as a program of its own."""


def needs_process(name: str, case: Case) -> bool:
    """Libraries that are found by name alone have to be on the loader's path when a process starts."""
    libraries = (case.get("machine") or {}).get("libraries", ["nvml"])
    return bool({"cuda", "dxcore"} & set(libraries)) or bool(case.get("plain")) or list(CASES).index(name) % EVERY == 0


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Outcome, Path]]:
    starts: dict[str, Start] = {}
    for name, case in CASES.items():
        if not needs_process(name, case):
            starts[name] = prepare(case, tmp_path_factory.mktemp(name[:30]))
    found = run_batch(list(starts.values()))
    return {name: (outcome, starts[name].out) for name, outcome in zip(starts, found, strict=True)}


@needs_compiler
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not needs_process(name, case)])
def test_case(name: str, outcomes: dict[str, tuple[Outcome, Path]]) -> None:
    outcome, out = outcomes[name]
    assert not differences(CASES[name], outcome, out)


@needs_compiler
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if needs_process(name, case)])
def test_case_as_a_program(name: str, tmp_path: Path) -> None:
    start = prepare(CASES[name], tmp_path)
    assert not differences(CASES[name], run_process(start), start.out)
