"""An option in a configuration file has the same effect on the rest of the chart as the value of the chart for it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nfd.master.config import Config
from tests.deploy.rendering import CHART, Object, Values, chart_objects, notes, one

POLICY: Values = {"labelPolicy": {"enable": True, "actions": ["Deny", "Audit"]}}
MASTER: dict[str, Any] = {
    "resyncPeriod": "2h",
    "denyLabelNs": ["denied.example.com"],
    "extraLabelNs": ["vendor.kubernetes.io", "vendor.k8s.io"],
    "resourceLabels": ["vendor.example.com/count"],
    "enableTaints": True,
    "nodeConditions": True,
    "nfdApiParallelism": 3,
}
"""Values of the chart that are options of nfd-master.conf, by name."""
TAINTS = [
    {"key": "readiness.k8s.io/nfd", "value": "pending", "effect": "NoSchedule"},
    {"key": "vendor.example.com/new", "value": "", "effect": "NoExecute"},
]
TAINT_TEXTS = ["readiness.k8s.io/nfd=pending:NoSchedule", " vendor.example.com/new:NoExecute"]
TWINS: dict[str, tuple[Values, Values]] = {
    **{name: ({"master": {name: value}}, {"master": {"config": {name: value}}}) for name, value in MASTER.items()},
    "startupTaints": ({"startupTaints": TAINTS}, {"master": {"config": {"startupTaints": TAINT_TEXTS}}}),
    "migStrategy": (
        {"gpu": {"migStrategy": "mixed"}},
        {"worker": {"config": {"sources": {"nvidia": {"migStrategy": "mixed"}}}}},
    ),
}


def test_each_value_that_is_an_option_of_the_master_is_in_the_table() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert MASTER.keys() == values["master"].keys() & {field.alias for field in Config.model_fields.values()}


def rest(objects: list[Object]) -> list[Object]:
    """Without the configuration files, and the flags of the programs."""
    found = [each for each in objects if each["kind"] != "ConfigMap"]
    for each in found:
        template = each.get("spec", {}).get("template", {})
        template.get("metadata", {}).pop("annotations", None)  # the checksums of the files
        for container in template.get("spec", {}).get("containers", ()):
            del container["args"]
    return found


@pytest.mark.parametrize("name", TWINS)
def test_the_rest_of_the_chart(name: str) -> None:
    by_value, by_file = ({**POLICY, **values} for values in TWINS[name])
    assert rest(chart_objects(by_file)) == rest(chart_objects(by_value))
    assert notes(by_file) == notes(by_value)


def test_the_flag_takes_precedence_over_the_file() -> None:
    """Both in the master and in the policy; without either, the policy allows no further namespace."""
    both = {"extraLabelNs": ["flag.kubernetes.io"], "config": {"extraLabelNs": ["file.kubernetes.io"]}}
    for master, allowed in ((both, '["flag.kubernetes.io"]'), ({}, "[]"), ({"config": {"klog": {}}}, "[]")):
        policy = one(chart_objects({**POLICY, "master": master}), "ValidatingAdmissionPolicy", "master-writes")
        assert {"name": "extra", "expression": allowed} in policy["spec"]["variables"]


@pytest.mark.parametrize("config", [{"sources": None}, {"sources": {"nvidia": None}}, {"sources": {"pci": None}}])
def test_an_empty_section_of_the_file_counts_as_absent(config: Values) -> None:
    assert notes({"worker": {"config": config}}) == notes({})
