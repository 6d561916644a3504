"""Finds out by trial why a machine has a label, or why not: a scan without filters and with all sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from nfd.cli.machine import POLICY, Seen
from nfd.cli.rule_check import Trace, evaluate_rules
from nfd.discovery import Plan, discover
from nfd.features import Features, Labels, sources_of
from nfd.host import Host
from nfd.labels import Naming, derive
from nfd.master.node.outcome import Outcome, evaluate_report
from nfd.master.rules.ruleset import RuleSet
from nfd.message_text import did_you_mean
from nfd.names import FEATURE_NS
from nfd.report import Report
from nfd.rules.compile import CompiledRule
from nfd.rules.evaluate import Given
from nfd.rules.policy import Policy, prefix_keys
from nfd.source import Labelled, Source
from nfd.sources import custom, known
from nfd.store.base import Kind

MOST_SHOWN = 20
_MOST_ELEMENTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Case:
    """One label on one machine."""

    key: str
    host: Host
    plan: Plan
    rules: RuleSet
    seen: Seen
    policy: Policy = POLICY
    """The master's."""

    @property
    def name(self) -> str:
        """The part of the key that sources set."""
        return self.key.removeprefix(f"{FEATURE_NS}/")

    @property
    def features(self) -> Features:
        return self.seen.discovery.features

    def config(self, source: Source) -> Any:
        """The source's configuration."""
        config = self.plan.configs[source.name]
        config = source.for_node(self.host, config) if source.for_node is not None else config
        return source.load(self.host, config) if source.load is not None else config

    def maker(self, source: Source) -> Make:
        """The function that makes the source's labels by full key, without the white list."""
        config = self.config(source)

        def make(features: Features) -> Labels:
            found = source.labels(features, config)
            naming = Naming(source.name, source.verbatim, source.namespaced, source.cleaned, source.written)
            labels = found.labels if isinstance(found, Labelled) else found
            return prefix_keys(derive(naming, labels).labels, self.policy)

        return make

    def outcome_of_rules(self, features: Features) -> Outcome:
        """The outcome of all rules together."""
        return evaluate_report(Report("", features=features), self.rules, self.policy)

    def labels_of_rules(self, features: Features) -> Labels:
        """Labels that all rules together set, with references resolved."""
        return self.outcome_of_rules(features).derive_desired().of(Kind.LABELS)

    def all_rules(self) -> Iterator[tuple[str, CompiledRule, Given | str]]:
        """Rules of the custom source and of rule files: where from, the rule, and its result or why it has none."""
        for source in self.plan.label_sources:
            config = self.config(source)
            if isinstance(config, custom.Rules):
                trace = Trace(self.features)
                custom.run(config, self.features, trace.record)
                for rule in config.rules:
                    yield f"source {source.name}, rule {rule.name!r}", rule, trace.text(rule)
        for rule, given in evaluate_rules(self.rules, self.features, self.policy):
            yield f"rule {rule.name!r}", rule, given


def reasons(case: Case) -> list[str]:
    """Why the label is missing: one or more reasons, the most certain first."""
    sure = [*_dropped(case), *_disabled(case), *_rules(case)]
    return sure or list(_unused_feature(case)) or [*_failed(case), *_unknown(case)]


def _dropped(case: Case) -> Iterator[str]:
    """What the problems of the scan say about this label."""
    for problem in case.seen.problems:
        names = (problem.subject, f"{problem.source}-{problem.subject}")
        if case.key in names or case.name in names:
            yield f"{problem.source}: {problem.subject}: {problem.reason}"


def _disabled(case: Case) -> Iterator[str]:
    """Sources that would set it if they were enabled."""
    everything = tuple(known())
    plan = replace(case.plan, feature_sources=everything, label_sources=everything, allowed=None)
    found = discover(case.host, plan)
    labels = prefix_keys(found.labels, case.policy)
    if case.key not in labels:
        return
    name = found.origins.get(case.key) or found.origins.get(case.name, "")
    lists: Mapping[str, tuple[Source, ...]] = {
        "featureSources": case.plan.feature_sources,
        "labelSources": case.plan.label_sources,
    }
    off = [f"core.{option}" for option, sources in lists.items() if name not in {one.name for one in sources}]
    if off:
        yield f"source {name} would set it to {labels[case.key]!r}, but {' and '.join(off)} disable it"
    elif case.key not in case.seen.discovery.labels and case.name not in case.seen.discovery.labels:
        yield f"source {name} sets it to {labels[case.key]!r}, but core.labelWhiteList does not match it"


def _rules(case: Case) -> Iterator[str]:
    """Rules that set the label, or may set it by a template, and do not match."""
    for where, rule, given in case.all_rules():
        if isinstance(given, Given):
            continue
        if case.key in prefix_keys(rule.labels, case.policy):
            yield f"{where} would set it: {given}"
        elif rule.labels_template is not None:
            yield f"{where} sets labels by a template, perhaps this one: {given}"


