"""`kubectl nfd` as krew installs it: an archive that a Python of this machine runs, named by a manifest."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from release.krew import ARCHITECTURES, build_krew, launcher
from release.provenance import NAME, digests, write_provenance, write_sums
from release.source import Source
from tests.children import ChildError, run

MACHINE = platform.machine()


@pytest.fixture(scope="module")
def plugin(source: Source, made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("krew")
    for wheel in made.glob("*.whl"):
        (folder / wheel.name).hardlink_to(wheel)
    build_krew(source, folder, "https://files.example.com/v1/", (MACHINE,))
    return folder


def test_manifest(plugin: Path, source: Source) -> None:
    """krew takes the archive whose digest the manifest has."""
    found = yaml.safe_load((plugin / "nfd.yaml").read_text())["spec"]
    (one,) = found["platforms"]
    path = plugin / f"kubectl-nfd-{source.version}-linux-{ARCHITECTURES[MACHINE]}.tar.gz"
    assert found["version"] == f"v{source.version}"
    assert one["uri"] == f"https://files.example.com/v1/{path.name}"
    assert one["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert one["selector"] == {"matchLabels": {"os": "linux", "arch": ARCHITECTURES[MACHINE]}}


def test_the_plugin_runs(plugin: Path, source: Source, tmp_path: Path) -> None:
    """Through a link, as krew makes one, and without what this environment has installed."""
    with tarfile.open(next(plugin.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path / "store", filter="data")
    link = tmp_path / "bin/kubectl-nfd"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "store/kubectl-nfd")
    env = {"PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}
    assert run([link, "--version"], env=env).stdout == f"kubectl nfd {source.wheel_version}\n"
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\nmetadata: {name: a}\nspec: {rules: []}\n"
    )
    run([link, "rules", "validate", str(rules)], env=env)


def test_without_a_python_it_says_what_it_needs(tmp_path: Path) -> None:
    """An old one does not count."""
    program = tmp_path / "kubectl-nfd"
    program.write_text(launcher())
    program.chmod(0o755)
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    for name in ("sh", "dirname", "readlink", "env"):
        (tmp_path / name).symlink_to(
            next(path for path in (Path("/bin", name), Path("/usr/bin", name)) if path.exists())
        )
    with pytest.raises(ChildError, match=r"exit status 1.*\n.*needs Python 3\.11 to 3\.13"):
        run([program, "nodes"], env={"PATH": str(tmp_path)})


def test_provenance_and_digests_name_each_file(source: Source, tmp_path: Path) -> None:
    """What sha256sum checks, and what a verifier of provenance compares; neither names itself."""
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    base = f"python@sha256:{'a' * 64}"
    write_provenance(source, tmp_path, {"version": source.version, "base": base}, "https://ci.example.com/1")
    before = (tmp_path / NAME).read_bytes()
    statement = yaml.safe_load(before)
    assert {one["name"]: one["digest"]["sha256"] for one in statement["subject"]} == {
        name: digest for name, digest in digests(tmp_path).items() if name != NAME
    }
    materials = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert materials == [
        {"name": "source", "digest": {"gitCommit": source.commit}},
        {"name": "python", "digest": {"sha256": "a" * 64}},
    ]
    assert statement["predicate"]["runDetails"]["builder"]["id"] == "https://ci.example.com/1"
    write_sums(tmp_path)
    run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, env=os.environ)
    assert len((tmp_path / "SHA256SUMS").read_text().splitlines()) == 3
