"""What a feature source is: a record of plain functions, without state or base class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from nfd.config.section import Section
from nfd.features import Features, Labels
from nfd.host import Host


class Labelled(NamedTuple):
    """Labels together with what went wrong on the way: (subject, reason) pairs."""

    labels: Labels
    notes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A feature source.

    `discover` reads the host; a HostError means that the source failed, `host.note` that one item was skipped.
    `labels` derives labels from the features of all sources; names get the prefix
    `feature.node.kubernetes.io/<source>-` unless the flags below say otherwise.
    """

    name: str
    config: type[Section]
    discover: Callable[[Host, Any], Features]
    labels: Callable[[Features, Any], Labels | Labelled]
    load: Callable[[Host, Any], Any] | None = None
    """Extends the configuration from files of the machine before labels are derived (custom.d)."""
    priority: int = 0
    """Labels of a source with a higher number win."""
    default: bool = True
    """Whether `all` includes it."""
    verbatim: bool = False
    """Label names get no `<source>-` in front (local, custom)."""
    namespaced: bool = False
    """A slash in a label name ends a namespace, instead of being an illegal character."""
    cleaned: bool = True
    """Illegal names and values are cleaned; otherwise dropped with a reason, since a rule's author can see it."""
    wakes: frozenset[str] = frozenset()
    """Subsystems (pci, usb, block, module, net, cpu, memory) whose kernel events concern it."""
    watches: tuple[str, ...] = ()
    """Directories of the host whose files concern it."""
    settled: bool = False
    """Its inputs change only with an event it wakes on, or a reboot: the timer need not read them again."""
