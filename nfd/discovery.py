"""One pass over the sources: run, time, isolate failures, derive labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from nfd import sources
from nfd.config.section import Section
from nfd.errors import NfdError
from nfd.features import Features, Problem, hold, join, sources_of
from nfd.host import Host
from nfd.labels import Naming, Searcher, derive
from nfd.runtime.failures import failed
from nfd.source import Labelled, Partial, Source

T = TypeVar("T")


class Run(Protocol):
    """Runs the work of one source; the name is for messages. `nfd.runtime.threads.Limits.run` is one."""

    def __call__(self, name: str, seconds: float, work: Callable[[], T], /) -> T: ...


def run_at_once(name: str, seconds: float, work: Callable[[], T], /) -> T:
    """Without a time limit."""
    return work()


@dataclass(frozen=True, slots=True)
class Plan:
    """Which sources run, which of them give labels, and how they are configured (by source name)."""

    feature_sources: tuple[Source, ...]
    label_sources: tuple[Source, ...]
    configs: Mapping[str, Any]
    allowed: Searcher | None = None
    problems: tuple[Problem, ...] = ()
    """Plug-ins that are not used; part of every pass's problems."""
    pointless: str = ""
    """The option that names nothing but unknown sources, a mistake and no wish; "" if there is none."""


def make_plan(
    feature_sources: Sequence[str],
    label_sources: Sequence[str],
    configs: Section,
    allowed: Searcher | None = None,
) -> Plan:
    """The plan that the options `core.featureSources` and `core.labelSources` ask for.

    `configs` is an instance of `nfd.sources.section()`. Unknown names are ignored: whoever read the
    options has warned of them.
    """
    known = sources.known()
    features, odd_features = sources.select(feature_sources, known)
    labels, odd_labels = sources.select(label_sources, known)
    named = (("featureSources", feature_sources, odd_features), ("labelSources", label_sources, odd_labels))
    pointless = next((f"core.{option}" for option, wanted, odd in named if wanted and len(odd) == len(wanted)), "")
    problems = tuple(Problem("core", name, reason) for name, reason in sources.superfluous())
    by_name = {source.name: getattr(configs, source.name) for source in known}
    return Plan(features, labels, by_name, allowed, problems, pointless)


