"""The images, built from the Dockerfiles by buildah on a stand-in for python:slim: Debian with Python and nothing else.

Layers are kept in the user's cache, so that a run after a change of our own code installs nothing anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.build import locked, print_line
from tests.deploy.rendering import ROOT
from tests.deploy.seccomp import PROFILE

PROGRAMS = ("buildah", "mmdebstrap", "runc")
"""Each is a Debian package of the same name."""
PACKAGES = "python3-venv,python-is-python3,ca-certificates"
SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
CERTIFICATES = "/etc/ssl/certs"
Config = dict[str, Any]


def obstacle() -> str:
    """Why no image can be built or run here; "" if one can."""
    if absent := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"images are built and run with {', '.join(PROGRAMS)}: apt-get install {' '.join(absent)}"
    if os.geteuid():
        return "images are built and run by root alone"
    if not PROFILE.exists():
        return f"pods are run with the profile {PROFILE}: apt-get install golang-github-containers-common"
    return "" if any(map(os.path.exists, SOURCES)) else "images are built on Debian, whose apt sources are not here"


@dataclass(frozen=True)
class Images:
    """A storage of images in a folder of ours."""

    folder: Path

    def buildah(self, *words: str) -> str:
        """What buildah prints. Raises: RuntimeError with the end of what it complained about."""
        places = (f"--root={self.folder / 'storage'}", f"--runroot={self.folder / 'run'}")
        done = subprocess.run(["buildah", *places, *words], capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode:
            raise RuntimeError(f"buildah {' '.join(words)}: {(done.stdout + done.stderr)[-3000:]}")
        return done.stdout.strip()

    def build(self, program: str) -> str:
        """The name of the image of a program, up to date."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / "lock", print_line):
            command = (
                "build",
                "--isolation=chroot",
                "--network=host",
                "--layers",
                f"--volume={CERTIFICATES}:{CERTIFICATES}:ro",
                f"--build-arg=PYTHON_IMAGE={self.base()}",
                f"--file=Dockerfile.{program.removeprefix('nfd-')}",
            )
            self.buildah(*command, "--target=build", f"--tag={program}-build", ".")
            self.buildah(*command, f"--tag={program}", ".")
            self.buildah("rmi", "--prune", "--force")  # layers of older builds, which have no name any more
        return f"localhost/{program}"

    def base(self) -> str:
        """The stand-in: this machine's Debian, fetched once."""
        suite = _os_release()["VERSION_CODENAME"]
        name = f"localhost/python:{suite}"
        if self.buildah("images", "--quiet", "--filter", f"reference={name}"):
            return name
        archive = self.folder / "base.tar"
        sources = [path for path in SOURCES if Path(path).exists()][:1]
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", suite, str(archive), *sources]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-3000:]}")
        container = self.buildah("from", "scratch")
        self.buildah("add", container, str(archive), "/")
        self.buildah("config", "--env=PATH=/usr/local/bin:/usr/bin:/bin", container)
        self.buildah("commit", "--rm", container, name)
        archive.unlink()
        return name

    def config(self, image: str) -> Config:
        """User, Env and Entrypoint."""
        found: Config = json.loads(self.buildah("inspect", "--type=image", image))["OCIv1"]["config"]
        return found

    @contextmanager
    def mounted(self, image: str) -> Iterator[Path]:
        """The files of a fresh container of the image; what is written there is lost."""
        container = self.buildah("from", "--pull-never", image)
        try:
            yield Path(self.buildah("mount", container))
        finally:
            self.buildah("rm", container)


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(Path(place, name).lstat().st_size for place, _, names in os.walk(folder) for name in names)


def _os_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}
