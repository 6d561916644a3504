"""The content of a report, derived from a scan, to compare it with the last report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nfd.discovery import Discovery, Plan
from nfd.features import Features, Labels
from nfd.report import State


@dataclass(frozen=True, slots=True)
class Content:
    """The part of a report without its order; reports with equal contents tell the master nothing new."""

    labels: Labels = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, State] = field(default_factory=dict)
    features: Features = field(default_factory=Features)


def derive_content(plan: Plan, found: Discovery, unpublished: Iterable[str] = ()) -> Content:
    """The content to report of a scan, without the features that `unpublished` names or matches (`cpu.*`)."""
    dropped = hidden_in(found, unpublished)
    features = found.features.without(dropped) if dropped else found.features
    return Content(found.labels, found.origins, derive_states(plan, found), features)


def hidden_in(found: Discovery, unpublished: Iterable[str]) -> list[str]:
    """The features that these patterns match."""
    patterns = tuple(unpublished)
    return [name for name in found.features.names() if any(matches(name, one) for one in patterns)]


def matches(name: str, pattern: str) -> bool:
    """NFD's `noPublishFeatures`: an exact name, or a prefix before a trailing `*`."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def unused_patterns(patterns: Iterable[str], found: Discovery) -> tuple[str, ...]:
    """The patterns that match no feature, which are probably misspelt."""
    known = found.features.names()
    return tuple(one for one in patterns if not any(matches(name, one) for name in known))


def derive_states(plan: Plan, found: Discovery) -> dict[str, State]:
    """The state of every known source: failed if some of its features may be missing, or if `doubtful` lists it."""
    running = {source.name for source in (*plan.feature_sources, *plan.label_sources)}
    failed = found.doubtful | doubtful(plan, found).keys()
    return {
        name: State.OFF if name not in running else State.FAILED if name in failed else State.FRESH
        for name in sorted(plan.configs)
    }


def doubtful(plan: Plan, found: Discovery) -> dict[str, str]:
    """Sources that wait for labels of the Node, and while some source has not succeeded yet, those with rules about all
    features; with the reason.

    A rule that does not match may match as soon as that source is read, so none of its labels may be removed.
    """
    waiting = dict.fromkeys(sorted(found.waiting), "the labels of the Node are not known yet")
    unknown = sorted(name for name, scan in found.scans.items() if not scan.known)
    if not unknown:
        return waiting
    reason = f"rules lack the features of {', '.join(unknown)}"
    return waiting | {source.name: reason for source in plan.label_sources if source.load is not None}
