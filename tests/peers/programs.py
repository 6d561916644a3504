"""Builds the programs of the trees in `DIR`."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tests.controlplane.build import BuildError, cache_root, find_go, last_line, print_line

PROGRAMS = {
    "nfd-0.16": ("nfd-worker", "nfd-master"),
    "nfd-0.19": ("nfd-worker", "nfd-master"),
    "gfd-0.20": ("gpu-feature-discovery",),
}
"""Tree -> the commands in its folder `cmd`."""


def sources() -> Path | None:
    """The folder with the trees."""
    return Path(os.environ["NFD_PEERS"]).resolve() if os.environ.get("NFD_PEERS") else None


def program(tree: str, name: str) -> Path:
    """A program of a tree, built once for each state of its go.sum. Raises: BuildError."""
    folder = (sources() or Path()) / tree
    if not (folder / "go.mod").is_file():
        raise BuildError(f"{folder}: no go.mod there; put the source tree of {tree} into it")
    digest = hashlib.sha256((folder / "go.sum").read_bytes()).hexdigest()[:16]
    place = cache_root() / f"{tree}-{digest}" / name
    if not place.exists():
        build(folder, place, f"{name} of {tree}")
    return place


def build(folder: Path, place: Path, about: str) -> None:
    """Beside the final place, and renamed. GFD calls NVML from C."""
    print_line(f"building {about}: some minutes, once")
    place.parent.mkdir(parents=True, exist_ok=True)
    go, vendored = find_go(print_line), (folder / "vendor").is_dir()
    own = {"CGO_ENABLED": str(int(vendored)), "GOFLAGS": f"-mod={'vendor' if vendored else 'mod'}", "GOWORK": "off"}
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        made = Path(temporary, place.name)
        command = [go.program, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(made)]
        command.append(f"./cmd/{place.name}")
        env = os.environ | go.env | own
        answer = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise BuildError(f"go build of {about} failed: {last_line(answer.stderr)}")
        made.replace(place)
