"""Matches one term of `matchFeatures` against the features of a node.

A feature may exist as flags, attributes and instances at once. Flags and attributes are looked at as a union, instances
one by one; upstream: api/nfd/v1alpha1/expression.go, "MatchMulti".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nfd.features import Features, Instance
from nfd.rules import kernel_module_names
from nfd.rules.operators import Matcher
from nfd.rules.time_limit import EVERY, FREE, Meter

T = TypeVar("T")

Element = Mapping[str, str]
"""What a template sees of one match: `Name` and `Value`, or the attributes of an instance."""

Expressions = tuple[tuple[str, Matcher], ...]
"""Matchers by element name."""

MATCHED = "rule.matched"
"""The attribute feature that collects what earlier rules gave."""


@dataclass(frozen=True, slots=True)
class Term:
    """A compiled term; `expressions` is None if the rule has none."""

    feature: str
    expressions: Expressions | None
    name: Matcher | None

    @property
    def key(self) -> str:
        """The name under which the feature is looked up."""
        return self.feature.lower()

    @property
    def path(self) -> tuple[str, str]:
        """Domain and feature as templates spell them."""
        domain, dot, feature = self.feature.partition(".")
        return (domain, feature) if dot else (domain.lower(), "")


@dataclass(frozen=True, slots=True)
class Feature:
    """All containers of one feature name; None where it does not exist in that form."""

    flags: frozenset[str] | None = None
    attributes: Mapping[str, str] | None = None
    instances: tuple[Instance, ...] | None = None


class View:
    """A node's features by lower-case name, and `rule.matched`, which grows while rules are evaluated.

    `meter` says when a rule has taken too long; `watch` sees the result of each rule (`evaluate.Watch`).
    """

    __slots__ = ("_features", "_names", "matched", "meter", "watch")

    def __init__(self, features: Features, meter: Meter = FREE, watch: Callable[..., None] | None = None) -> None:
        self.meter = meter
        self.watch = watch
        self._features = features
        self._names = _index(features)
        seed = features.attributes.get(MATCHED)
        self.matched: dict[str, str] | None = None if seed is None else dict(seed)

    def get(self, key: str) -> Feature | None:
        """The feature of that lower-case name, or None if the node does not report it."""
        name = self._names.get(key)
        if key == MATCHED and self.matched is not None:
            return Feature(self._features.flags.get(MATCHED), self.matched, self._features.instances.get(MATCHED))
        if name is None:
            return None
        features = self._features
        return Feature(features.flags.get(name), features.attributes.get(name), features.instances.get(name))

    def attribute(self, feature: str, element: str) -> str | None:
        """One attribute, found by the exact names."""
        if feature == MATCHED and self.matched is not None:
            return self.matched.get(element)
        return self._features.attributes.get(feature, {}).get(element)

    def remember(self, outcome: Iterable[Mapping[str, str]]) -> None:
        """Add what a rule gave to `rule.matched`; nothing still creates it."""
        if self.matched is None:
            self.matched = {}
        for values in outcome:
            self.matched.update(values)


def _index(features: Features) -> dict[str, str]:
    """Lower-case name → reported name; the lower-case spelling wins where both are reported."""
    names: dict[str, str] = {}
    for container in (features.flags, features.attributes, features.instances):
        for name in container:
            key = name.lower()
            if key == name or names.get(key) is None:
                names[key] = name
    return names


def match_term(term: Term, view: View, collected: list[Element] | None) -> bool:
    """Whether the term holds; what matched is added to `collected` if given. Raises: RuleError."""
    feature = view.get(term.key)
    if feature is None:
        return False
    if term.expressions is not None and not _match_expressions(term, term.expressions, feature, collected, view.meter):
        return False
    return term.name is None or _match_name(term, term.name, feature, collected, view.meter)


def _match_expressions(
    term: Term, expressions: Expressions, feature: Feature, collected: list[Element] | None, meter: Meter
) -> bool:
    elements: list[Element] | None = None if collected is None else []
    union = _match_union(term, expressions, feature, elements, meter)
    if not feature.instances and not elements:
        return union
    first_will_do = collected is None and all(matcher.is_safe for _, matcher in expressions)
    found = _match_instances(expressions, feature.instances or (), first_will_do, meter)
    if collected is not None:
        collected.extend(sorted(elements or (), key=_name_of) if union else ())
        collected.extend(found)
    return union or bool(found)


def _match_instances(
    expressions: Expressions, instances: Sequence[Instance], first_will_do: bool, meter: Meter
) -> list[Instance]:
    """Instances for which all expressions hold. All are looked at unless no mistake can come up in the others."""
    found = []
    many = len(instances) * len(expressions) > EVERY
    for one in _metered(instances, meter, max(EVERY // len(expressions), 1)) if many else instances:
        for name, matcher in expressions:
            text = one.get(name)
            if matcher.patterns and text is not None:
                meter.spend(matcher.steps((text,)))
            if not matcher.holds(text):
                break
        else:
            found.append(one)
            if first_will_do:
                break
    return found


def _metered(elements: Iterable[T], meter: Meter, size: int) -> Iterator[T]:
    """All of them; every so many the meter is asked whether to go on."""
    for number, one in enumerate(elements):
        if not number % size:
            meter.look()
        yield one


def _match_union(
    term: Term, expressions: Expressions, feature: Feature, elements: list[Element] | None, meter: Meter
) -> bool:
    """Every expression must hold among the flags or the attributes; what asks for absence, among both."""
    flags, attributes = feature.flags, feature.attributes
    if flags is None and attributes is None:
        return False
    for name, matcher in expressions:
        text = None if attributes is None else attributes.get(name)
        if matcher.patterns and text is not None:
            meter.spend(matcher.steps((text,)))
        by_flag = flags is not None and matcher.holds_for_flag(_is_among(term, flags, name))
        by_value = attributes is not None and matcher.holds(text)
        if matcher.on_flag == "absent":
            if (flags is not None and not by_flag) or (attributes is not None and not by_value):
                return False
        elif not by_flag and not by_value:
            return False
        if elements is not None:
            if by_flag:
                elements.append({"Name": name})
            if by_value:
                elements.append({"Name": name, "Value": text or ""})
    return True


def _is_among(term: Term, flags: frozenset[str], name: str) -> bool:
    return kernel_module_names.has(flags, name) if term.key in kernel_module_names.FEATURES else name in flags


def _match_name(term: Term, matcher: Matcher, feature: Feature, collected: list[Element] | None, meter: Meter) -> bool:
    """The expression is asked about names; an instance counts if one of its attribute names holds."""
    test = kernel_module_names.test_of(matcher) if term.key in kernel_module_names.FEATURES else matcher.holds
    flags = _held(matcher, tuple(feature.flags or ()), meter, test)
    attributes = feature.attributes or {}
    named = _held(matcher, tuple(attributes), meter)
    instances = [one for one in feature.instances or () if _held(matcher, tuple(one), meter)]
    if collected is not None:
        elements: list[Element] = [{"Name": name} for name in flags]
        elements += [{"Name": name, "Value": attributes[name]} for name in named]
        collected.extend(sorted(elements, key=_name_of))
        collected.extend(instances)
    return bool(flags or named or instances)


def _name_of(element: Element) -> str:
    return element["Name"]


def _held(matcher: Matcher, names: Sequence[str], meter: Meter, test: Callable[[str], bool] | None = None) -> list[str]:
    """The names that hold, sorted. All are asked, so that a mistake comes up whatever the order."""
    found: list[str] = []
    for start in range(0, len(names), EVERY):
        part = names[start : start + EVERY]
        meter.spend(matcher.steps(part) if matcher.patterns else len(part))
        found += filter(test or matcher.holds, part)
    return sorted(found)
