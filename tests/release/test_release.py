"""Wheel, sdist, chart, manifests and bill of materials, made of this tree as if it were committed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import helm_python
import pytest
import yaml

from release.__main__ import build, differences, main
from release.archives import Entry, read_tar, write_tar
from release.source import Source, unpack
from tests.compat.registries import registry
from tests.deploy.rendering import load, values_in
from tests.release.conftest import REGISTRY
from tests.release.test_source import ROOT


def test_what_is_published(source: Source, made: Path) -> None:
    wheel, version = source.wheel_version, source.version
    assert {path.name for path in made.iterdir()} == {
        "RELEASE_NOTES.md",
        f"nfd_gfd-{wheel}-py3-none-any.whl",
        f"nfd_gfd-{wheel}.cdx.json",
        f"nfd_gfd-{wheel}.tar.gz",
        f"node-feature-discovery-{version}.tgz",
        f"node-feature-discovery-{version}.yaml",
        f"node-feature-discovery-gpu-{version}.yaml",
        f"node-feature-discovery-kustomize-{version}.tar.gz",
    }


def test_nothing_depends_on_where_when_and_by_whom_it_is_built(source: Source, made: Path, tmp_path: Path) -> None:
    """In another folder, with another umask, later, and from files with another time."""
    files = unpack(source, tmp_path / "elsewhere")
    for path in files.folder.rglob("*"):
        os.utime(path, (1, 1))
    before = os.umask(0o077)
    try:
        again = tmp_path / "again"
        again.mkdir()
        build(files, again, REGISTRY)
    finally:
        os.umask(before)
    assert differences(made, again) == [f"nfd_gfd-{source.wheel_version}.cdx.json"], "of the installed wheel"


def test_bill_of_materials(source: Source, made: Path) -> None:
    """What images contain, in the same versions, and no path of the machine."""
    text = (made / f"nfd_gfd-{source.wheel_version}.cdx.json").read_text()
    found = {f"{one['name'].lower()}=={one['version']}" for one in yaml.safe_load(text)["components"]}
    locked = {line.split()[0] for line in (ROOT / "requirements/master.txt").read_text().splitlines() if "==" in line}
    assert found - {f"nfd-gfd=={source.wheel_version}"} == locked
    assert "file:" not in text
    assert str(made.parent) not in text


def test_sdist_and_wheel_have_our_files_and_no_tests(source: Source, made: Path) -> None:
    names = read_tar(made / f"nfd_gfd-{source.wheel_version}.tar.gz").keys()
    folder = f"nfd_gfd-{source.wheel_version}"
    assert {f"{folder}/{name}" for name in ("LICENSE", "CHANGELOG.md", "requirements/master.txt")} <= names
    assert {f"{folder}/{path.relative_to(source.folder)}" for path in (source.folder / "nfd").rglob("*.py")} <= names
    assert [name for name in names if name.split("/")[1] in ("tests", "bench", "release", "docs")] == []


def test_manifests_name_the_images_of_the_release(source: Source, made: Path) -> None:
    for path in made.glob("*.yaml"):
        objects = load(path.read_text())
        images = {value for each in objects for key, value in values_in(each) if key.endswith(".image")}
        assert images
        assert all(image.startswith(f"{REGISTRY}/nfd-") and image.endswith(f":{source.version}") for image in images)


def test_a_registry_takes_the_chart_and_gives_it_back(source: Source, made: Path, tmp_path: Path) -> None:
    """With README, icon, schema and annotations; its images are the release's without any value set."""
    path = made / f"node-feature-discovery-{source.version}.tgz"
    with registry(tmp_path / "registry", {}) as host:
        helm_python.push(path, f"oci://{host}/charts", plain_http=True)
        helm_python.pull(
            f"oci://{host}/charts/node-feature-discovery",
            version=source.version,
            destination=tmp_path,
            plain_http=True,
        )
    assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    with helm_python.Chart.load(path) as chart:
        about = chart.metadata
        assert (about["version"], about["appVersion"]) == (source.version, source.version)
        assert about["icon"].startswith("data:image/svg+xml;base64,")
        listed = yaml.safe_load(about["annotations"]["artifacthub.io/images"])
        text = "".join(chart.render({"gpu": {"mode": "daemonset"}}, name="nfd").values())
    for name in ("worker", "master", "gfd"):
        image = f"{REGISTRY}/nfd-{name}:{source.version}"
        assert {"name": f"nfd-{name}", "image": image} in listed
        assert f'image: "{image}"' in text or f"image: {image}" in text


def test_archives_say_nothing_of_the_machine(tmp_path: Path) -> None:
    entries = {"b": Entry(b"2", True), "a/é": Entry(b"1")}
    first = write_tar(tmp_path / "first.tar.gz", entries, 1_000_000_000).read_bytes()
    second = write_tar(tmp_path / "other/second.tar.gz", dict(reversed(entries.items())), 1_000_000_000).read_bytes()
    assert hashlib.sha256(first).digest() == hashlib.sha256(second).digest()
    assert read_tar(tmp_path / "first.tar.gz") == entries


def test_differences(tmp_path: Path) -> None:
    """A file that is not there the second time counts too."""
    for folder, files in {"a": {"same": "1", "other": "1", "gone": "1"}, "b": {"same": "1", "other": "2"}}.items():
        (tmp_path / folder).mkdir()
        for name, text in files.items():
            (tmp_path / folder / name).write_text(text)
    assert differences(tmp_path / "a", tmp_path / "b") == ["gone", "other"]


def test_a_mistake_is_one_line_and_empties_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kept").touch()
    assert main(["v1", f"--into={tmp_path}"]) == 1
    assert capsys.readouterr().err == "error: 'v1' is not a version: write it as 1.2.3 or 1.2.3-rc1, without a v\n"
    assert (tmp_path / "kept").exists()
