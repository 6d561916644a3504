"""Where the version is written and how; `make version`, which is `python -m release.version VERSION`, writes it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml
from packaging.version import Version

from release.errors import ReleaseError

CHART = Path("deploy/helm/node-feature-discovery")
SAMPLE = "deploy/kustomize/overlays/registry/kustomization.yaml"
_SEMVER = re.compile(r"\d+\.\d+\.\d+(-(a|b|rc)\d+)?")
"""What both Semantic Versioning 2 (charts, images, tags) and PEP 440 (wheels) can say."""
_PYTHON_VERSION = re.compile(r'^__version__ = "(.*)"$', re.M)
_CHART_VERSION = re.compile(r"^(version|appVersion): (.*)$", re.M)
_TAG = re.compile(r"^( +newTag): .*$", re.M)


def check_version(version: str) -> None:
    """Raises: ReleaseError."""
    if not _SEMVER.fullmatch(version):
        raise ReleaseError(f"{version!r} is not a version: write it as 1.2.3 or 1.2.3-rc1, without a v")


def versions(folder: Path) -> dict[str, str]:
    """Where the version is written, and as what."""
    chart = yaml.safe_load((folder / CHART / "Chart.yaml").read_text())
    found = _PYTHON_VERSION.search((folder / "nfd/__init__.py").read_text())
    return {"nfd/__init__.py": found[1] if found else "", **{key: str(chart[key]) for key in ("version", "appVersion")}}


def write_version(version: str, folder: Path) -> None:
    """In all places where it is written. Raises: ReleaseError."""
    check_version(version)
    program, chart = folder / "nfd/__init__.py", folder / CHART / "Chart.yaml"
    program.write_text(_PYTHON_VERSION.sub(f'__version__ = "{Version(version)}"', program.read_text()))
    chart.write_text(_CHART_VERSION.sub(rf"\1: {version}", chart.read_text()))
    sample = folder / SAMPLE
    sample.write_text(_TAG.sub(rf"\1: {version}", sample.read_text()))


if __name__ == "__main__":
    try:
        write_version(" ".join(sys.argv[1:]), Path(__file__).parents[1])
    except ReleaseError as error:
        raise SystemExit(f"error: {error}") from None
