"""The images, built from the Dockerfiles by buildah on a stand-in for python:slim: Debian with Python and nothing else.

Those of another architecture too, without emulation: on a stand-in whose packages were unpacked and not set up. Layers
are kept in the user's cache, so that a run after a change of our own code installs nothing anew.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tempfile
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
OWN = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
FOREIGN = "amd64" if OWN == "arm64" else "arm64"
UNPACKED = (
    "--variant=extract",
    f"--architectures={FOREIGN}",
    "--skip=check/qemu",
    "--hook-dir=/usr/share/mmdebstrap/hooks/maybe-merged-usr",
    "--include=python-is-python3,libpython3-stdlib,libudev1,libstdc++6,bash,coreutils,util-linux",
)
"""Of the other architecture, where nothing can be set up: what python:slim has of what our programs need."""
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

    def build(self, program: str, arch: str = OWN) -> str:
        """The name of the image of a program, up to date."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = name_of(program, arch)
        with locked(self.folder / "lock", print_line):
            command = (
                "build",
                "--isolation=chroot",
                "--network=host",
                "--layers",
                f"--platform=linux/{arch}",
                f"--volume={CERTIFICATES}:{CERTIFICATES}:ro",
                f"--build-arg=BUILDPLATFORM=linux/{OWN}",  # which buildah 1.28 does not know
                f"--build-arg=PYTHON_IMAGE={self.base() if arch == OWN else self.bases()}",
                f"--file=Dockerfile.{program.removeprefix('nfd-')}",
            )
            self.buildah(*command, "--target=build", f"--tag={name}-build", ".")
            self.buildah(*command, f"--tag={name}", ".")
            self.buildah("rmi", "--prune", "--force")  # layers of older builds, which have no name any more
        return name

    def base(self) -> str:
        """The stand-in: this machine's Debian, fetched once."""
        name = f"localhost/python:{suite()}"
        if not self.has(name):
            with self.debian("--variant=minbase", f"--include={PACKAGES}") as root:
                self.commit(root, name, OWN)
        return name

    def bases(self) -> str:
        """The stand-ins of both architectures under one name, as Docker Hub has python:slim."""
        own, other = self.base(), f"localhost/python-{FOREIGN}:{suite()}"
        if not self.has(other):
            with self.debian(*UNPACKED) as root:
                self.commit(root, other, FOREIGN)
        name = f"localhost/python-both:{self.number(own)}-{self.number(other)}"
        if not self.has(name):
            self.buildah("manifest", "create", name, own, other)
        return name

    @contextmanager
    def debian(self, *options: str) -> Iterator[Path]:
        """Files of Debian's packages, for a while. Raises: RuntimeError with the end of mmdebstrap's complaint."""
        sources = [path for path in SOURCES if Path(path).exists()][:1]
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            command = ["mmdebstrap", "--quiet", *options, suite(), f"{folder}/root", *sources]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}: {done.stderr[-3000:]}")
            yield Path(folder, "root")

    def commit(self, root: Path, name: str, arch: str) -> None:
        """An image of these files."""
        container = self.buildah("from", "scratch")
        self.buildah("add", container, str(root), "/")
        self.buildah("config", f"--arch={arch}", "--env=PATH=/usr/local/bin:/usr/bin:/bin", container)
        self.buildah("commit", "--rm", container, name)

    def has(self, name: str) -> bool:
        return bool(self.buildah("images", "--quiet", "--filter", f"reference={name}"))

    def number(self, name: str) -> str:
        """The first of its digits."""
        return self.buildah("images", "--quiet", "--no-trunc", name).removeprefix("sha256:")[:16]

    def config(self, image: str) -> Config:
        """User, Env and Entrypoint."""
        found: Config = self.inspect(image)["config"]
        return found

    def inspect(self, image: str) -> dict[str, Any]:
        """The image as the OCI's image specification has it: architecture, config, rootfs."""
        found: dict[str, Any] = json.loads(self.buildah("inspect", "--type=image", image))["OCIv1"]
        return found

    @contextmanager
    def mounted(self, image: str) -> Iterator[Path]:
        """The files of a fresh container of the image; what is written there is lost."""
        container = self.buildah("from", "--pull-never", image)
        try:
            yield Path(self.buildah("mount", container))
        finally:
            self.buildah("rm", container)


def name_of(program: str, arch: str = OWN) -> str:
    return f"localhost/{program}" if arch == OWN else f"localhost/{program}-{arch}"


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(Path(place, name).lstat().st_size for place, _, names in os.walk(folder) for name in names)


def suite() -> str:
    """This machine's Debian, by its name."""
    return platform.freedesktop_os_release()["VERSION_CODENAME"]
