"""Runs only with `NFD_PEERS=DIR`, and prints one table at the end."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import (  # noqa: F401  fixtures
    definitions,
    kubeconfig,
    machines,
    masters,
    nodes,
    workers,
)
from tests.peers.programs import sources

collect_ignore_glob = [] if sources() else ["test_*.py"]
HEAD = ("from", "to", "labels that both give", "removed", "changed and changed back")


@pytest.fixture(scope="session")
def table() -> list[tuple[str, ...]]:
    """Rows that the tests add."""
    return ROWS


ROWS: list[tuple[str, ...]] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if ROWS:
        for row in (HEAD, ("---",) * len(HEAD), *ROWS):
            terminalreporter.write_line(f"| {' | '.join(row)} |")
