"""What a worker tells the master about its node, as values; `nfd.rpc.convert` is their form on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nfd.features import Features, Labels


class State(StrEnum):
    """How a source stands in a report."""

    FRESH = "fresh"
    """Its latest run succeeded: a key of its that is missing is gone."""
    FAILED = "failed"
    """Its latest run failed: its keys are those of the last good run, and none is removed."""
    OFF = "off"
    """Not asked to run by configuration: its keys are removed, as after an explicit change."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """`error` says why a source failed; `since` counts seconds since its last good run (0 when fresh)."""

    state: State
    error: str = ""
    since: float = 0.0


@dataclass(frozen=True, slots=True, order=True)
class Order:
    """Orders the reports of one node without a wall clock.

    `started` is CLOCK_BOOTTIME in nanoseconds when the worker started, `sequence` counts its reports from 1. Only
    reports of the same boot compare; another boot id is newer if the Node's own boot id says so.
    """

    boot_id: str
    started: int
    sequence: int


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
    """The master's answer: seconds until the next beat, should nothing change before."""

    beat: float
