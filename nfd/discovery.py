"""One pass over the sources: run, time, isolate failures, derive labels."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nfd.errors import NfdError
from nfd.features import Features, Problem, join
from nfd.host import Host
from nfd.labels import Naming, Searcher, derive
from nfd.source import Labelled, Source


@dataclass(frozen=True, slots=True)
class Plan:
    """Which sources run, which of them give labels, and how they are configured (by source name)."""

    feature_sources: tuple[Source, ...]
    label_sources: tuple[Source, ...]
    configs: Mapping[str, Any]
    allowed: Searcher | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """What the latest run of one source gave. After a failure `features` are those of its last good run."""

    features: Features = field(default_factory=Features)
    error: str | None = None
    known: bool = True
    """False while no run has succeeded yet."""
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

    @property
    def failed(self) -> Mapping[str, str]:
        """Source name → reason, for every source whose latest run failed."""
        errors = {name: scan.error for name, scan in self.scans.items() if scan.error is not None}
        return {**errors, **self.label_errors}


def discover(
    host: Host, plan: Plan, previous: Discovery | None = None, only: Collection[str] | None = None
) -> Discovery:
    """Run the sources and derive labels.

    `previous` is what a failing source falls back to; `only` names the sources to run again, all others keep their
    previous scan.
    """
    before = previous.scans if previous is not None else {}
    scans: dict[str, Scan] = {}
    for source in plan.feature_sources:
        if only is not None and source.name not in only and source.name in before:
            scans[source.name] = before[source.name]
        else:
            scans[source.name] = _run(host, source, plan.configs[source.name], before.get(source.name))
    return _label(host, plan, scans)


def _run(host: Host, source: Source, config: Any, before: Scan | None) -> Scan:
    """One source, isolated: whatever it raises is its own failure."""
    start = time.perf_counter()
    host.take_notes()
    try:
        scan = Scan(source.discover(host, config))
    except NfdError as error:
        scan = _stale(before, str(error))
    except Exception as error:  # a defect of one source must not take the labels of the others
        scan = _stale(before, f"{type(error).__name__}: {error}")
    problems = tuple(Problem(source.name, subject, reason) for subject, reason in host.take_notes())
    if scan.error is not None:
        problems += (Problem(source.name, source.name, f"failed: {scan.error}"),)
    return replace(scan, problems=problems, seconds=time.perf_counter() - start)


def _stale(before: Scan | None, error: str) -> Scan:
    return Scan(before.features if before else Features(), error, before.known if before else False)


def _label(host: Host, plan: Plan, scans: Mapping[str, Scan]) -> Discovery:
    features = join(scan.features for scan in scans.values())
    labels: dict[str, str] = {}
    origins: dict[str, str] = {}
    problems = [problem for scan in scans.values() for problem in scan.problems]
    errors: dict[str, str] = {}
    for source in sorted(plan.label_sources, key=lambda one: (one.priority, one.name)):
        try:
            found = _labels_of(host, source, plan.configs[source.name], features)
        except Exception as error:  # as above: isolate
            errors[source.name] = f"{type(error).__name__}: {error}"
            problems.append(Problem(source.name, source.name, f"labels failed: {errors[source.name]}"))
            continue
        problems.extend(Problem(source.name, subject, reason) for subject, reason in found.notes)
        naming = Naming(source.name, source.verbatim, source.namespaced, source.cleaned)
        derived = derive(naming, found.labels, plan.allowed)
        problems.extend(derived.problems)
        labels.update(derived.labels)
        origins.update(dict.fromkeys(derived.labels, source.name))
    return Discovery(scans, features, labels, origins, tuple(problems), errors)


def _labels_of(host: Host, source: Source, config: Any, features: Features) -> Labelled:
    host.take_notes()
    if source.load is not None:
        config = source.load(host, config)
    found = source.labels(features, config)
    notes = tuple(host.take_notes())
    return Labelled(found.labels, found.notes + notes) if isinstance(found, Labelled) else Labelled(found, notes)
