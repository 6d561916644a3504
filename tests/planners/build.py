"""Builds Karpenter's scheduler (karpenter/main.go) into the control plane's cache: `python -m tests.planners.build`."""

from __future__ import annotations

from pathlib import Path

from tests.controlplane.build import BuildError, print_line
from tests.controlplane.go_module import ensure_program

MODULE = Path(__file__).parent / "karpenter"


def ensure() -> Path:
    """The program, after building it if it is not there. Raises: BuildError."""
    return ensure_program(MODULE, "karpenter-scheduler", "Karpenter's scheduler")


def main() -> int:
    try:
        print(ensure())
    except BuildError as error:
        print_line(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
