"""The master's metrics: NFD's names, and some of our own (OpenMetrics 1.0 and Prometheus text format 0.0.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS = {
    "node_update_requests": "Passes over a node, repeated ones included.",
    "node_updates": "Passes that changed a node.",
    "node_update_failures": "Passes that failed and will be repeated.",
    "node_labels_rejected": "Labels that a report or rule asked for and the policy does not allow.",
    "node_extendedresources_rejected": "Extended resources that were asked for and are not allowed.",
    "node_annotations_rejected": "Annotations that were asked for and are not allowed.",
    "node_taints_rejected": "Taints that were asked for and are not allowed.",
    "node_writes": "PATCH requests sent to the node store.",
    "node_write_conflicts": "PATCH requests refused since the node had changed in between.",
    "node_writes_refused": "PATCH requests whose content the API server refused.",
    "reports": "Reports taken from workers.",
    "reports_refused": "Reports not taken: older than what is known, or of a caller that may not report for the node.",
    "reports_referred": "Reports not taken since another master leads, or none does.",
    "drift_restored": "Keys of ours that somebody else changed or removed and that were set right.",
    "nodefeaturerule_processing_errors": "Rules that could not be evaluated on a node.",
    "nodefeaturerule_status_updates": "PATCH requests for the status of NodeFeatureRules.",
    "node_feature_group_update_requests": "PATCH requests for the status of NodeFeatureGroups.",
}
_GAUGES = {
    "build_info": "Start time in seconds since the epoch, with the version as label.",
    "nodes": "Nodes known from the node store.",
    "reporting_nodes": "Nodes whose worker has reported to this process.",
    "silent_nodes": "Reporting nodes whose worker has missed three beats.",
    "waiting_reports": "Reports for nodes that do not exist.",
    "contested_keys": "Keys left alone for an hour since another manager keeps changing them.",
    "queued_nodes": "Nodes waiting for a pass.",
    "store_connected": "Whether changes of nodes are being heard.",
    "leading": "Whether this master is the one that writes.",
    "nodefeaturerules": "NodeFeatureRule objects known.",
    "nodefeatures": "NodeFeature objects known.",
    "nodefeatures_without_node": "NodeFeature objects that name no node, or one that does not exist.",
    "malformed_objects": "Custom resources that make no sense and are passed over.",
}
_REJECTED = {
    "label": "node_labels_rejected",
    "annotation": "node_annotations_rejected",
    "extendedResource": "node_extendedresources_rejected",
    "taint": "node_taints_rejected",
}


RULE_SECONDS = "nodefeaturerule_processing_duration_seconds"
RULE_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01)


class Metrics:
    """Counters and a histogram that only grow; gauges are asked for when somebody looks."""

    def __init__(self, version: str, started: float) -> None:
        self._counts = dict.fromkeys(_COUNTERS, 0)
        self._build = (version, started)
        self._rule_buckets = [0] * (len(RULE_BUCKETS) + 1)
        self._rule_seconds = 0.0
        self.gauges: Callable[[], Mapping[str, float]] = dict

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def add(self, name: str, amount: int = 1) -> None:
        self._counts[name] += amount

    def reject(self, kind: str) -> None:
        """Count something the policy did not allow; `kind` as in `nfd.rules.policy.Dropped`."""
        self.add(_REJECTED[kind])

    def observe_rules(self, seconds: float) -> None:
        """All rules were evaluated over one node. NFD counts each object and node by itself, in too many series."""
        self._rule_buckets[bisect_left(RULE_BUCKETS, seconds)] += 1
        self._rule_seconds += seconds

    def render(self, *, openmetrics: bool) -> str:
        """All of them, as text."""
        lines = list(self._lines(openmetrics))
        return "\n".join([*lines, "# EOF", ""] if openmetrics else [*lines, ""])

    def _lines(self, openmetrics: bool) -> Iterator[str]:
        for name, text in _COUNTERS.items():
            family = f"nfd_master_{name}" if openmetrics else f"nfd_master_{name}_total"
            yield from (f"# HELP {family} {text}", f"# TYPE {family} counter")
            yield f"nfd_master_{name}_total {self._counts[name]}"
        yield from self._histogram_lines()
        version, started = self._build
        values = {f'build_info{{version="{version}"}}': started, **self.gauges()}
        for sample, value in values.items():
            family = sample.partition("{")[0]
            yield from (f"# HELP nfd_master_{family} {_GAUGES[family]}", f"# TYPE nfd_master_{family} gauge")
            yield f"nfd_master_{sample} {value!r}"

    def _histogram_lines(self) -> Iterator[str]:
        family = f"nfd_master_{RULE_SECONDS}"
        yield from (f"# HELP {family} Time to evaluate all rules over one node.", f"# TYPE {family} histogram")
        for bound, count in zip((*RULE_BUCKETS, "+Inf"), accumulate(self._rule_buckets), strict=True):
            yield f'{family}_bucket{{le="{bound}"}} {count}'
        yield from (f"{family}_sum {self._rule_seconds!r}", f"{family}_count {sum(self._rule_buckets)}")
