"""The master's metrics: NFD's names, and some of our own (OpenMetrics 1.0 and Prometheus text format 0.0.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

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
    "reports_refused": "Reports not taken: older than what is known, or for another node.",
    "drift_restored": "Keys of ours that somebody else changed or removed and that were set right.",
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
}
_REJECTED = {
    "label": "node_labels_rejected",
    "annotation": "node_annotations_rejected",
    "extendedResource": "node_extendedresources_rejected",
    "taint": "node_taints_rejected",
}


class Metrics:
    """Counters that only grow; gauges are asked for when somebody looks."""

    def __init__(self, version: str, started: float) -> None:
        self._counts = dict.fromkeys(_COUNTERS, 0)
        self._build = (version, started)
        self.gauges: Callable[[], Mapping[str, float]] = dict

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def add(self, name: str, amount: int = 1) -> None:
        self._counts[name] += amount

    def reject(self, kind: str) -> None:
        """Count something the policy did not allow; `kind` as in `nfd.rules.policy.Dropped`."""
        self.add(_REJECTED[kind])

    def render(self, *, openmetrics: bool) -> str:
        """All of them, as text."""
        lines = list(self._lines(openmetrics))
        return "\n".join([*lines, "# EOF", ""] if openmetrics else [*lines, ""])

    def _lines(self, openmetrics: bool) -> Iterator[str]:
        for name, text in _COUNTERS.items():
            family = f"nfd_master_{name}" if openmetrics else f"nfd_master_{name}_total"
            yield from (f"# HELP {family} {text}", f"# TYPE {family} counter")
            yield f"nfd_master_{name}_total {self._counts[name]}"
        version, started = self._build
        values = {f'build_info{{version="{version}"}}': started, **self.gauges()}
        for sample, value in values.items():
            family = sample.partition("{")[0]
            yield from (f"# HELP nfd_master_{family} {_GAUGES[family]}", f"# TYPE nfd_master_{family} gauge")
            yield f"nfd_master_{sample} {value!r}"
