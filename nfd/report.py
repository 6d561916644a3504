"""The report of a worker, with its limits, and the reply of the master, as values.

`nfd.rpc.convert` is their form on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nfd.features import Features, Labels
from nfd.report_order import Order


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
