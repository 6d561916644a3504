"""What no report can put on a node, and which source may write where."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nfd.master.config import Config
from nfd.master.node.desired import derive_desired
from nfd.report import Report
from nfd.rules.policy import Policy
from nfd.store.base import Kind

F = "feature.node.kubernetes.io/"

STEERING = (
    "node-role.kubernetes.io/control-plane",
    "kubernetes.io/hostname",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "node-restriction.kubernetes.io/team",
    "beta.kubernetes.io/os",
    "nfd.node.kubernetes.io/feature-labels",
    "kubernetes.io/taint",
    "evil.kubernetes.io/x",
    "feature.node.kubernetes.io.kubernetes.io/x",
    "node-role.kubernetes.io/control-plane\n",
    "\x00node-role.kubernetes.io/x",
    "KUBERNETES.IO/hostname",
    "/kubernetes.io",
    "kubernetes.io/",
    "a/b/c",
)


@pytest.mark.parametrize("key", STEERING)
def test_keys_that_steer_are_dropped_by_themselves(key: str) -> None:
    """As labels and as annotations; the others of the report come through."""
    wanted = {key: "true", F + "cpu-a": "1"}
    desired = derive_desired(Report("n1", labels=wanted, annotations=wanted), Policy(enable_taints=True))
    assert desired.of(Kind.LABELS) == {F + "cpu-a": "1"}
    assert desired.of(Kind.ANNOTATIONS) == {F + "cpu-a": "1"}
    assert desired.of(Kind.TAINTS) == {}
    assert desired.of(Kind.RESOURCES) == {}
    assert {one.key for one in desired.dropped} == {key}


@pytest.mark.parametrize("value", ["a\nb", "\x1b[31m", "x" * 64, "é", "a b", "-", "\x00"])
def test_values_that_no_label_has(value: str) -> None:
    desired = derive_desired(Report("n1", labels={"vendor.io/x": value}), Policy())
    (dropped,) = desired.dropped
    assert desired.of(Kind.LABELS) == {}
    assert "\n" not in dropped.reason
    assert "\x1b" not in dropped.reason


LIMITS = {"local": ("vendor.io", "*.vendor.io"), "*": ("feature.node.kubernetes.io", "nvidia.com")}

SOURCES = (
    ({"vendor.io/a": "local", "x.vendor.io/a": "local"}, {"vendor.io/a", "x.vendor.io/a"}),
    ({"vendor.io.evil/a": "local", F + "a": "local", "evilvendor.io/a": "local"}, set()),
    ({F + "a": "cpu", "nvidia.com/a": "nvidia", "vendor.io/a": "cpu"}, {F + "a", "nvidia.com/a"}),
    ({F + "a": None, "vendor.io/a": None}, {F + "a"}),
    ({"a": "cpu", "b": "local"}, {F + "a"}),
)


@pytest.mark.parametrize(("origins", "kept"), SOURCES)
def test_sources_write_where_they_may(origins: Mapping[str, str | None], kept: set[str]) -> None:
    told = {key: origin for key, origin in origins.items() if origin}
    report = Report("n1", labels=dict.fromkeys(origins, "1"), annotations=dict.fromkeys(origins, "1"), origins=told)
    desired = derive_desired(report, Policy(source_namespaces=LIMITS))
    assert desired.of(Kind.LABELS).keys() == kept
    assert desired.of(Kind.ANNOTATIONS).keys() == kept
    assert {one.reason.split()[0] for one in desired.dropped} <= {"source"}
    free = derive_desired(report, Policy(source_namespaces={"usb": ()}))
    assert len(free.of(Kind.LABELS)) == len(origins)


def test_option_reaches_the_policy() -> None:
    config = Config.model_validate({"restrictions": {"sourceNamespaces": {"local": ["vendor.io"]}}})
    assert config.policy().source_namespaces == {"local": ("vendor.io",)}
