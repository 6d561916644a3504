"""Debian packages of any architecture as folders: fetched with apt's own checks and unpacked, never installed.

Nothing of this machine's packages changes: apt works on a state of its own in the user's cache.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.children import run_binary
from tests.controlplane.build import user_cache

CACHE = user_cache() / "nfd-vm"
SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")


def sources() -> Path | None:
    """Where this machine's apt fetches from; None on a machine that has no apt."""
    return next((path for path in map(Path, SOURCES) if path.exists()), None)


def unpack(names: Iterable[str], arch: str, folder: Path) -> None:
    """The files of these packages, but not of their dependencies, below `folder`; /bin, /lib are links into /usr."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (folder / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"usr/{name}")
    for package in fetch(names, arch):
        archive = run_binary(["dpkg-deb", "--fsys-tarfile", str(package)])
        command = ["tar", "--extract", "--keep-directory-symlink", f"--directory={folder}"]
        run_binary(command, input=archive.stdout)


def fetch(names: Iterable[str], arch: str) -> list[Path]:
    """The newest version of each package, as files in the cache."""
    place = CACHE / "packages" / arch
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    apt(arch, "download", *names, cwd=place)
    return sorted(place.glob("*.deb"))


def refresh(arch: str) -> None:
    """Ask the archive which packages there are."""
    apt(arch, "update", "-qq")


def dependencies(name: str, arch: str) -> list[str]:
    """What a package depends on, one level deep."""
    lines = apt(arch, "depends", name, program="apt-cache").splitlines()
    return [line.split()[-1] for line in lines if line.split()[0] == "Depends:"]


def apt(arch: str, *words: str, program: str = "apt-get", cwd: Path | None = None) -> str:
    """What an apt program says, for a machine of that architecture. Raises: RuntimeError with its complaint."""
    state = CACHE / "apt" / arch
    for place in ("lists/partial", "cache/archives/partial"):
        (state / place).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    options = {
        "APT::Architecture": arch,
        "APT::Architectures": arch,
        "Dir::State::Lists": state / "lists",
        "Dir::Cache": state / "cache",
        "Dir::State::status": state / "status",
        "Dir::Etc::sourcelist": sources(),
        "Dir::Etc::sourceparts": "-",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    command = [program, *(f"-o{key}={value}" for key, value in options.items()), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode:
        raise RuntimeError(f"{program} {' '.join(words)}: {done.stderr.strip()[-2000:]}")
    return done.stdout