@dataclass(frozen=True, slots=True)
class Scan:
    """What the latest run of one source gave.

    After a failure `features` are those of its last good run; after a partial one, only for what could not be read.
    """

    features: Features = field(default_factory=Features)
    error: str | None = None
    known: bool = True
    """False while no run has succeeded yet."""
    whole: bool = False
    """After a partial run: what could not be read is there as it was, so that nothing is missing."""
    problems: tuple[Problem, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Discovery:
    """What one pass found. `origins` names the source of each label."""

    scans: Mapping[str, Scan] = field(default_factory=dict)
    features: Features = field(default_factory=Features)
    labels: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    label_errors: Mapping[str, str] = field(default_factory=dict)
    """Source name → reason, for every source whose labels could not be made."""
    incomplete: Mapping[str, str] = field(default_factory=dict)
    """Source name → reason, for every source of which labels may be missing."""
    devices: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Source name → number of devices by state, for sources that report them."""
    whole: frozenset[str] = frozenset()
    """Those of `incomplete` of which no label is missing all the same."""
    waiting: frozenset[str] = frozenset()
    """Sources whose labels depend on labels of the Node that the worker does not know yet."""

    @property
    def doubtful(self) -> frozenset[str]:
        """Names of the failed sources of which something may be missing, so that nothing of theirs may go."""
        certain = {name for name, scan in self.scans.items() if scan.error is None or scan.whole}
        scanned = self.scans.keys() - certain
        return frozenset(scanned | (self.incomplete.keys() - self.whole) | self.label_errors.keys() | self.waiting)

    @property
    def failed(self) -> Mapping[str, str]:
        """Source name → reason, for every source whose latest run failed, wholly or in part."""
        errors = {name: scan.error for name, scan in self.scans.items() if scan.error is not None}
        return {**errors, **self.incomplete, **self.label_errors}

    @property
    def lost(self) -> frozenset[str]:
        """Names of the sources that failed altogether: no feature and no label of theirs is known."""
        giving = {name for name, scan in self.scans.items() if scan.features} | set(self.origins.values())
        return frozenset(self.failed.keys() - self.incomplete.keys()) - giving


def discover(
    host: Host,
    plan: Plan,
    previous: Discovery | None = None,
    only: Collection[str] | None = None,
    run: Run = run_at_once,
) -> Discovery:
    """Run the sources and derive labels.

    `previous` is what a failing source falls back to; `only` names the sources to run again, all others keep their
    previous scan. `run` does what a source has to do, and may give up waiting for it.
    """
    before = previous.scans if previous is not None else {}
    scans: dict[str, Scan] = {}
    for source in plan.feature_sources:
        if only is not None and source.name not in only and source.name in before:
            scans[source.name] = before[source.name]
        else:
            scans[source.name] = _scan(host, source, plan.configs[source.name], before.get(source.name), run)
    return _label(host, plan, scans, run)


def derive_again(host: Host, plan: Plan, features: Features) -> Discovery:
    """The labels that another plan makes of features that were found before; nothing is scanned.

    Sources read `host` for their configuration alone. Of a source that the plan does not run, no feature is known, but
    a feature of no known source stays: it may be one of a plug-in.
    """
    scans = {source.name: Scan() for source in plan.feature_sources}
    return _label(host, plan, scans, run_at_once, features.without(switched_off(plan, features)))


def switched_off(plan: Plan, features: Features) -> set[str]:
    """Names of the features whose source is known and not run."""
    running = {source.name for source in plan.feature_sources}
    sources = {name: sources_of(name, plan.configs) for name in features.names()}
    return {name for name, found in sources.items() if found and not found & running}


def _scan(host: Host, source: Source, config: Any, before: Scan | None, run: Run) -> Scan:
    """One source, isolated: whatever it raises is its own failure, as is a run that does not end."""
    start = time.perf_counter()
    host.take_notes()
    try:
        if source.paused is not None and (reason := source.paused(host)):
            return _stale(before, reason)
        found = run(source.name, source.limit(config), partial(source.discover, host, config))
        scan = _partial(before, found) if isinstance(found, Partial) else Scan(found)
        if source.resume is not None and before is not None:
            resumed = run(source.name, source.limit(config), partial(source.resume, scan.features, before.features))
            scan = replace(scan, features=resumed)
    except NfdError as error:
        scan = _stale(before, str(error))
    except Exception as error:  # a defect of one source must not take the labels of the others
        scan = _stale(before, f"{type(error).__name__}: {error}")
    problems = tuple(Problem(source.name, subject, reason) for subject, reason in host.take_notes())
    if scan.error is not None:
        problems += (Problem(source.name, source.name, f"failed: {scan.error}"),)
    return replace(scan, problems=problems, seconds=time.perf_counter() - start)


def _partial(before: Scan | None, found: Partial) -> Scan:
    """A source of which some features failed: these keep what they had."""
    error = "; ".join(f"{name}: {reason}" for name, reason in found.failed.items())
    features = found.features
    if before:
        features = hold(features, before.features, found.failed.keys() - found.held)
    return Scan(features, error, found.whole or (before.known if before else False), whole=found.whole)


def _stale(before: Scan | None, error: str) -> Scan:
    return Scan(before.features if before else Features(), error, before.known if before else False)


@dataclass(slots=True)
class _Labelling:
    """Labels of one source after the other, a later one overriding; the fields are those of Discovery."""

    allowed: Searcher | None
    problems: list[Problem]
    labels: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    incomplete: dict[str, str] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    cleaned: set[str] = field(default_factory=set)
    """Keys of labels that are not as their source gave them: they never take the place of legal ones."""

    def run(self, host: Host, source: Source, config: Any, features: Features, unknown: str, run: Run) -> None:
        """Make the labels of one source, isolated; `unknown` names sources it needs that no scan has read yet."""
        try:
            work = partial(_labels_of, host, source, config, features)
            found = run(f"labels of {source.name}", source.limit(config), work)
            if found is None:
                self.waiting.add(source.name)
                return
            if unknown and (found.whole or not found.error):
                found = found._replace(error=f"not all features are known yet: {unknown}", whole=False)
            self.add(source, found)
        except Exception as error:  # as for features: a defect of one source must not take the labels of the others
            reason = self.errors[source.name] = f"{type(error).__name__}: {error}"
            self.problems.append(Problem(source.name, source.name, f"labels failed: {reason}"))

    def add(self, source: Source, found: Labelled) -> None:
        written = source.load is not None
        self.problems.extend(Problem(source.name, subject, reason, written) for subject, reason in found.notes)
        if found.error:
            self.incomplete[source.name] = found.error
            self.whole |= {source.name} if found.whole else set()
        naming = Naming(source.name, source.verbatim, source.namespaced, source.cleaned, source.written)
        derived = derive(naming, found.labels, self.allowed)
        self.problems.extend(derived.problems)
        for key in sorted(derived.cleaned & self.labels.keys() - self.cleaned):
            self.problems.append(Problem(source.name, key, f"dropped: {self.origins[key]} gives it besides"))
            del derived.labels[key]
        self.labels.update(derived.labels)
        self.origins.update(dict.fromkeys(derived.labels, source.name))
        self.cleaned = self.cleaned - derived.labels.keys() | derived.cleaned & derived.labels.keys()


def _label(host: Host, plan: Plan, scans: Mapping[str, Scan], run: Run, features: Features | None = None) -> Discovery:
    """`features` are those of the scans, if not given."""
    features = join(scan.features for scan in scans.values()) if features is None else features
    made = _Labelling(
        plan.allowed, [*plan.problems, *(problem for scan in scans.values() for problem in scan.problems)]
    )
    unread = [name for name, scan in scans.items() if scan.error is not None and not scan.known]
    for source in sorted(plan.label_sources, key=lambda one: (one.priority, one.name)):
        unknown = ", ".join(name for name in unread if source.dependent or name in source.depends)
        made.run(host, source, plan.configs[source.name], features, unknown, run)
    return Discovery(
        scans,
        features,
        made.labels,
        made.origins,
        tuple(made.problems),
        made.errors,
        made.incomplete,
        _devices(plan, features),
        frozenset(made.whole),
        frozenset(made.waiting),
    )


def _devices(plan: Plan, features: Features) -> dict[str, Mapping[str, int]]:
    found: dict[str, Mapping[str, int]] = {}
    for source in plan.feature_sources:
        try:
            counted = source.devices(features) if source.devices is not None else {}
        except Exception as error:  # a number for metrics, and no reason to lose the pass
            failed("devices", error, source=source.name)
        else:
            found |= {source.name: counted} if counted else {}
    return found


def _labels_of(host: Host, source: Source, config: Any, features: Features) -> Labelled | None:
    """None if the labels of the Node are not known yet, and matter."""
    host.take_notes()
    if source.for_node is not None and (config := source.for_node(host, config)) is None:
        return None
    if source.load is not None:
        config = source.load(host, config)
    found = source.labels(features, config)
    notes = tuple(host.take_notes())
    return found._replace(notes=found.notes + notes) if isinstance(found, Labelled) else Labelled(found, notes)
