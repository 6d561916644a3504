"""The Helm chart as an archive, with the registry of its images."""

from __future__ import annotations

import json
import re
from pathlib import Path

import helm_python
from packaging.version import Version

from release.archives import Entry, read_folder, write_tar
from release.errors import ReleaseError
from release.source import Source

NAME = "node-feature-discovery"
PROGRAMS = ("worker", "master", "gfd")
_REGISTRY = re.compile(r'^(image:\n(?:[ ].*\n)*?[ ]+registry: )""$', re.M)
_WARNING = 2
"""Helm's severity."""


def build_chart(source: Source, into: Path, registry: str) -> None:
    """`NAME-VERSION.tgz`: what `helm push` sends, and `helm install` takes. `registry` is that of the images, or ""."""
    files = read_folder(source.chart, f"{NAME}/")
    about = files[f"{NAME}/Chart.yaml"].data.decode().rstrip("\n") + "\n" + added_annotations(source.version, registry)
    files[f"{NAME}/Chart.yaml"] = Entry(about.encode())
    if registry:
        values, count = _REGISTRY.subn(rf'\g<1>"{registry}"', files[f"{NAME}/values.yaml"].data.decode())
        if count != 1:
            raise ReleaseError('values.yaml has no line `registry: ""` below `image:`')
        files[f"{NAME}/values.yaml"] = Entry(values.encode())
    write_tar(into / f"{NAME}-{source.version}.tgz", files, source.epoch)


def added_annotations(version: str, registry: str) -> str:
    """Lines that end Chart.yaml's annotations: whether it is a pre-release, and the images where they have a registry.

    Source: Artifact Hub, "Helm annotations in Chart.yaml file".
    """
    lines = [f'  artifacthub.io/prerelease: "{str(Version(version).is_prerelease).lower()}"\n']
    if registry:
        lines.append("  artifacthub.io/images: |\n")
        lines += [f"    - name: nfd-{name}\n      image: {registry}/nfd-{name}:{version}\n" for name in PROGRAMS]
    return "".join(lines)


def check_chart(path: Path, registry: str) -> None:
    """`helm lint --strict` of an archive, and what it renders to. Raises: ReleaseError."""
    report = helm_python.lint(path, strict=True)
    if serious := [one for one in report["messages"] if one["severity"] >= _WARNING] + report["errors"]:
        raise ReleaseError(f"helm lint --strict {path.name}: {json.dumps(serious)}")
    with helm_python.Chart.load(path) as chart:
        names = {file["name"] for file in chart.files}
        if absent := {"README.md"} - names:
            raise ReleaseError(f"{path.name} has no {', '.join(absent)}")
        if not chart.schema or not chart.metadata.get("icon") or not chart.metadata.get("annotations"):
            raise ReleaseError(f"{path.name} has no schema, no icon or no annotations")
        values = None if registry else {"image": {"registry": "registry.example.com"}}
        chart.validate_schema(values)
        if not chart.render(values, name="nfd", namespace=NAME):
            raise ReleaseError(f"{path.name} renders to nothing")
