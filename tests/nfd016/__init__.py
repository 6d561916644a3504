"""The worker and the master of node-feature-discovery 0.16, as its Go module has them."""

from __future__ import annotations

from pathlib import Path

from tests.controlplane.go_module import ensure_program

MODULE = Path(__file__).parent / "module"
COMMANDS = "sigs.k8s.io/node-feature-discovery/cmd"


def ensure(name: str) -> Path:
    """`nfd-worker` or `nfd-master`, after building it if it is not there. Raises: BuildError."""
    return ensure_program(MODULE, f"{name}-0.16", f"{name} 0.16", f"{COMMANDS}/{name}")
