"""`kubectl nfd` for krew: an archive for each architecture, and the manifest that names them.

An archive has all that the program imports, for every Python it runs on: the parts in C of each Python have its version
in their names, so that they stand side by side. Source: krew documentation, "Developing Plugins", "Plugin Manifest".
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePath

import yaml

from release.archives import Entry, read_folder, write_tar
from release.errors import ReleaseError
from release.lock import MACHINES, PYTHONS, TAGS
from release.python import NAME as WHEEL
from release.python import PIP
from release.source import Source
from tests.children import run

ARCHITECTURES = dict(zip(MACHINES, ("amd64", "arm64"), strict=True))
UNUSED = ("kubernetes/client/api/", "kubernetes/test/", "kubernetes/docs/", "bin/")
"""What the images leave out too."""
LAUNCHER = """#!/bin/sh
# Runs nfd with a Python of this machine, and with what lies beside this file.
here=$(dirname "$(readlink -f "$0")")
for python in python{pythons} python3; do
    if "$python" -c 'import sys; sys.exit(not {least} <= sys.version_info[:2] <= {most})' 2>/dev/null; then
        exec env PYTHONPATH="$here/lib" PYTHONDONTWRITEBYTECODE=1 "$python" -c \\
            'import sys; sys.argv[0] = "kubectl-nfd"; from nfd.cli import main; sys.exit(main())' "$@"
    fi
done
echo "kubectl nfd needs Python {first} to {last} as python3" >&2
exit 1
"""


def launcher() -> str:
    numbers = [tuple(map(int, one.split("."))) for one in PYTHONS]
    names = " python".join(reversed(PYTHONS))
    return LAUNCHER.format(pythons=names, least=numbers[0], most=numbers[-1], first=PYTHONS[0], last=PYTHONS[-1])


def build_krew(source: Source, into: Path, url: str, machines: Sequence[str]) -> None:
    """`kubectl-nfd-VERSION-linux-ARCH.tar.gz` and `nfd.yaml`. Below `url` the files of a release are published."""
    platforms = []
    for machine in machines:
        architecture = ARCHITECTURES[machine]
        path = into / f"kubectl-nfd-{source.version}-linux-{architecture}.tar.gz"
        files = library(source, into, machine)
        files["kubectl-nfd"] = Entry(launcher().encode(), executable=True)
        files["LICENSE"] = Entry((source.folder / "LICENSE").read_bytes())
        write_tar(path, files, source.epoch)
        platforms.append(about(path, architecture, url))
    (into / "nfd.yaml").write_text(yaml.safe_dump(manifest(source, platforms), sort_keys=False))


def about(path: Path, architecture: str, url: str) -> dict[str, object]:
    """Without a URL the archive is named as a file, for `kubectl krew install --manifest=nfd.yaml --archive=…`."""
    return {
        "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
        "uri": f"{url.rstrip('/')}/{path.name}" if url else path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "bin": "kubectl-nfd",
    }


def manifest(source: Source, platforms: list[dict[str, object]]) -> dict[str, object]:
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "nfd"},
        "spec": {
            "version": f"v{source.version}",
            "shortDescription": "Show what nodes are: GPUs, kernels, labels and why",
            "description": "Shows nodes, GPUs and labels that node feature discovery finds, explains each label, and\n"
            "validates and tries rules before they are applied. It needs Python 3.11 or newer.\n",
            "platforms": platforms,
        },
    }


def library(source: Source, wheels: Path, machine: str) -> dict[str, Entry]:
    """What is installed for any of PYTHONS. Raises: ReleaseError if a module differs between them."""
    found: dict[str, Entry] = {}
    for python in PYTHONS:
        with tempfile.TemporaryDirectory() as folder:
            install(source, wheels, machine, python, Path(folder))
            files = read_folder(Path(folder), "lib/")
        kept = {name: one for name, one in files.items() if is_kept(name)}
        if unequal := [name for name, one in kept.items() if name in found and found[name].data != one.data]:
            raise ReleaseError(f"for Python {python} these files differ: {', '.join(unequal)}")
        found |= kept
    return found


def is_kept(name: str) -> bool:
    """Whether a program imports or reads it. What pip notes of a wheel differs between the Pythons."""
    path = PurePath(name.removeprefix("lib/"))
    noted = path.parent.name.endswith(".dist-info") and path.name in ("RECORD", "WHEEL")
    return not str(path).startswith(UNUSED) and path.suffix != ".pyc" and not noted and "sboms" not in path.parts


def install(source: Source, wheels: Path, machine: str, python: str, folder: Path) -> None:
    """The wheel and the locked dependencies, as if on another machine."""
    command = [*PIP, "install", f"--target={folder}", "--no-compile", "--only-binary=:all:"]
    command += [f"--python-version={python}", "--implementation=cp", *(f"--platform={tag}_{machine}" for tag in TAGS)]
    run([*command, "--require-hashes", f"--requirement={source.folder / 'requirements/master.txt'}"])
    command += ["--no-deps", "--no-index", f"--find-links={wheels}", "--upgrade"]
    run([*command, f"{WHEEL}=={source.wheel_version}"])
