"""Images of a release, on the base that tests use: both architectures, equal twice, and pushed with the same digest."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from release.chart import PROGRAMS
from release.errors import ReleaseError
from release.images import DIGESTS, STAND_IN, Builder, build_images, builder_for, read_digests
from release.provenance import write_sums
from release.publish import publish
from release.source import Source, unpack
from tests.compat.registries import registry
from tests.deploy import images

PINNED = f"registry.example.com/library/python@sha256:{'0' * 64}"


@pytest.fixture(scope="module")
def builder() -> Builder:
    if problem := images.obstacle():
        if os.environ.get("CI") == "true":
            pytest.fail(problem, pytrace=False)
        pytest.skip(problem)
    return builder_for(STAND_IN)


@pytest.fixture(scope="module")
def built(builder: Builder, source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`make vm` takes them all; they differ in what pip is told to install."""
    folder = tmp_path_factory.mktemp("images")
    programs = PROGRAMS if os.environ.get("NFD_VM") else ("worker",)
    build_images(builder, unpack(source, tmp_path_factory.mktemp("unpacked")), folder, programs)
    return folder


def blob(layout: tarfile.TarFile, digest: str) -> dict[str, object]:
    file = layout.extractfile(f"blobs/{digest.replace(':', '/')}")
    assert file is not None
    found: dict[str, object] = json.load(file)
    return found


def test_both_architectures_say_what_they_are(built: Path, source: Source) -> None:
    """Version and commit as labels, the commit's time, and the wheel's own version in the bill of materials."""
    for name, digest in read_digests(built).items():
        path = built / f"{name.replace(':', '-')}.oci.tar"
        with tarfile.open(path) as layout:
            index = blob(layout, digest)
            found = {one["platform"]["architecture"]: one["digest"] for one in index["manifests"]}  # type: ignore[attr-defined]
            assert found.keys() == {"amd64", "arm64"}
            for architecture, manifest in found.items():
                config = blob(layout, blob(layout, manifest)["config"]["digest"])  # type: ignore[index]
                labels = config["config"]["Labels"]  # type: ignore[index]
                assert config["architecture"] == architecture
                assert labels["org.opencontainers.image.version"] == source.version
                assert labels["org.opencontainers.image.revision"] == source.commit
        bill = json.loads((built / f"{name.replace(':', '-')}.cdx.json").read_text())
        assert {one["version"] for one in bill["components"] if one["name"] == "nfd-gfd"} == {source.wheel_version}


def test_a_registry_has_the_digest_that_was_checked(
    built: Path, made: Path, builder: Builder, source: Source, tmp_path: Path
) -> None:
    """Pushed are the files of SHA256SUMS, or nothing is."""
    for path in [*made.iterdir(), *built.iterdir()]:
        (tmp_path / path.name).hardlink_to(path)
    write_sums(tmp_path)
    with registry(tmp_path.parent / "registry", {}) as host:
        pushed = publish(tmp_path, source.version, f"{host}/team", builder, plain_http=True)
        assert f"{host}/team/nfd-worker@{read_digests(built)[f'nfd-worker:{source.version}']}" in pushed
        (tmp_path / DIGESTS).unlink()
        (tmp_path / DIGESTS).write_text("nfd-worker:1 sha256:0\n")
        with pytest.raises(ReleaseError, match="run `make release` again"):
            publish(tmp_path, source.version, f"{host}/team", builder, plain_http=True)


@pytest.mark.parametrize(
    "base", ["python:3.11-slim-bookworm", PINNED.replace("@", ":3.11@")[:-1], "python@sha256:", ""]
)
def test_a_base_without_a_digest_is_refused(base: str) -> None:
    with pytest.raises(ReleaseError, match="has no digest"):
        builder_for(base)
    assert builder_for(PINNED).base == PINNED
