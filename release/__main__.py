"""`python -m release VERSION [OPTION…]`: all files of a release, built twice, checked, and listed with digests."""

from __future__ import annotations

import argparse
import filecmp
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from release.chart import NAME, build_chart, check_chart
from release.errors import ReleaseError
from release.manifests import build_manifests
from release.python import build_python, install, write_bill
from release.source import Source, find_commit, notes, unpack
from tests.children import ChildError

ROOT = Path(__file__).parents[1]
SUMS = "SHA256SUMS"
NOTES = "RELEASE_NOTES.md"


def make(source: Source, into: Path, registry: str) -> None:
    """Everything, into an empty folder. Raises: ReleaseError; ChildError."""
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        again = Path(scratch, "again")
        unpacked = [unpack(source, Path(scratch, name)) for name in ("first", "second")]
        for files, folder in zip(unpacked, (into, again), strict=True):
            folder.mkdir(parents=True)
            build(files, folder, registry)
        check_chart(into / f"{NAME}-{source.version}.tgz", registry)
        python = install(unpacked[0], into, Path(scratch, "installed"))
        for files, folder in zip(unpacked, (into, again), strict=True):
            write_bill(files, python, folder)
        if unequal := differences(into, again):
            raise ReleaseError(f"built twice, these differ: {', '.join(unequal)}")
    if not registry:
        print(
            "without REGISTRY there are no rendered manifests, and the chart's users set image.registry",
            file=sys.stderr,
        )


def build(source: Source, into: Path, registry: str) -> None:
    build_python(source, into)
    build_chart(source, into, registry)
    build_manifests(source, into, registry)
    (into / NOTES).write_text(notes((source.folder / "CHANGELOG.md").read_text(), source.version))


def differences(first: Path, second: Path) -> list[str]:
    """Names of files that are not in both folders with the same bytes."""
    names = sorted({path.name for folder in (first, second) for path in folder.iterdir()})
    _, unequal, absent = filecmp.cmpfiles(first, second, names, shallow=False)
    return sorted([*unequal, *absent])


def sums(folder: Path) -> str:
    """As sha256sum writes and checks them."""
    paths = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m release", description=__doc__)
    parser.add_argument("version", help="such as 1.0.0-rc1; the files must say the same")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="folder that is emptied first (dist)")
    parser.add_argument("--registry", default="", help="where the images are, such as registry.example.com/team")
    options = parser.parse_args(words)
    try:
        source = find_commit(options.version, ROOT)
        shutil.rmtree(options.into, ignore_errors=True)
        make(source, options.into, options.registry.rstrip("/"))
    except (ReleaseError, ChildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    (options.into / SUMS).write_text(sums(options.into))
    print(f"{options.version}, commit {source.commit}, in {options.into}:")
    print((options.into / SUMS).read_text(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
