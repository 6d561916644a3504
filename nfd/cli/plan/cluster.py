"""`nfd plan` on a cluster: Nodes, rules and objects from the API server, reports from the leading master.

Only the master's memory has the raw features. It serves them at `/reports` to authorised clients if it was started with
--serve-reports.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nfd.cli.cluster import ask_cluster, read_nodes
from nfd.cli.master_reports import authorization, read_reports
from nfd.cli.namespace_selector import read_objects
from nfd.cli.plan.model import Files, NodeInput, PlanInput, with_master, with_rules, worker_config
from nfd.cli.plan.recorded import plan_of, states_of
from nfd.config.load import layer_of, load
from nfd.config.yamltext import parse
from nfd.discovery import Plan, derive_again
from nfd.errors import NotFound
from nfd.host.replay import Replay
from nfd.kube.client import KubeClient
from nfd.kube.lists import list_if_known, read_object
from nfd.kube.paths import RULES
from nfd.master.http.reports_api import TimedReport
from nfd.report import Report
from nfd.store.base import trim
from nfd.worker.config import WorkerConfig, model
from nfd.worker.report_content import matches

WORKER_CONFIG = ("nfd-worker-conf", "nfd-worker.conf")
"""ConfigMap and key of the workers' configuration."""


def cluster_input(args: Namespace, current: Files, new: Files, deleted: Iterable[str]) -> PlanInput:
    """The current cluster. Raises: ConfigError, KubeError."""

    async def ask(client: KubeClient) -> PlanInput:
        reported, state = await read_reports(args.master, await authorization(client, args.token_file))
        items = await list_if_known(client, RULES, lambda item: item)
        rules = {str(item["metadata"]["name"]): item for item in items}
        after = with_master(state, new.master)
        selected = await read_objects(client, after)
        ours = ",".join(filter(None, (args.selector, state.node_selector)))
        nodes = [trim(node) for node in await read_nodes(client, ours)]
        reports = {name: one.report for name, one in reported.items()}
        warnings: list[str] = []
        if new.worker is not None:
            before = await present_config(client, args.namespace or state.namespace, current.worker)
            reports = {name: report_after(one, before, worker_config(new.worker)) for name, one in reports.items()}
            warnings += _unknown_sources(reported, worker_config(new.worker))
            if hidden := before.core.no_publish_features:
                warnings.append(f"workers do not publish {', '.join(hidden)}: the effect of that is unknown")
        inputs = [
            NodeInput(
                node,
                reports.get(node.name),
                [one for one in selected.objects if one.node == node.name],
                selected.lists(node.name),
            )
            for node in nodes
        ]
        if silent := sum(node.name not in reports for node in nodes):
            who = "1 node has" if silent == 1 else f"{silent} nodes have"
            warnings.append(f"{who} not reported to this master: keys that come from features stay there")
        warnings += selected.remarks()
        return PlanInput(inputs, with_rules(rules, new.rules, deleted), after, tuple(warnings))

    return ask_cluster(args, ask)


async def present_config(client: KubeClient, namespace: str, path: str | None) -> WorkerConfig:
    """The current configuration: `--current-config`, else the cluster's ConfigMap, else the defaults."""
    if path is not None:
        return worker_config(path)
    name, key = WORKER_CONFIG
    try:
        found = await read_object(client, f"/api/v1/namespaces/{namespace or 'default'}/configmaps/{name}")
    except NotFound:
        return worker_config(None)
    place = f"ConfigMap {namespace}/{name}"
    return load(model(), [layer_of(place, parse((found.get("data") or {}).get(key, ""), place))]).config


def report_after(report: Report, before: WorkerConfig, now: WorkerConfig) -> Report:
    """What the worker would report with another configuration: the reported data with the difference applied.

    So labels that only the machine itself can make, such as those of custom.d, stay.
    """
    old, new = plan_of(before), plan_of(now)
    with tempfile.TemporaryDirectory() as nothing:
        host = Replay(nothing)
        was, is_now = derive_again(host, old, report.features), derive_again(host, new, report.features)
    labels, origins = dict(report.labels), dict(report.origins)
    for key in was.labels.keys() | is_now.labels.keys():
        if was.labels.get(key) == is_now.labels.get(key):
            continue
        labels.pop(key, None)
        if key in is_now.labels:
            labels[key], origins[key] = is_now.labels[key], is_now.origins[key]
    labels = {key: value for key, value in labels.items() if key in is_now.labels or _stays(key, origins, new)}
    running = {source.name for source in new.feature_sources}
    hidden = now.core.no_publish_features
    deleted = [
        name
        for name in report.features.names()
        if name.partition(".")[0] not in running or any(matches(name, one) for one in hidden)
    ]
    features = report.features.without(deleted)
    origins = {key: origin for key, origin in origins.items() if key in labels or key in report.annotations}
    return replace(report, labels=labels, origins=origins, sources=states_of(new, report), features=features)


def _stays(key: str, origins: Mapping[str, str], plan: Plan) -> bool:
    """Whether a label that only the machine itself can make is still enabled and on the white list."""
    source = origins.get(key)
    made = source is None or any(one.name == source for one in plan.label_sources)
    return made and (plan.allowed is None or bool(plan.allowed.search(key.partition("/")[2] or key)))


def _unknown_sources(reported: Mapping[str, TimedReport], config: WorkerConfig) -> list[str]:
    """Sources that would newly run, with unknown features."""
    counts: dict[str, int] = {}
    for source in plan_of(config).feature_sources:
        counts[source.name] = sum(
            source.name in one.report.sources and one.report.sources[source.name].state == "off"
            for one in reported.values()
        )
    return [
        f"source {name} is off on {count} nodes: its features there are unknown"
        for name, count in counts.items()
        if count
    ]
