"""`python -m release VERSION [OPTION…]`: all files of a release, built twice, checked, and listed with digests."""

from __future__ import annotations

import argparse
import filecmp
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from release.chart import NAME, PROGRAMS, build_chart, check_chart
from release.errors import ReleaseError
from release.images import build_images, builder_for
from release.krew import build_krew
from release.lock import MACHINES
from release.manifests import build_manifests
from release.provenance import sign, write_provenance, write_sums
from release.python import build_python, install, write_bill
from release.source import Source, find_commit, notes, unpack
from tests.children import ChildError

ROOT = Path(__file__).parents[1]
NOTES = "RELEASE_NOTES.md"


@dataclass(frozen=True)
class Parameters:
    """`registry` is where the images are, `base` what they are built on, `url` where the files of a release are."""

    registry: str = ""
    base: str = ""
    url: str = ""


def make(source: Source, into: Path, parameters: Parameters) -> None:
    """Everything but provenance and digests, into an empty folder. Raises: ReleaseError; ChildError."""
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        files = unpack(source, Path(scratch, "images"))
        make_twice(source, into, parameters.registry)
        build_krew(files, into, parameters.url, MACHINES)
        if parameters.base:
            build_images(builder_for(parameters.base), files, into, PROGRAMS)


def make_twice(source: Source, into: Path, registry: str) -> None:
    """Wheel, sdist, chart, manifests and bill of materials, equal both times. Raises: ReleaseError; ChildError."""
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


def build(source: Source, into: Path, registry: str) -> None:
    """What is built twice."""
    build_python(source, into)
    build_chart(source, into, registry)
    build_manifests(source, into, registry)
    (into / NOTES).write_text(notes((source.folder / "CHANGELOG.md").read_text(), source.version))


def differences(first: Path, second: Path) -> list[str]:
    """Names of files that are not in both folders with the same bytes."""
    names = sorted({path.name for folder in (first, second) for path in folder.iterdir()})
    _, unequal, absent = filecmp.cmpfiles(first, second, names, shallow=False)
    return sorted([*unequal, *absent])


def left_out(parameters: Parameters) -> list[str]:
    """What a release lacks for want of a parameter, and which."""
    found = []
    if not parameters.registry:
        found.append("without REGISTRY there are no rendered manifests, and the chart's users set image.registry")
    if not parameters.base:
        found.append("without PYTHON_IMAGE, a base with its digest, there are no images")
    if not parameters.url:
        found.append("without RELEASE_URL, nfd.yaml is for `kubectl krew install --manifest=nfd.yaml --archive=FILE`")
    return found


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m release", description=__doc__)
    parser.add_argument("version", help="such as 1.0.0-rc1; the files must say the same")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="folder that is emptied first (dist)")
    parser.add_argument("--registry", default="", help="where the images are, such as registry.example.com/team")
    parser.add_argument("--base", default="", help="of the images: NAME@sha256:DIGEST, or `stand-in` for a trial")
    parser.add_argument("--url", default="", help="where the files will be published, for krew's manifest")
    parser.add_argument("--cosign-key", default="", help="signs SHA256SUMS: a file, env://NAME or a key service")
    parser.add_argument("--builder", default="", help="URI of who builds, for the provenance")
    options = parser.parse_args(words)
    parameters = Parameters(options.registry.rstrip("/"), options.base, options.url)
    try:
        source = find_commit(options.version, ROOT)
        if parameters.base:
            builder_for(parameters.base)
        shutil.rmtree(options.into, ignore_errors=True)
        make(source, options.into, parameters)
        write_provenance(source, options.into, asdict(parameters) | {"version": source.version}, options.builder)
        text = write_sums(options.into)
        if options.cosign_key:
            sign(options.into, options.cosign_key)
    except (ReleaseError, ChildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.version}, commit {source.commit}, in {options.into}:")
    print(text, end="")
    print(*left_out(parameters), sep="\n", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
