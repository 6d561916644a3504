"""What a feature source is: a record of plain functions, without state or base class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from nfd.config.section import Section
from nfd.features import Features, Labels
from nfd.host import Host


class Partial(NamedTuple):
    """What a source found although something was there and unreadable.

    `failed` gives the reason for each feature that may lack elements: those of its last good run are kept beside the
    new ones, and the source counts as failed, so that nothing of it is removed.
    """

    features: Features
    failed: Mapping[str, str]
    held: frozenset[str] = frozenset()
    """Those of `failed` for which the source itself keeps what it cannot read any more. Nothing of the last good run is
    added to them."""
    whole: bool = False
    """And has all of it: what is missing is gone, and is removed."""


class Labelled(NamedTuple):
    """Labels together with what went wrong on the way: (subject, reason) pairs.

    A text in `error` says that labels may be missing: the source counts as failed, so that none of its is removed,
    unless `whole` says that something is wrong and no label is missing for it.
    """

    labels: Labels
    notes: tuple[tuple[str, str], ...] = ()
    error: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A feature source.

    `discover` reads the host; a HostError means that the source failed, a Partial that some of its features did,
    `host.note` that one item was skipped.
    `labels` derives labels from the features of all sources; names get the prefix
    `feature.node.kubernetes.io/<source>-` unless the flags below say otherwise.
    """

    name: str
    config: type[Section]
    discover: Callable[[Host, Any], Features | Partial]
    labels: Callable[[Features, Any], Labels | Labelled]
    load: Callable[[Host, Any], Any] | None = None
    """Extends the configuration from files of the machine before labels are derived (custom.d)."""
    for_node: Callable[[Host, Any], Any] | None = None
    """The configuration that the labels of the Node (`host.node_labels`) choose, before labels are derived; None if
    these are not known yet and matter: until then no label of the source is given, and none is removed."""
    resume: Callable[[Features, Features], Features] | None = None
    """Joins what was found with the features of the run before, for devices that keep their identity while silent."""
    devices: Callable[[Features], Mapping[str, int]] | None = None
    """Number of devices by state (present, usable, failing), for metrics that an alert can compare."""
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
    written: bool = False
    """Label values are what somebody wrote, so that an empty one is meant; a machine's empty text is no value."""
    dependent: bool = False
    """Its labels come from the features of other sources: none is removed before all of these have been read once."""
    depends: frozenset[str] = frozenset()
    """The same, where it is about the features of these sources alone."""
    wakes: frozenset[str] = frozenset()
    """Subsystems (pci, usb, block, module, net, cpu, memory, nd, drm) whose kernel events concern it."""
    watches: tuple[str, ...] = ()
    """Directories of the host whose files concern it."""
    follows: Callable[[Host], tuple[str, ...]] | None = None
    """Names of files whose change concerns it and causes no event. They are listed every second while it has features,
    and it runs once they have stayed the same for `quiet` seconds."""
    quiet: float = 1.0
    """Less than a second where one change is one step and no burst."""
    paused: Callable[[Host], str] | None = None
    """Why it must not run now, by the labels of the Node (`host.node_labels`), or since these are about to be known
    (`host.awaits_labels`); empty if it may."""
    program: Callable[[], type[Section]] | None = None
    """Model of the configuration file of a program that comes with the source, for `nfd config`."""
    seconds: float = 30.0
    """How long a run, or the derivation of labels, may take in a worker; then its last good result stands."""
    needs: Callable[[Any], float] | None = None
    """Seconds that a run may need as its configuration says; the time limit is then no shorter."""
    settled: bool = False
    """Its inputs change only with an event it wakes on, or a reboot: the timer need not read them again."""

    def limit(self, config: Any) -> float:
        """Seconds for a run, or for the derivation of labels, with this configuration."""
        return self.seconds if self.needs is None else max(self.seconds, self.needs(config))
