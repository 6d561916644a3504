"""The worker's image for another architecture, where no program of that architecture can run while it is made.

Debian's packages are unpacked without their scripts, Python's come as wheels for that machine; what is ours, and what
starts it, is taken from the image of this architecture, where it is the same.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.deploy.rendering import ROOT
from tests.vm.packages import CACHE, sources

SUITE, PYTHON = "bookworm", "3.11"
PACKAGES = "python-is-python3,libpython3.11-stdlib,libudev1,libstdc++6,ca-certificates,bash,coreutils,util-linux"
PLATFORMS = {"arm64": ("manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_28_aarch64")}
PLACE = f"opt/nfd/lib/python{PYTHON}/site-packages"
OURS = ("nfd", "gfd", "nfd_gfd-*.dist-info")


def tree(image: Path, arch: str) -> Path:
    """A folder with the files of the image `image` for that architecture; what does not change is kept in the cache."""
    root = CACHE / f"root-{arch}"
    if not (root / "opt/nfd").exists():
        shutil.rmtree(root, ignore_errors=True)
        unpack(root, arch)
        shutil.copytree(image / "opt/nfd/bin", root / "opt/nfd/bin", symlinks=True)
        install(root / PLACE, arch)
        shutil.copy(image / "opt/nfd/pyvenv.cfg", root / "opt/nfd/pyvenv.cfg")
        (root / "opt/nfd/lib64").symlink_to("lib")
        compile_all(root / "usr/lib", root)
    theirs = root / PLACE
    for pattern in OURS:
        for old in theirs.glob(pattern):
            shutil.rmtree(old)
        for new in (image / PLACE).glob(pattern):
            shutil.copytree(new, theirs / new.name)
    compile_all(theirs, root)
    return root


def unpack(root: Path, arch: str) -> None:
    options = ["--quiet", "--variant=extract", f"--architectures={arch}", f"--include={PACKAGES}", "--skip=check/qemu"]
    subprocess.run(["mmdebstrap", *options, SUITE, str(root), str(sources())], check=True, capture_output=True)


def install(folder: Path, arch: str) -> None:
    """The wheels of what we depend on, in the versions that were tested together."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"),
        *("--only-binary=:all:", f"--python-version={PYTHON}", f"--target={folder}"),
        *(f"--platform={platform}" for platform in PLATFORMS[arch]),
        f"--constraint={ROOT / 'constraints.txt'}",
    ]
    subprocess.run([*command, *wanted], check=True, capture_output=True)


def compile_all(folder: Path, root: Path) -> None:
    """Byte code is the same on all architectures; without it each start in the guest takes minutes."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == PYTHON:
        command = [sys.executable, "-m", "compileall", "-q", "-s", str(root), "-p", "/", str(folder)]
        subprocess.run(command, check=False, capture_output=True)  # a few files are for other versions of Python
