"""Builds the registries of registry/main.go into the cache of the control plane: `python -m tests.compat.build`."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tests.controlplane.build import BuildError, cache_root, find_go, last_line, locked, print_line

MODULE = Path(__file__).parent / "registry"
FILES = ("go.mod", "go.sum", "main.go")


def ensure() -> Path:
    """The program, after building it if it is not there. Raises: BuildError."""
    digest = hashlib.sha256(b"".join((MODULE / name).read_bytes() for name in FILES)).hexdigest()[:16]
    folder = cache_root() / f"registry-{digest}"
    program = folder / "registry"
    if not program.exists():
        with locked(folder / "lock", print_line):
            if not program.exists():
                build(program)
    return program


def build(program: Path) -> None:
    """Beside the final place, and renamed."""
    print_line(f"building a registry into {program.parent}: about two minutes, once")
    go = find_go(print_line)
    own = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        made = Path(folder, "registry")
        command = [go.program, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(made), "."]
        env = os.environ | go.env | own
        answer = subprocess.run(command, cwd=MODULE, env=env, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise BuildError(f"go build of the registry failed: {last_line(answer.stderr)}: check network and GOPROXY")
        made.replace(program)


def main() -> int:
    try:
        print(ensure())
    except BuildError as error:
        print_line(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
