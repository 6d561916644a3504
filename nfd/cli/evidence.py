"""What a label was made from, found by leaving out one thing after the other: it needs no help from the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nfd.features import Features, Labels

Make = Callable[[Features], Labels]
"""Labels of one source, by full key, for a set of features."""

MOST_ELEMENTS = 5000
"""Above this many elements of one feature, only the feature is named."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A feature, and the element of it without which the label would be another or missing; "" if no single one is."""

    feature: str
    element: str = ""


def find_evidence(make: Make, features: Features, key: str) -> list[Evidence]:
    """Features without which `make` does not give the label as it does now, in the order of their names."""
    found: list[Evidence] = []
    for name in sorted(features.names()):
        if _differs(make, features, features.without([name]), key):
            elements = _elements(make, features, name, key)
            found += elements or [Evidence(name)]
    return found


def _elements(make: Make, features: Features, name: str, key: str) -> list[Evidence]:
    lesser = list(_without_one(features, name))
    if len(lesser) > MOST_ELEMENTS:
        return []
    return [Evidence(name, shown) for shown, fewer in lesser if _differs(make, features, fewer, key)]


def _differs(make: Make, features: Features, fewer: Features, key: str) -> bool:
    try:
        return make(fewer).get(key) != make(features).get(key)
    except Exception:  # a source that cannot do without something uses it
        return True


def _without_one(features: Features, name: str) -> Iterator[tuple[str, Features]]:
    """The features with one element of one of them left out, and that element as text."""
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