def _unused_feature(case: Case) -> Iterator[str]:
    """A feature from which a label of this name could be made with other options of the source."""
    source, _, rest = case.name.partition("-")
    feature, _, element = rest.partition(".")
    name = f"{source}.{feature}"
    if element in case.features.flags.get(name, ()) or element in case.features.attributes.get(name, {}):
        yield _unused(name, element)
        return
    if element and name in {*case.features.flags, *case.features.attributes}:
        elements = (*case.features.flags.get(name, ()), *case.features.attributes.get(name, {}))
        yield f"feature {name} has no {element}{did_you_mean(element, elements)}"
        return
    words = set(feature.split("_"))
    for name in sorted(case.features.instances):
        for one in case.features.instances[name] if name.startswith(f"{source}.") else ():
            if words and words <= set(one.values()):
                shown = " ".join(f"{key}={value}" for key, value in sorted(one.items()))
                yield _unused(name, shown)


def _unused(name: str, element: str) -> str:
    source = "".join(sources_of(name, {one.name for one in known()})) or name.partition(".")[0]
    return f"feature {name} has {element}, but source {source} makes no label of it; its options are sources.{source}"


def _failed(case: Case) -> Iterator[str]:
    for name, error in sorted(case.seen.discovery.failed.items()):
        yield f"source {name} failed: {error}"


def _unknown(case: Case) -> Iterator[str]:
    """The source of such labels, its features, and labels with a similar name."""
    owners = _owners(case.key)
    for name in owners:
        if name not in {source.name for source in case.plan.feature_sources}:
            yield f"labels of this name are those of source {name}, which core.featureSources disables"
        elif seen := [_seen(case.features, one) for one in sorted(case.features.names()) if sources_of(one, {name})]:
            yield f"source {name} makes no such label from the features here: {', '.join(seen)}"
        else:
            yield f"source {name} makes no such label here: it found no feature"
    if not owners:
        ran = ", ".join(source.name for source in case.plan.label_sources)
        yield f"no matching rule and no source sets it here; sources that ran: {ran or '(none)'}"
    yield from similar(case.key, case.seen.labels)


def similar(key: str, labels: Iterable[str]) -> Iterator[str]:
    """Labels that are there and have a similar name, in whatever namespace."""
    by_name = {one.rpartition("/")[2]: one for one in sorted(labels)}
    if close := [by_name[name] for name in get_close_matches(key.rpartition("/")[2], by_name, n=3)]:
        yield f"similar labels: {', '.join(close)}"


def _owners(key: str) -> list[str]:
    """The source whose name is the first part of a label, or in its namespace."""
    namespace, _, name = key.rpartition("/")
    if namespace == FEATURE_NS:
        return [source.name for source in known() if name.startswith(f"{source.name}-")]
    return [source.name for source in known() if source.namespaced and source.name in namespace.split(".")]


def _seen(features: Features, name: str) -> str:
    """A feature with its elements, or their number."""
    shown = [*sorted(features.flags.get(name, ()))]
    shown += [f"{key}={value}" for key, value in sorted(features.attributes.get(name, {}).items())]
    count = len(shown) + len(features.instances.get(name, ()))
    text = ", ".join(shown) if count == len(shown) <= _MOST_ELEMENTS_SHOWN else f"{count} elements"
    return f"{name} ({text or 'empty'})"


Make = Callable[[Features], Labels]
"""Makes the labels of one source, by full key, from a set of features."""

MOST_ELEMENTS = 5000
"""With more elements of a feature than that, only the feature is named."""


def evidence(case: Case, make: Make) -> Iterator[str]:
    """The features without which `make` does not set the label to its value, by name, with the elements that matter."""
    for name in sorted(case.features.names()):
        if _differs(make, case.features, case.features.without([name]), case.key):
            found = _elements(make, case.features, name, case.key)
            yield f"from feature {name}" + (": " + ", ".join(found[:MOST_SHOWN]) if found else "")


def _elements(make: Make, features: Features, name: str, key: str) -> list[str]:
    """The elements without one of which the label would be different or missing."""
    lesser = list(_without_one(features, name))
    if len(lesser) > MOST_ELEMENTS:
        return []
    return [shown for shown, fewer in lesser if shown and _differs(make, features, fewer, key)]


def _differs(make: Make, features: Features, fewer: Features, key: str) -> bool:
    try:
        return make(fewer).get(key) != make(features).get(key)
    except Exception:  # a source that fails without a feature uses it
        return True


def _without_one(features: Features, name: str) -> Iterator[tuple[str, Features]]:
    """The features without one element of one of them, and that element as text."""
    for element in sorted(features.flags.get(name, ())):
        flags = {**features.flags, name: features.flags[name] - {element}}
        yield element, Features(flags, features.attributes, features.instances)
    values = features.attributes.get(name, {})
    for element in sorted(values):
        rest = {other: value for other, value in values.items() if other != element}
        attributes = {**features.attributes, name: rest}
        yield f"{element}={values[element]}", Features(features.flags, attributes, features.instances)
    found = features.instances.get(name, ())
    for index, one in enumerate(found):
        instances = {**features.instances, name: (*found[:index], *found[index + 1 :])}
        shown = " ".join(f"{attribute}={value}" for attribute, value in sorted(one.items()))
        yield shown, Features(features.flags, features.attributes, instances)
