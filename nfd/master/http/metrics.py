"""The master's metrics: NFD's names (NFD documentation, "Metrics"), and additional ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from nfd.master.node.known_rejections import Unwritten
from nfd.runtime.prometheus import Family, Histogram, build_family, failures_family

PREFIX = "nfd_master_"
UNWRITTEN = "unwritten_keys"
MOST_SERIES = 100
"""The most keys with a series of their own."""

PATCHED, CONFLICT, REFUSED, FAILED = "written", "conflict", "refused", "failed"
"""The results of a PATCH."""


@dataclass(frozen=True, slots=True)
class Counter:
    """`labels` are all values of each label, so that all series exist from the start."""

    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_KINDS = ("label", "annotation", "extendedResource", "taint")
_CAUSES = ("scan", "rule", "object", "policy", "silence", "unknown")
_CODES = (
    *("PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL"),
)
COUNTERS = {
    "node_update_requests": Counter("Reconciliations of nodes, including repeated ones."),
    "node_updates": Counter("Reconciliations that changed a node."),
    "node_update_failures": Counter("Reconciliations that failed. The master tries again."),
    "node_labels_rejected": Counter("Labels that a report or rule requested and the configuration does not allow."),
    "node_extendedresources_rejected": Counter("Requested extended resources that the configuration does not allow."),
    "node_annotations_rejected": Counter("Requested annotations that the configuration does not allow."),
    "node_taints_rejected": Counter("Requested taints that the configuration does not allow."),
    "node_patches": Counter(
        "PATCH requests for nodes by result. written: the API server accepted the request. conflict: the node had "
        "changed, so the master calculates its changes again. refused: the API server rejected the content, so the "
        "master finds the rejected keys and leaves them out. failed: any other error. The master tries again.",
        {"result": (PATCHED, CONFLICT, REFUSED, FAILED)},
    ),
    "node_keys_removed": Counter(
        "Keys removed from nodes by cause. scan: a new scan no longer finds the feature. rule: the NodeFeatureRule no "
        "longer requests the key. object: the NodeFeature object no longer requests the key. policy: the configuration "
        "no longer allows the key. silence: the worker has sent no report for longer than staleAfter. unknown: nothing "
        "proves where the key came from.",
        {"kind": _KINDS, "cause": _CAUSES},
    ),
    "reports": Counter("Reports accepted from workers."),
    "reports_refused": Counter(
        "Rejected reports by gRPC status code. FAILED_PRECONDITION and UNAVAILABLE can also mean that another master "
        "is the leader, or that there is no leader.",
        {"code": _CODES},
    ),
    "report_requests": Counter(
        "Times that this master asked all workers to report, because the master knew the features of too few nodes."
    ),
    "drift_restored": Counter(
        "Keys and conditions managed by nfd that the master restored after another writer changed or removed them."
    ),
    "startup_taints_removed": Counter("Startup taints removed from labelled nodes."),
    "nodefeaturerule_processing_errors": Counter("Rules that could not be evaluated on a node."),
    "nodefeaturerule_status_updates": Counter("PATCH requests for the status of NodeFeatureRules."),
    "node_feature_group_update_requests": Counter("PATCH requests for the status of NodeFeatureGroups."),
}
GAUGES = {
    "nodes": "Node objects that the master watches.",
    "reporting_nodes": "Nodes whose worker has reported to this process.",
    "reports_known": "Nodes whose features are known. The master evaluates rules for these nodes.",
    "reports_replicated": "Reports with a confirmed copy in another master.",
    "snapshot_age_seconds": "Seconds since the master last wrote a snapshot of the reports.",
    "silent_nodes": "Nodes whose worker has reported to this process and has now missed three heartbeats.",
    "waiting_reports": "Reports for nodes that do not exist.",
    "startup_tainted_nodes": "Nodes that still have a startup taint that the master must remove.",
    "contested_keys": "Keys and conditions that other writers changed or removed more than twice within ten minutes.",
    "queued_nodes": "Nodes that wait for a reconciliation.",
    "store_connected": "1 while the watch on nodes works.",
    "leading": "1 while this master is the leader. The leader writes to nodes.",
    "nodefeaturerules": "NodeFeatureRule objects known.",
    "failing_rules": "Rules that are invalid, or could not be evaluated on some node.",
    "nodefeatures": "NodeFeature objects known.",
    "surplus_nodefeatures": "NodeFeature objects that the master ignores because their node has too many.",
    "nodefeatures_without_node": "NodeFeature objects that name no node, or a node that does not exist.",
    "malformed_objects": "Custom resources that are invalid and ignored.",
}
_UNWRITTEN = (
    "Nodes on which a key cannot be changed. The label `by` names the admission policy or webhook that rejects the "
    "change. It is validation if the API server itself rejects the change. For nvidia.com/gpu.present and "
    "nvidia.com/gpu.clique, it can also name a product that has set another value. If the key is *, every change of "
    "the node is rejected."
)
RULE_EVALUATION = "nodefeaturerule_processing_duration_seconds"
PLAN = "node_plan_duration_seconds"
PATCH = "node_patch_duration_seconds"
_FAST = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01)
HISTOGRAMS = {
    RULE_EVALUATION: ("Time to evaluate all rules on one node.", _FAST),
    PLAN: ("Time to calculate the changes of one node, with the evaluation of the rules if that is necessary.", _FAST),
    PATCH: ("Time of a PATCH request for a node.", (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)),
}
_REJECTED = {
    "label": "node_labels_rejected",
    "annotation": "node_annotations_rejected",
    "extendedResource": "node_extendedresources_rejected",
    "taint": "node_taints_rejected",
}


class Metrics:
    """Counters and histograms; gauges are computed when they are read."""

    def __init__(self, version: str, started: float) -> None:
        """`started` is in seconds since the epoch."""
        self._counts: dict[str, dict[tuple[str, ...], int]] = {
            name: dict.fromkeys(product(*counter.labels.values()), 0) for name, counter in COUNTERS.items()
        }
        self._build = (version, started)
        self._histograms = {name: Histogram(bounds) for name, (_, bounds) in HISTOGRAMS.items()}
        self.gauges: Callable[[], Mapping[str, float]] = dict
        self.unwritten: Callable[[], Sequence[Unwritten]] = list
        self.fleet: Callable[[], Iterable[Family]] = list

    def __getitem__(self, name: str) -> int:
        """The sum of a counter over all labels."""
        return sum(self._counts[name].values())

    def add(self, name: str, amount: int = 1, **labels: str) -> None:
        """Increase a counter; all its labels are required."""
        series, place = self._counts[name], tuple(labels[label] for label in COUNTERS[name].labels)
        series[place] = series.get(place, 0) + amount

    def reject(self, kind: str) -> None:
        """Count what the policy denied; `kind` as in `nfd.rules.policy.Dropped`."""
        self.add(_REJECTED[kind])

    def observe(self, name: str, seconds: float) -> None:
        """Add to a histogram. NFD has one per rule object and node, which would be too many series."""
        self._histograms[name].observe(seconds)

    def families(self) -> Iterator[Family]:
        """All series."""
        yield build_family(PREFIX, *self._build)
        for name, counter in COUNTERS.items():
            samples = [
                ("_total", dict(zip(counter.labels, place, strict=True)), count)
                for place, count in self._counts[name].items()
            ]
            yield Family(PREFIX + name, "counter", counter.help, samples)
        yield failures_family(PREFIX)
        for name, histogram in self._histograms.items():
            yield Family(PREFIX + name, "histogram", HISTOGRAMS[name][0], histogram.samples({}))
        for name, value in self.gauges().items():
            yield Family(PREFIX + name, "gauge", GAUGES[name], [("", {}, value)])
        counts: dict[tuple[str, str, str], int] = {}
        for one in sorted(self.unwritten(), key=lambda one: -len(one.nodes)):
            place = (one.kind, one.key, one.by)
            place = place if place in counts or len(counts) < MOST_SERIES else ("", "others", "")
            counts[place] = counts.get(place, 0) + len(one.nodes)
        series = [("", {"kind": kind, "key": key, "by": by}, count) for (kind, key, by), count in counts.items()]
        yield Family(PREFIX + UNWRITTEN, "gauge", _UNWRITTEN, series)
        yield from self.fleet()
