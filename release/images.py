"""Images of the three programs for amd64 and arm64, built by buildah from the Dockerfiles."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from release.archives import write_layout
from release.errors import ReleaseError
from release.source import Source
from tests.children import run
from tests.controlplane.build import user_cache
from tests.deploy.images import CERTIFICATES, Images

ARCHITECTURES = ("amd64", "arm64")
OWN = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
STAND_IN = "stand-in"
"""As a base: Debian as the tests of images use it, for a trial where the real one cannot be pulled."""
DIGESTS = "image-digests.txt"
_PINNED = re.compile(r".+@sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Builder:
    """Where buildah keeps images, on which base it builds, and what else it has to be told for that."""

    places: tuple[str, ...]
    base: str
    extra: tuple[str, ...] = ()

    def buildah(self, *words: str) -> str:
        """What buildah prints. Raises: ChildError."""
        return run(["buildah", *self.places, *words]).stdout.strip()


def builder_for(base: str) -> Builder:
    """On a base that is named by its digest, or on STAND_IN. Raises: ReleaseError."""
    if base == STAND_IN:
        images = Images(user_cache() / "nfd-images")
        extra = (f"--volume={CERTIFICATES}:{CERTIFICATES}:ro", "--network=host")
        return Builder(
            (f"--root={images.folder / 'storage'}", f"--runroot={images.folder / 'run'}"), images.bases(), extra
        )
    if not _PINNED.fullmatch(base):
        raise ReleaseError(
            f"PYTHON_IMAGE={base} has no digest: write it as NAME@sha256:… of the index for both architectures"
        )
    return Builder((), base)


def name_of(program: str, version: str) -> str:
    """Of the index for both architectures, in buildah's storage."""
    return f"localhost/nfd-{program}:{version}"


def build_images(builder: Builder, source: Source, into: Path, programs: Sequence[str]) -> None:
    """For each program an OCI layout with an index of both architectures, in a tar file, and its bill of
    materials. DIGESTS has the digests of the indexes.

    Raises: ReleaseError if a program of an image does not start or has another version; ChildError.
    """
    for program in programs:
        name = name_of(program, source.version)
        if builder.buildah("images", "--quiet", "--filter", f"reference={name}"):
            builder.buildah("manifest", "rm", name)
        builder.buildah("manifest", "create", name)
        for architecture in ARCHITECTURES:
            build_image(builder, source, program, architecture)
        check_index(builder, name)
        bill = check_program(builder, source, program)
        (into / f"nfd-{program}-{source.version}.cdx.json").write_text(bill + "\n")
        folder = into / f"nfd-{program}"
        builder.buildah("manifest", "push", "--all", "--format=oci", name, f"oci:{folder}:{source.version}")
        with (into / DIGESTS).open("a") as digests:
            digests.write(f"nfd-{program}:{source.version} {digest_of(folder)}\n")
        write_layout(into / f"nfd-{program}-{source.version}.oci.tar", folder, source.epoch)


def digest_of(layout: Path) -> str:
    """Of the only index in an OCI layout, as registries name it.

    Source: OCI image layout specification, "index.json File".
    """
    (index,) = json.loads((layout / "index.json").read_text())["manifests"]
    return str(index["digest"])


def read_digests(folder: Path) -> dict[str, str]:
    """By NAME:VERSION, what `build_images` wrote."""
    return dict(line.split() for line in (folder / DIGESTS).read_text().splitlines())


def build_image(builder: Builder, source: Source, program: str, architecture: str) -> None:
    """One of the images of an index; files and layers have the commit's time."""
    command = [
        "build",
        "--isolation=chroot",
        "--layers",
        "--format=oci",
        f"--platform=linux/{architecture}",
        f"--timestamp={source.epoch}",
        f"--build-arg=BUILDPLATFORM=linux/{OWN}",
        f"--build-arg=PYTHON_IMAGE={builder.base}",
        f"--build-arg=SOURCE_DATE_EPOCH={source.epoch}",
        f"--label=org.opencontainers.image.version={source.version}",
        f"--label=org.opencontainers.image.revision={source.commit}",
        f"--manifest={name_of(program, source.version)}",
        f"--file={source.folder / f'Dockerfile.{program}'}",
    ]
    builder.buildah(*command, *builder.extra, str(source.folder))


def check_index(builder: Builder, name: str) -> None:
    """Raises: ReleaseError unless it has one image for each architecture."""
    index = json.loads(builder.buildah("manifest", "inspect", name))
    found = sorted(one["platform"]["architecture"] for one in index["manifests"])
    if found != sorted(ARCHITECTURES):
        raise ReleaseError(f"{name} has images for {', '.join(found)}")


def check_program(builder: Builder, source: Source, program: str) -> str:
    """Run the program of this machine's architecture. Returns: the bill of materials. Raises: ReleaseError."""
    with container(builder, f"{name_of(program, source.version)}") as name:
        entrypoint = builder.buildah(
            "inspect", "--type=container", "--format={{index .OCIv1.Config.Entrypoint 0}}", name
        )
        run_there = ("run", "--isolation=chroot", name, "--")
        said = builder.buildah(*run_there, entrypoint, "--version")
        bill = builder.buildah(*run_there, "cat", "/opt/nfd/sbom.cdx.json")
    if source.wheel_version not in said:
        raise ReleaseError(f"{entrypoint} of nfd-{program} says {said!r}")
    return bill


@contextmanager
def container(builder: Builder, image: str) -> Iterator[str]:
    """A container of an image, for a while."""
    name = builder.buildah("from", "--pull-never", f"--arch={OWN}", image)
    try:
        yield name
    finally:
        builder.buildah("rm", name)
