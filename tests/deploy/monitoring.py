"""What monitoring.md, the alerts and the dashboard say, held against what the programs really export."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from nfd.discovery import Discovery, Scan
from nfd.gc.collector import KINDS
from nfd.gc.collector import Metrics as GcMetrics
from nfd.master.http import metrics as master
from nfd.master.http.fleet_metrics import FleetMetrics
from nfd.master.node.known_rejections import Unwritten
from nfd.names import NVIDIA_NS
from nfd.runtime.prometheus import Family
from nfd.store.base import Node
from nfd.topology.updater import Metrics as TopologyMetrics
from nfd.worker.metrics import Metrics as WorkerMetrics
from tests.deploy.rendering import CHART, OVERLAYS, ROOT

ALERTS = CHART / "files/alerts.yaml"
DASHBOARD = ROOT / "deploy/grafana/node-feature-discovery.json"
PAGE = ROOT / "docs/monitoring.md"
RULE = OVERLAYS / "prometheus/prometheusrule.yaml"
_HEAD = """\
# The chart's files/alerts.yaml as an object of the Prometheus operator; `make generate` writes it.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: nfd-alerts
spec:
"""


_GPU = f"{NVIDIA_NS}/gpu"
A100 = replace(
    Node.bare("n1"),
    labels={f"{_GPU}.product": "A100", f"{_GPU}.count": "2"},
    resources={_GPU: "2"},
    allocatable={_GPU: "1"},
)


def promtool(*words: str, stdin: str = "") -> str:
    """What it prints. Raises: AssertionError with its complaint."""
    program = shutil.which("promtool")
    if program is None:
        problem = "metrics and alerts are checked by promtool: apt-get install prometheus"
        if os.environ.get("CI") == "true":
            pytest.fail(problem, pytrace=False)
        pytest.skip(problem)
    done = subprocess.run([program, *words], input=stdin, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def families() -> dict[str, list[Family]]:
    """All metrics of each program, with a sample for every label there is."""
    counted = master.Metrics("0", 0.0)
    counted.gauges = lambda: dict.fromkeys(master.GAUGES, 0.0)
    counted.unwritten = lambda: [Unwritten("label", "vendor.io/x", "webhook w", "no", ("n1",))]
    counted.fleet = FleetMetrics(lambda: [A100], lambda: [f"{NVIDIA_NS}/gpu.product"]).families
    worker = WorkerMetrics("0", "node", 0.0, taken_at=0.0)
    devices = {"nvidia": dict.fromkeys(("present", "usable", "failing"), 1)}
    worker.scanned(Discovery({"pci": Scan()}, devices=devices), 0.0, full=True)
    return {
        "nfd-master": list(counted.families()),
        "nfd-worker": list(worker.families(0.0)),
        "nfd-gc": list(GcMetrics(kind.name for kind in KINDS).families()),
        "nfd-topology-updater": list(TopologyMetrics().families()),
    }


def series(found: Iterable[Family]) -> dict[str, set[str]]:
    """The names that a query can use, each with its labels."""
    names: dict[str, set[str]] = {}
    for family in found:
        for suffix, labels, _ in family.samples:
            names.setdefault(family.name + suffix, set()).update(labels)
    return names


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def pages() -> dict[str, str]:
    """Generated files: the tables in monitoring.md, and the alerts as an object."""
    text = PAGE.read_text()
    blocks = {program: _metrics_table(found) for program, found in families().items()} | {"alerts": _alerts_table()}
    for name, block in blocks.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(begin)
        text = head + begin + block + end + rest.split(end)[1]
    rules = "".join(f"  {line}" if line.strip() else line for line in _rules_text().splitlines(keepends=True))
    return {str(PAGE.relative_to(ROOT)): text, str(RULE.relative_to(ROOT)): _HEAD + rules}


def _rules_text() -> str:
    text = ALERTS.read_text()
    return text[text.index("groups:") :]


def _metrics_table(found: Iterable[Family]) -> str:
    lines = ["| metric | type | labels | |", "| --- | --- | --- | --- |"]
    for family in found:
        name = f"{family.name}_total" if family.kind == "counter" else family.name
        labels = sorted({label for _, labels, _ in family.samples for label in labels} - {"le"})
        text = family.help.replace("|", "\\|")
        lines.append(f"| `{name}` | {family.kind} | {', '.join(f'`{label}`' for label in labels)} | {text} |")
    return "\n".join(lines) + "\n"


def _alerts_table() -> str:
    lines = ["| alert | severity | after | what it says | what to do |", "| --- | --- | --- | --- | --- |"]
    for rule in alerts():
        about = rule["annotations"]
        summary = re.sub(r"{{\s*\$labels\.(\w+)\s*}}", r"*\1*", about["summary"])
        summary = re.sub(r"{{\s*\$value[^}]*Duration\s*}}", "*duration*", summary)
        summary = re.sub(r"{{\s*\$value.*?}}", "*n*", summary)
        severity = rule["labels"]["severity"]
        lines.append(
            f"| `{rule['alert']}` | {severity} | {rule.get('for', 'at once')} | {summary} | {about['description']} |"
        )
    return "\n".join(lines) + "\n"


def expressions(tree: Any) -> Iterator[str]:
    """Every PromQL expression of a Grafana dashboard, variables filled in."""
    if isinstance(tree, dict):
        if isinstance(expr := tree.get("expr"), str):
            yield fill_in(expr)
        for value in tree.values():
            yield from expressions(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from expressions(value)


def fill_in(expr: str) -> str:
    return expr.replace("$__rate_interval", "5m").replace("$namespace", ".*").replace("$node", ".*")
