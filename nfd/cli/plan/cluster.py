"""`nfd plan` on a cluster: Nodes, rules and objects from the API server, reports from the leading master.

Only the master's memory has the raw features. It serves them at `/reports` to authorised clients if it was started with
--serve-reports.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nfd.cli.cluster import Json, ask_cluster, read_config_maps, read_nodes
from nfd.cli.machine import plan_with
from nfd.cli.master_reports import read_reports
from nfd.cli.namespace_selector import ObjectDocuments, read_object_documents
from nfd.cli.plan.model import Files, NodeInput, PlanInput, Rules, with_master, with_rules, worker_config
from nfd.cli.plan.recorded import states_of
from nfd.config.load import layer_of, load
from nfd.config.overlay import Layer
from nfd.config.yamltext import parse
from nfd.discovery import Plan, derive_again, switched_off
from nfd.features import Features
from nfd.host.replay import Replay
from nfd.kube.client import KubeClient
from nfd.kube.list_pages import list_if_known, whole
from nfd.kube.paths import RULES
from nfd.master.http.reports_api import MasterState
from nfd.master.node.outcome import NO_RULES, Known, evaluate_node
from nfd.master.rules.nodefeatures import FeatureObject, node_of
from nfd.report import Report
from nfd.store.base import trim
from nfd.worker.config import WorkerConfig, model
from nfd.worker.report_content import matches

WORKER_CONFIG = "nfd-worker.conf"
"""Key of the workers' configuration in its ConfigMap."""


@dataclass(frozen=True, slots=True)
class ClusterDocuments:
    """What a plan needs of a cluster: Nodes, NodeFeatureRules by name and NodeFeatures as the API server has them, the
    reports of workers, the master's state, and the workers' configuration.

    `worker` is None where there is none, or where it was not asked for. `replaced` are elements of features (`*` for
    names of elements) that a snapshot has other values of, by feature.
    """

    nodes: Sequence[Json]
    reports: Mapping[str, Report]
    state: MasterState
    rules: Rules = field(default_factory=dict)
    objects: ObjectDocuments = field(default_factory=ObjectDocuments)
    worker: Layer | None = None
    replaced: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def for_nodes(self, nodes: Sequence[Json]) -> ClusterDocuments:
        """With these Nodes, and what is known of them."""
        names = {str(node["metadata"]["name"]) for node in nodes}
        items = [item for item in self.objects.items if node_of(item.get("metadata")) in {*names, ""}]
        reports = {name: report for name, report in self.reports.items() if name in names}
        return replace(self, nodes=nodes, reports=reports, objects=replace(self.objects, items=items))


def cluster_input(args: Namespace, current: Files, new: Files, deleted: Iterable[str]) -> PlanInput:
    """The current cluster. Raises: ConfigError, KubeError."""
    worker = new.worker is not None and current.worker is None
    return input_of(documents_of(args, new.master, worker=worker), current, new, deleted)


def documents_of(
    args: Namespace, master: str | None = None, *, namespaces: bool = False, worker: bool = False
) -> ClusterDocuments:
    """The cluster as its master knows it now: the nodes that --selector and the master select, and the rest.

    The labels of namespaces are read with `namespaces`, or if the master selects by them, with the configuration file
    `master` if there is one. Raises: ConfigError, KubeError.
    """

    async def ask(client: KubeClient) -> ClusterDocuments:
        reports, state = await read_reports(client, args)
        selects = namespaces or bool(with_master(state, master).namespace_selector)
        items = await list_if_known(client, RULES, whole)
        objects = await read_object_documents(client, namespaces=selects)
        nodes = await read_nodes(client, ",".join(filter(None, (args.selector, state.node_selector))))
        config = await read_worker_config(client, args.namespace or state.namespace) if worker else None
        rules = {str(item["metadata"]["name"]): item for item in items}
        found = {name: one.report for name, one in reports.items()}
        return ClusterDocuments([], found, state, rules, objects, config).for_nodes(nodes)

    return ask_cluster(args, ask)


