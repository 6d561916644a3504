"""Runs only with `NFD_PEERS=DIR`; prints the tables at the end and keeps them in `results.json`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.conftest import (  # noqa: F401  fixtures
    definitions,
    kubeconfig,
    machines,
    masters,
    nodes,
    workers,
)
from tests.e2e.nodes import NAMESPACE
from tests.e2e.programs import Program
from tests.peers import results
from tests.peers.programs import folder

collect_ignore_glob = [] if folder() else ["test_*.py"]
FOUND: dict[str, results.Rows] = {}

AddRow = Callable[..., None]
Start = Callable[..., Program]


@pytest.fixture(scope="session")
def add_row() -> AddRow:
    """`add_row(table, first, *others)`."""

    def add(table: str, *cells: object) -> None:
        first, *others = map(str, cells)
        FOUND.setdefault(table, {})[first] = others

    return add


@pytest.fixture
def start(tmp_path: Path, control_plane: ControlPlane) -> Iterator[Start]:
    """Starts a program of the others, with the rights of an administrator."""
    made: list[Program] = []

    def begin(path: Path, *flags: str, **variables: str) -> Program:
        (port,) = free_ports(1)
        variables = {"KUBERNETES_NAMESPACE": NAMESPACE, "KUBECONFIG": str(control_plane.kubeconfig), **variables}
        log = tmp_path / f"{path.name}-{len(made)}.log"
        made.append(Program(str(path), flags, log, port, variables))
        made[-1].start()
        return made[-1]

    yield begin
    for one in made:
        one.kill()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if FOUND:
        results.save(FOUND)
    for name in FOUND:
        for line in results.lines(name):
            terminalreporter.write_line(line)
