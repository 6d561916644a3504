"""Feature values and what one discovery pass found.

A feature is named `<domain>.<feature>` (`pci.device`), where the domain is the name of its source, apart from
`OTHER_DOMAINS`. It lives in one of three containers, as in NFD's NodeFeature API
(api/nfd/v1alpha1/types.go): flags are sets of names, attributes map names to text, instances are lists of attribute
maps. All values are text; booleans are `true` and `false`. A feature that is there with zero elements differs from one
that is absent.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_LONGEST = 300
"""Characters of a key in a message."""

OTHER_DOMAINS = {"rdma": "network"}
"""Domains of features that are not the name of their source, and that source, for all built-in ones."""

Instance = Mapping[str, str]
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Features:
    """Raw features by container; feature name → elements."""

    flags: Mapping[str, frozenset[str]] = field(default_factory=dict)
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    instances: Mapping[str, tuple[Instance, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.flags or self.attributes or self.instances)

    def names(self) -> frozenset[str]:
        """All feature names, whatever their container."""
        return frozenset(self.flags) | frozenset(self.attributes) | frozenset(self.instances)

    def without(self, dropped: Iterable[str]) -> Features:
        """A copy that lacks the named features in all three containers."""
        names = frozenset(dropped)
        return Features(
            {key: value for key, value in self.flags.items() if key not in names},
            {key: value for key, value in self.attributes.items() if key not in names},
            {key: value for key, value in self.instances.items() if key not in names},
        )


def sources_of(feature: str, sources: Container[str]) -> frozenset[str]:
    """Those of the sources that may give a feature; none if it comes from elsewhere, such as a plug-in or an object."""
    domain = feature.partition(".")[0]
    return frozenset(name for name in (domain, OTHER_DOMAINS.get(domain)) if name is not None and name in sources)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something dropped, cleaned or unreadable: which source, what it concerns (key, path), and why."""

    source: str
    subject: str
    reason: str
    written: bool = field(default=False, compare=False)
    """Whether it is a mistake in a rule, which somebody wrote and can mend."""


def printable(text: str) -> str:
    """File names and variables may hold bytes that are not UTF-8; as a feature's text they become U+FFFD.

    So does a lone surrogate that stands for no byte (PEP 383).
    """
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def join(parts: Iterable[Features]) -> Features:
    """Join features of different sources; a later part wins where two name the same feature."""
    flags: dict[str, frozenset[str]] = {}
    attributes: dict[str, Mapping[str, str]] = {}
    instances: dict[str, tuple[Instance, ...]] = {}
    for part in parts:
        flags.update(part.flags)
        attributes.update(part.attributes)
        instances.update(part.instances)
    return Features(flags, attributes, instances)


def hold(found: Features, before: Features, names: Iterable[str]) -> Features:
    """`found`, with the elements that the named features had before and now lack.

    An instance of before takes the place of one that has less of the same attributes.
    """
    flags, attributes, instances = dict(found.flags), dict(found.attributes), dict(found.instances)
    for name in names:
        if name in before.flags:
            flags[name] = flags.get(name, frozenset()) | before.flags[name]
        if name in before.attributes:
            attributes[name] = {**before.attributes[name], **attributes.get(name, {})}
        if name in before.instances:
            instances[name] = _hold_instances(instances.get(name, ()), before.instances[name])
    return Features(flags, attributes, instances)


def _hold_instances(found: tuple[Instance, ...], before: tuple[Instance, ...]) -> tuple[Instance, ...]:
    fresh = list(found)
    for one in before:
        same = next((index for index, new in enumerate(fresh) if new.items() <= one.items()), None)
        if same is not None:
            del fresh[same]
    return (*before, *fresh)


def merge(parts: Iterable[Features]) -> Features:
    """Merge NodeFeature objects as NFD does: flags united, later attributes win key by key, instances appended."""
    flags: dict[str, set[str]] = {}
    attributes: dict[str, dict[str, str]] = {}
    instances: dict[str, list[Instance]] = {}
    for part in parts:  # each element is copied once, not again for each later object
        for name, elements in part.flags.items():
            flags.setdefault(name, set()).update(elements)
        for name, values in part.attributes.items():
            attributes.setdefault(name, {}).update(values)
        for name, found in part.instances.items():
            instances.setdefault(name, []).extend(found)
    return Features(
        {name: frozenset(elements) for name, elements in flags.items()},
        attributes,
        {name: tuple(found) for name, found in instances.items()},
    )


def to_json(features: Features) -> dict[str, Any]:
    """The shape of NodeFeature `spec.features`, keys sorted."""
    return {
        "flags": {
            key: {"elements": {name: {} for name in sorted(features.flags[key])}} for key in sorted(features.flags)
        },
        "attributes": {
            key: {"elements": dict(sorted(features.attributes[key].items()))} for key in sorted(features.attributes)
        },
        "instances": {
            key: {"elements": [{"attributes": dict(sorted(one.items()))} for one in features.instances[key]]}
            for key in sorted(features.instances)
        },
    }


def from_json(data: Mapping[str, Any] | None) -> Features:
    """Read the shape of NodeFeature `spec.features`; raises ValueError naming the place that does not fit it."""
    data = _mapping(data, "features")
    sections = {name: _mapping(data.get(name), name) for name in ("flags", "attributes", "instances")}
    return Features(
        {key: frozenset(_elements(value, _place("flags", key))) for key, value in sections["flags"].items()},
        {key: _attributes(value, _place("attributes", key)) for key, value in sections["attributes"].items()},
        {key: _instances(value, _place("instances", key)) for key, value in sections["instances"].items()},
    )


def _place(container: str, key: str) -> str:
    """A key in a message, of which it must not make several lines, or a long one."""
    return f"{container}.{key[:_LONGEST]}" if key.isprintable() else f"{container}.{key[:_LONGEST]!r}"


def _elements(value: Any, where: str) -> dict[str, Any]:
    return _mapping(_mapping(value, where).get("elements"), f"{where}.elements")


def _attributes(value: Any, where: str) -> dict[str, str]:
    return _texts(_elements(value, where), where)


def _instances(value: Any, where: str) -> tuple[Instance, ...]:
    elements = _mapping(value, where).get("elements") or ()
    if not isinstance(elements, list | tuple):
        raise ValueError(f"{where}.elements: expected a list, found {type(elements).__name__}")
    return tuple(
        _texts(_mapping(_mapping(one, f"{where}[{index}]").get("attributes"), f"{where}[{index}].attributes"), where)
        for index, one in enumerate(elements)
    )


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: expected a mapping, found {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"{where}: key {key!r} is not text")
    return dict(value)


def _texts(values: Mapping[str, Any], where: str) -> dict[str, str]:
    for key, value in values.items():
        if not isinstance(value, str):
            raise ValueError(f"{_place(where, key)}: expected text, found {type(value).__name__}")
    return dict(values)