def input_of(found: ClusterDocuments, current: Files, new: Files, deleted: Iterable[str]) -> PlanInput:
    """The input of a plan. Raises: ConfigError."""
    after = with_master(found.state, new.master)
    selected = found.objects.select(after)
    nodes = [trim(node) for node in found.nodes]
    reports = found.reports
    warnings: list[str] = []
    if new.worker is not None:
        before = present_config(found.worker, current.worker)
        warnings += _unknown_sources(reports.values(), worker_config(new.worker))
        reports = {name: report_after(one, before, worker_config(new.worker)) for name, one in reports.items()}
        if hidden := before.core.no_publish_features:
            warnings.append(f"workers do not publish {', '.join(hidden)}: the effect of that is unknown")
    by_node: dict[str, list[FeatureObject]] = {}
    for one in selected.objects:
        by_node.setdefault(one.node, []).append(one)
    inputs = [
        NodeInput(node, reports.get(node.name), by_node.get(node.name, ()), selected.lists(node.name)) for node in nodes
    ]
    if silent := sum(node.name not in reports for node in nodes):
        who = "1 node has" if silent == 1 else f"{silent} nodes have"
        warnings.append(f"{who} not reported to this master: keys that come from features stay there")
    warnings += selected.remarks()
    return PlanInput(inputs, with_rules(found.rules, new.rules, deleted), after, tuple(warnings))


def features_of(found: ClusterDocuments) -> list[tuple[str, Mapping[str, str], Features | None]]:
    """Name, labels and features of each node: the report merged with NodeFeature objects, as the master has them.

    None stands for features that are not known.
    """
    given = input_of(found, Files(), Files(), ())
    features: list[tuple[str, Mapping[str, str], Features | None]] = []
    for one in given.nodes:
        known = Known(one.lists, given.state.instance)
        outcome = evaluate_node(one.node, one.report, NO_RULES, one.objects, given.state.joining, known)
        features.append((one.node.name, one.node.labels, outcome.report.features if outcome.fresh.reported else None))
    return features


async def read_worker_config(client: KubeClient, namespace: str) -> Layer | None:
    """The workers' configuration in the namespace's newest ConfigMap that has one, None if none has.

    Raises: ConfigError, KubeError.
    """
    namespace = namespace or "default"
    found = await read_config_maps(client, namespace, WORKER_CONFIG)
    if not found:
        return None
    place = f"ConfigMap {namespace}/{found[0]['metadata']['name']}"
    return layer_of(place, parse(found[0]["data"][WORKER_CONFIG], place))


def present_config(in_cluster: Layer | None, path: str | None) -> WorkerConfig:
    """The current configuration: `--current-config`, else the cluster's ConfigMap, else the defaults."""
    if path is not None or in_cluster is None:
        return worker_config(path)
    return load(model(), [in_cluster]).config


def report_after(report: Report, before: WorkerConfig, now: WorkerConfig) -> Report:
    """What the worker would report with another configuration: the reported data with the difference applied.

    So labels that only the machine itself can make, such as those of custom.d, stay.
    """
    old, new = plan_with(before), plan_with(now)
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
    hidden = now.core.no_publish_features
    deleted = [name for name in report.features.names() if any(matches(name, one) for one in hidden)]
    features = report.features.without({*deleted, *switched_off(new, report.features)})
    origins = {key: origin for key, origin in origins.items() if key in labels or key in report.annotations}
    return replace(report, labels=labels, origins=origins, sources=states_of(new, report), features=features)


def _stays(key: str, origins: Mapping[str, str], plan: Plan) -> bool:
    """Whether a label that only the machine itself can make is still enabled and on the white list."""
    source = origins.get(key)
    made = source is None or any(one.name == source for one in plan.label_sources)
    return made and (plan.allowed is None or bool(plan.allowed.search(key.partition("/")[2] or key)))


def _unknown_sources(reports: Collection[Report], config: WorkerConfig) -> list[str]:
    """Sources that would newly run, with unknown features."""
    counts: dict[str, int] = {}
    for source in plan_with(config).feature_sources:
        counts[source.name] = sum(
            source.name in one.sources and one.sources[source.name].state == "off" for one in reports
        )
    return [
        f"source {name} is off on {count} nodes: its features there are unknown"
        for name, count in counts.items()
        if count
    ]
