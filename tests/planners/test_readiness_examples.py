"""deploy/examples/readiness: Karpenter's definitions accept the NodePool, and its taint is the one that is removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nfd.master.node.conditions import types
from nfd.master.node.startup_taints import NAMESPACES, parse_startup_taint
from nfd.names import namespace_of
from nfd.rules.policy import taint_text
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.go_module import fetch_module
from tests.deploy.rendering import chart_objects
from tests.planners.test_planners_on_cluster import MODULES

EXAMPLES = Path(__file__).parents[2] / "deploy/examples/readiness"
PAGE = Path(__file__).parents[2] / "docs/readiness.md"
KARPENTER = next(name for name in MODULES if name.startswith("sigs.k8s.io/karpenter@"))
POOLS = "/apis/karpenter.sh/v1/nodepools"


def example(name: str) -> Any:
    return yaml.safe_load((EXAMPLES / name).read_text())


def texts(taints: list[dict[str, str]]) -> list[str]:
    return [taint_text(one["key"], one.get("value"), one["effect"]) for one in taints]


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    digest, (pools, _) = MODULES[KARPENTER]
    file = fetch_module(KARPENTER, digest) / pools
    control_plane.kubectl("apply", "--server-side", "-f", str(file))
    name = f"crd/{yaml.safe_load(file.read_text())['metadata']['name']}"
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", name)
    yield control_plane
    control_plane.kubectl("delete", "--wait=false", name)


def test_karpenter_accepts_the_pool(plane: ControlPlane) -> None:
    made = plane.request("POST", f"{POOLS}?fieldValidation=Strict&dryRun=All", example("karpenter-nodepool.yaml"))
    assert texts(made["spec"]["template"]["spec"]["startupTaints"]) == texts(
        example("values-karpenter.yaml")["startupTaints"]
    )


@pytest.mark.parametrize("name", ["values-karpenter.yaml", "values-cluster-autoscaler.yaml"])
def test_values_become_the_masters_flag_and_are_on_the_page(name: str) -> None:
    (text,) = texts(example(name)["startupTaints"])
    assert parse_startup_taint(text) == text
    (master,) = [each for each in chart_objects(example(name)) if each["kind"] == "Deployment"]
    assert f"--startup-taints={text}" in master["spec"]["template"]["spec"]["containers"][0]["args"]
    assert text in PAGE.read_text()


def test_rules_are_about_conditions_of_nfd_and_taints_of_the_controller() -> None:
    rules = list(yaml.safe_load_all((EXAMPLES / "node-readiness-rules.yaml").read_text()))
    assert [rule["spec"]["conditions"][0]["type"] for rule in rules] == list(types(""))
    for rule in rules:
        assert namespace_of(rule["spec"]["taint"]["key"]) == NAMESPACES[0]
        assert rule["metadata"]["name"] in PAGE.read_text()
