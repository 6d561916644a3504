"""Alerts and dashboard: PromQL that parses, over metrics that exist, each alert with a test of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.deploy.monitoring import ALERTS, DASHBOARD, alerts, expressions, families, promtool, series
from tests.deploy.rendering import ROOT, Object, chart_objects, one, overlay

TESTS = ROOT / "tests/deploy/alerts.test.yaml"
_NAME = re.compile(r"\bnfd_\w+")
_SELECTOR = re.compile(r"(nfd_\w+)\{([^}]*)\}")
TARGET = {"namespace", "pod", "node"}
"""What scraping adds."""


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """Every name that a query can use, with its labels."""
    return {name: labels for found in families().values() for name, labels in series(found).items()}


def dashboard() -> list[str]:
    return list(expressions(json.loads(DASHBOARD.read_text())))


def test_alerts_fire_for_what_they_are_about() -> None:
    promtool("check", "rules", str(ALERTS))
    promtool("test", "rules", str(TESTS))


def test_every_alert_is_seen_to_fire() -> None:
    text = TESTS.read_text()
    assert [alert["alert"] for alert in alerts() if f'alertname="{alert["alert"]}"' not in text] == []


def test_every_expression_of_the_dashboard_is_promql(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(dashboard())]
    file = tmp_path / "dashboard.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(file))
    assert len(rules) > 20


def test_queries_are_over_metrics_and_labels_that_exist(exported: dict[str, set[str]]) -> None:
    queries = [*dashboard(), *(alert["expr"] for alert in alerts())]
    assert {name for query in queries for name in _NAME.findall(query)} - exported.keys() == set()
    for query in queries:
        for name, selector in _SELECTOR.findall(query):
            asked = set(re.findall(r"(\w+)\s*=", selector))
            assert asked <= exported[name] | TARGET, query


def test_every_program_s_metrics_can_be_seen(exported: dict[str, set[str]]) -> None:
    """On the dashboard or in an alert, but for those that explain others."""
    text = " ".join([*dashboard(), *(alert["expr"] for alert in alerts())])
    seen = {re.sub(r"_(bucket|count|sum)$", "", name) for name in _NAME.findall(text)}
    unseen = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exported} - seen
    assert unseen == {
        "nfd_gc_build_info",
        "nfd_gc_objects_deleted_total",
        "nfd_master_build_info",
        "nfd_master_node_feature_group_update_requests_total",
        "nfd_master_node_update_requests_total",
        "nfd_master_node_updates_total",
        "nfd_master_nodefeaturerule_status_updates_total",
        "nfd_master_nodefeaturerules",
        "nfd_master_nodefeatures",
        "nfd_master_nodefeatures_without_node",
        "nfd_master_report_requests_total",
        "nfd_master_startup_taints_removed_total",
        "nfd_master_surplus_nodefeatures",
        "nfd_topology_updater_build_info",
        "nfd_topology_updater_writes_total",
        "nfd_worker_build_info",
        "nfd_worker_reports_total",
    }


def test_chart_and_overlay_bring_the_same_alerts() -> None:
    rules = yaml.safe_load(ALERTS.read_text())
    on = {"prometheus": {"enable": True, "rules": {"enable": True}}}
    assert one(chart_objects(on), "PrometheusRule")["spec"] == rules
    assert one(overlay("prometheus"), "PrometheusRule")["spec"] == rules
    assert not [each for each in chart_objects({"prometheus": {"enable": True}}) if each["kind"] == "PrometheusRule"]


def test_all_that_serve_metrics_are_scraped() -> None:
    """Pods with a port `http`, by chart and overlays; gpu-feature-discovery has none."""
    on = {name: {"enable": True} for name in ("gc", "topologyUpdater", "prometheus")}
    chart = chart_objects({**on, "gpu": {"mode": "daemonset"}})
    manifests = [*overlay("prometheus"), *overlay("topologyupdater"), *overlay("gpu")]
    for objects in (chart, manifests):
        (found,) = one(objects, "PodMonitor")["spec"]["selector"]["matchExpressions"]
        pods = [each["spec"]["template"] for each in objects if each["kind"] in ("Deployment", "DaemonSet")]
        serving = [pod["metadata"]["labels"][found["key"]] for pod in pods if ports_of(pod) == {"http"}]
        assert set(serving) == set(found["values"])


def ports_of(pod: Object) -> set[str]:
    """But for gRPC's."""
    return {port["name"] for port in pod["spec"]["containers"][0].get("ports", ())} - {"grpc"}
