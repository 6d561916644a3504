"""Programs and files of Go modules, in the cache of the control plane: built or fetched once."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

from tests.controlplane.build import BuildError, Go, cache_root, find_go, last_line, locked, print_line


def ensure_program(module: Path, name: str, about: str, package: str = ".") -> Path:
    """The program of the Go module in a directory, or of a package that it requires, after building it if it is not
    there. Raises: BuildError."""
    files = sorted(one for one in module.iterdir() if one.name in ("go.mod", "go.sum") or one.suffix == ".go")
    digest = hashlib.sha256(b"".join(one.read_bytes() for one in files)).hexdigest()[:16]
    folder = cache_root() / f"{name}-{digest}"
    program = folder / name
    if not program.exists():
        with locked(folder / "lock", print_line):
            if not program.exists():
                build_program(module, program, about, package)
    return program


def build_program(module: Path, program: Path, about: str, package: str) -> None:
    """Beside the final place, and renamed."""
    print_line(f"building {about} into {program.parent}: some minutes, once")
    go = find_go(print_line)
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        made = Path(folder, program.name)
        command = [go.program, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(made), package]
        answer = subprocess.run(command, cwd=module, env=_env(go), capture_output=True, text=True, check=False)
        if answer.returncode:
            raise BuildError(f"go build of {about} failed: {last_line(answer.stderr)}: check network and GOPROXY")
        made.replace(program)


def _env(go: Go) -> dict[str, str]:
    own = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    return os.environ | go.env | own


def fetch_module(module: str, digest: str) -> Path:
    """The directory of a Go module `PATH@VERSION` in the module cache; `digest` is its `h1:` sum.

    Raises: BuildError if it cannot be fetched, or has another sum.
    """
    go = find_go(print_line)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "go.mod").write_text("module fetch\n")
        command = [go.program, "mod", "download", "-json", module]
        answer = subprocess.run(command, cwd=folder, env=_env(go), capture_output=True, text=True, check=False)
    if answer.returncode:
        raise BuildError(f"go mod download {module} failed: {last_line(answer.stderr)}: check network and GOPROXY")
    found = json.loads(answer.stdout)
    if found["Sum"] != digest:
        raise BuildError(f"{module} has the sum {found['Sum']}, not {digest}")
    return Path(found["Dir"])
