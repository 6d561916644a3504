"""A short run of what `make chaos` does for ten minutes."""

from __future__ import annotations

from tests.chaos.__main__ import carry_out
from tests.chaos.driver import Run, RunOptions
from tests.controlplane.cluster import ControlPlane


def test_nothing_is_violated_in_some_seconds_of_chaos(control_plane: ControlPlane) -> None:
    said: list[str] = []
    run = Run(RunOptions(seed=28211, seconds=10, nodes=16, crew=4, quiet=2), said.append, control_plane)
    assert carry_out(run) == 0, "\n".join(said)
    assert run.checker.written >= run.options.nodes
    assert run.restarts.total() >= 1
