"""Builds the registries of registry/main.go into the cache of the control plane: `python -m tests.compat.build`."""

from __future__ import annotations

from pathlib import Path

from tests.controlplane.build import BuildError, print_line
from tests.controlplane.go_module import ensure_program

MODULE = Path(__file__).parent / "registry"


def ensure() -> Path:
    """The program, after building it if it is not there. Raises: BuildError."""
    return ensure_program(MODULE, "registry", "a registry")


def main() -> int:
    try:
        print(ensure())
    except BuildError as error:
        print_line(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
