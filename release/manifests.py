"""What `kubectl apply` takes: the manifests for kustomize, and with a registry also rendered ones."""

from __future__ import annotations

from pathlib import Path

import yaml

from release.archives import read_folder, write_tar
from release.chart import NAME, PROGRAMS
from release.source import Source
from tests.deploy.rendering import kustomized

RENDERED = {"default": NAME, "gpu": f"{NAME}-gpu"}
"""Overlays that are also published as one file, and its name."""


def build_manifests(source: Source, into: Path, registry: str) -> None:
    """`NAME-kustomize-VERSION.tar.gz`. With the images' registry also two rendered overlays, `NAME…-VERSION.yaml`."""
    folder = f"{NAME}-{source.version}"
    files = read_folder(source.folder / "deploy/kustomize", f"{folder}/kustomize/")
    files |= read_folder(source.folder / "deploy/crds", f"{folder}/crds/")
    files |= read_folder(source.folder / "deploy/examples", f"{folder}/examples/")
    write_tar(into / f"{NAME}-kustomize-{source.version}.tar.gz", files, source.epoch)
    for overlay, name in RENDERED.items() if registry else ():
        (into / f"{name}-{source.version}.yaml").write_text(render(source, overlay, registry))


def render(source: Source, overlay: str, registry: str) -> str:
    """An overlay with the images of this version."""
    folder = source.folder / "deploy/kustomize" / f"release-{overlay}"
    folder.mkdir()
    images = [
        {"name": f"nfd-{name}", "newName": f"{registry}/nfd-{name}", "newTag": source.version} for name in PROGRAMS
    ]
    resources = [f"../overlays/{overlay}"]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": resources, "images": images}))
    return kustomized(folder)
