"""The report of a worker and the reply of the master, with the Node's labels that it carries, as values.

`nfd.rpc.convert` is their form on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nfd import names
from nfd.features import Features, Labels


class State(StrEnum):
    """How a source stands in a report."""

    FRESH = "fresh"
    """Its latest run succeeded: a key of its that is missing is gone."""
    FAILED = "failed"
    """Its latest run failed: its keys are those of the last good run, and none is removed."""
    OFF = "off"
    """Not asked to run by configuration: its keys are removed, as after an explicit change."""


MAX_ENTRIES = 10_000
"""Labels of one report, and as many annotations, origins and sources. A Node can list about 4,000."""
MAX_FEATURES = 1_000
"""Features of one report."""
MAX_ELEMENTS = 100_000
"""Flags, attributes and instances of one report together; a large kernel has about 10,000."""
MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes of one message, gRPC's default; a report with all its features has some 50 kB."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """`error` says why a source failed; `since` counts seconds since its last good run (0 when fresh)."""

    state: State
    error: str = ""
    since: float = 0.0


LONGEST_UPTIME = 20 * 366 * 86_400 * 1_000_000_000
"""Nanoseconds that no machine has been up."""
MOST_REPORTS = 10_000_000_000
"""Ten reports a second for longer than that."""


@dataclass(frozen=True, slots=True, order=True)
class Order:
    """Orders the reports of one node without a wall clock.

    `started` is CLOCK_BOOTTIME in nanoseconds when the worker started, `sequence` counts its reports from 1. Only
    reports of the same boot compare; another boot id is newer if the Node's own boot id says so.

    `pod` is the uid of the pod whose token came with the report, and `issued` the second when that token was made, as
    the API server's clock has it; "" and 0 without a token. They are no part of what the worker says.
    """

    boot_id: str
    started: int
    sequence: int
    pod: str = field(default="", compare=False)
    issued: float = field(default=0.0, compare=False)

    def older(self, before: Order) -> bool:
        """Whether this came before the other one, of the same boot.

        Another pod whose token is the later one begins anew, whatever the pod before it has counted: what a pod says
        can keep out nobody but that pod.
        """
        if self.pod and before.pod and self.pod != before.pod and self.issued > before.issued:
            return False
        return (self.started, self.sequence) < (before.started, before.sequence)

    def problem(self) -> str:
        """Why no worker counts like that; "" if one may. A value beyond every clock would keep out all later ones."""
        if self.started > LONGEST_UPTIME:
            return f"order: the worker started after {self.started} ns of uptime, which no machine has"
        return f"order: {self.sequence} reports are more than any worker makes" if self.sequence > MOST_REPORTS else ""


@dataclass(frozen=True, slots=True)
class Report:
    """One node as its worker sees it.

    `labels` are legal and white-listed, in full or (from local and custom sources) without a prefix. `origins` names
    the source of each label. `sources` is empty and `order` None when the peer is NFD 0.16 or older: its report is
    whole and fresh.
    """

    node: str
    version: str = ""
    node_uid: str = ""
    order: Order | None = None
    labels: Labels = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, SourceState] = field(default_factory=dict)
    features: Features = field(default_factory=Features)


@dataclass(frozen=True, slots=True)
class Reply:
    """The master's answer: seconds until the next heartbeat, if nothing changes before.

    `node_labels` are those of the Node that `labels_for_worker` returns; None if the master says nothing of them.
    """

    heartbeat: float
    node_labels: Mapping[str, str] | None = None


LABELS_FOR_WORKERS = frozenset({f"{names.NVIDIA_NS}/device-plugin.config", f"{names.NVIDIA_NS}/mig.config.state"})
"""Labels of a Node that the master sends to its worker, besides those that begin with `nfd.names.DEPLOY_LABELS`."""


def labels_for_worker(labels: Mapping[str, str]) -> dict[str, str]:
    """Those labels of a Node that the master sends to its worker. Invalid keys and values are left out."""
    return {
        key: value
        for key, value in labels.items()
        if (key in LABELS_FOR_WORKERS or key.startswith(names.DEPLOY_LABELS))
        and not (names.key_problem(key) or names.value_problem(value))
    }
