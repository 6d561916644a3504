"""Where definitions keep less than rules and their status say, or no status may be written, the log tells."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nfd.kube.client import connect
from nfd.master.rules.definitions import Definitions
from nfd.runtime import tasks
from tests.controlplane.cluster import ControlPlane
from tests.master.conftest import BOOT, Worker, send
from tests.master.custom_resources import DEFINITIONS, PCI, ROOT, Kinds, RuleMasters, rule
from tests.master.places import Cluster, until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRD = "nodefeaturerules.nfd.k8s-sigs.io"
Json = dict[str, Any]
Log = pytest.LogCaptureFixture


@pytest.fixture
async def masters(control_plane: ControlPlane) -> AsyncIterator[RuleMasters]:
    found = RuleMasters(control_plane)
    async with found.stack:
        yield found


@pytest.fixture
def name(node_name: str, control_plane: ControlPlane) -> str:
    """The only node, since counts wait for every node there is."""
    for left in control_plane.request("GET", "/api/v1/nodes")["items"]:
        control_plane.delete_node(left["metadata"]["name"])
    Cluster(control_plane).create(node_name, {}, {}, BOOT)
    return node_name


def version_of(definition: Json) -> Json:
    found: Json = definition["spec"]["versions"][0]
    return found


def without_type(definition: Json) -> None:
    """As definitions were before NFD 0.18 or so: numbers are integers."""
    spec = version_of(definition)["schema"]["openAPIV3Schema"]["properties"]["spec"]
    term = spec["properties"]["rules"]["items"]["properties"]["matchFeatures"]["items"]["properties"]
    del term["matchExpressions"]["additionalProperties"]["properties"]["type"]


def without_subresource(definition: Json) -> None:
    del version_of(definition)["subresources"]


def without_status(definition: Json) -> None:
    version_of(definition)["schema"]["openAPIV3Schema"]["properties"]["status"] = {"type": "object"}


def fields_of(caplog: Log, event: str) -> list[Json]:
    return [one.__dict__["fields"] for one in caplog.records if one.message.startswith(event)]


async def test_a_definition_that_drops_fields_is_named(control_plane: ControlPlane, kinds: Kinds, caplog: Log) -> None:
    """To a master without any right of its own, and again when a newer one has taken its place."""
    caplog.set_level("INFO", "nfd")
    kinds.uninstall("nodefeaturerules")
    kinds.install("nodefeaturerules", change=without_type)
    client = await connect(str(control_plane.kubeconfig_for(control_plane.token("bob"))))
    definitions = Definitions(client, lambda: None, every=0.2)
    task = tasks.start("definitions", definitions.run)
    try:
        await until(lambda: fields_of(caplog, "the cluster's definition is older than this master") != [])
        (fields,) = fields_of(caplog, "the cluster's definition is older than this master")
        assert fields == {
            "path": "NodeFeatureRule",
            "error": "missing: spec.rules[].matchFeatures[].matchExpressions{}.type",
        }
        newer = yaml.safe_load((ROOT / "deploy/crds/nodefeaturerules.yaml").read_text())
        version = control_plane.request("GET", f"{DEFINITIONS}/{CRD}")["metadata"]["resourceVersion"]
        newer["metadata"]["resourceVersion"] = version
        control_plane.request("PUT", f"{DEFINITIONS}/{CRD}", newer)
        await until(lambda: fields_of(caplog, "the cluster's definition keeps all fields") != [])
        assert (definitions.dropped["NodeFeatureRule"], definitions.no_status) == ((), "")
    finally:
        await tasks.cancel([task])
        await client.close()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without_subresource, "the cluster's definition has no status subresource"),
        (without_status, "the cluster's definition has no status.rules"),
    ],
)
async def test_problems_are_logged_where_the_definition_takes_no_status(
    control_plane: ControlPlane, masters: RuleMasters, kinds: Kinds, name: str, caplog: Log,
    change: Callable[[Json], None], reason: str,
) -> None:  # fmt: skip
    kinds.uninstall("nodefeaturerules")
    kinds.install("nodefeaturerules", change=change)
    try:
        await send(await masters.start(), Worker(name).report({}, features=PCI))
        await problems_are_logged(kinds, caplog, reason)
    finally:
        kinds.clear()
        kinds.uninstall("nodefeaturerules")


async def test_problems_are_logged_without_the_right_to_write_them(
    control_plane: ControlPlane, masters: RuleMasters, kinds: Kinds, name: str, caplog: Log
) -> None:
    """The rights of the base, those of statuses left out."""
    role = next(yaml.safe_load_all((ROOT / "deploy/kustomize/base/rbac.yaml").read_text()))
    rights = [one for one in role["rules"] if "nodefeaturerules/status" not in one["resources"]]
    assert len(rights) == len(role["rules"]) - 1
    control_plane.create(f"{RBAC}/clusterroles", {"metadata": {"name": "no-status"}, "rules": rights})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "no-status"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}
    binding = {"metadata": {"name": "no-status"}, "roleRef": reference, "subjects": [subject]}
    control_plane.create(f"{RBAC}/clusterrolebindings", binding)
    kubeconfig = control_plane.kubeconfig_for(control_plane.token("bob"))
    try:
        await send(await masters.start(kubeconfig=Path(kubeconfig)), Worker(name).report({}, features=PCI))
        mark = control_plane.mark()
        await problems_are_logged(kinds, caplog, "cannot patch resource")
        tries = [one.code for one in control_plane.writes(mark, "nodefeaturerules") if one.user == "bob"]
        assert tries == [403]
    finally:
        await masters.stack.aclose()
        control_plane.request("DELETE", f"{RBAC}/clusterrolebindings/no-status")
        control_plane.request("DELETE", f"{RBAC}/clusterroles/no-status")


async def test_problems_are_logged_where_nothing_is_published(
    control_plane: ControlPlane, masters: RuleMasters, kinds: Kinds, name: str, caplog: Log
) -> None:
    mark = control_plane.mark()
    await send(await masters.start(publish=False), Worker(name).report({}, features=PCI))
    await problems_are_logged(kinds, caplog, "noPublish is set")
    assert [one for one in control_plane.writes(mark, "nodefeaturerules") if one.subresource] == []


async def problems_are_logged(kinds: Kinds, caplog: Log, reason: str) -> None:
    """Each once, with its rule; those of a changed rule anew."""
    wrong = (rule(labels={"kubernetes.io/a": "b"}), rule("typo", feature="pci.devise", labels={"b": "1"}))
    expected = [
        {"rule": "untold/r", "error": "label 'kubernetes.io/a': namespace 'kubernetes.io' is not allowed"},
        {"rule": "untold/typo", "error": "feature pci.devise: no node reports it; did you mean pci.device?"},
    ]
    kinds.rules("untold", *wrong)
    await until(lambda: len(fields_of(caplog, "problem of a rule")) >= 2)
    assert fields_of(caplog, "problem of a rule") == expected
    (said,) = fields_of(caplog, "NodeFeatureRules get no status")
    assert reason in said["error"]
    kinds.edit_rules("untold", *wrong, rule("other", labels={"c": "no value!"}))
    await until(lambda: len(fields_of(caplog, "problem of a rule")) >= 5)
    last = fields_of(caplog, "problem of a rule")[2:]
    assert [*last[:2], {**last[2], "error": ""}] == [*expected, {"rule": "untold/other", "error": ""}]
    assert len(fields_of(caplog, "NodeFeatureRules get no status")) == 1
