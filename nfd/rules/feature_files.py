"""Features of one node as a person writes them: a NodeFeature object, or its bare spec."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nfd.config.yamltext import Document, Path
from nfd.errors import ConfigError
from nfd.features import Features, from_json
from nfd.rules.parse import OBJECT_KEYS, twice
from nfd.rules.scalars import text_documents

NODE_FEATURE = "NodeFeature"
_SPEC_KEYS = frozenset(("features", "labels"))
_CONTAINERS = ("flags", "attributes", "instances")


def parse_features(text: str, name: str = "features") -> tuple[Features, dict[str, str], list[str]]:
    """Features and labels of a NodeFeature object or its bare spec, and what is odd about it. Raises: ValueError."""
    try:
        found = [one for one in text_documents(text, name) if one[0].data is not None]
    except ConfigError as error:
        raise ValueError(str(error)) from error
    if len(found) > 1:
        raise ValueError(f"{name}: expected one document, found several")
    document, plain = found[0] if found else (Document({}), [])
    data = document.data
    if not isinstance(data, Mapping):
        raise ValueError(f"{name}: expected a mapping with features")
    is_bare = "features" in data or "labels" in data
    if (kind := data.get("kind", NODE_FEATURE)) != NODE_FEATURE:
        raise ValueError(f"{name}: kind is {str(kind)[:80]!r}, expected {NODE_FEATURE}")
    spec = data if is_bare else data.get("spec")
    if not isinstance(spec, Mapping | None):
        raise ValueError(f"{name}: spec must be a mapping")
    spec = spec or {}
    labels = spec.get("labels") or {}
    if not isinstance(labels, Mapping) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError(f"{name}: labels must be a mapping of text")
    try:
        features = from_json(_without_null(spec.get("features")))
    except ValueError as error:  # numbers are text here, so a wrong scalar may be either
        raise ValueError(f"{name}: {str(error).replace('found str', 'found a single value')}") from error
    odd = [f"line {one.line}: {one}" for one in plain]
    odd += map(str, twice(document))
    return features, dict(labels), [*odd, *_unknown(document, spec)]


def _unknown(document: Document, spec: Mapping[str, Any]) -> list[str]:
    """Keys that a NodeFeature does not have, on each of its levels."""
    is_bare, features = spec is document.data, spec.get("features") or {}
    base: Path = () if is_bare else ("spec",)
    levels: list[tuple[Path, Iterable[str], Iterable[str]]] = [
        ((), document.data, OBJECT_KEYS | _SPEC_KEYS if is_bare else OBJECT_KEYS),
        ((*base, "features"), features, _CONTAINERS),
        *(((*base, "features", kind, name), one or {}, ("elements",)) for kind, name, one in _parts(features)),
    ]
    if not is_bare:
        levels.append((base, spec, _SPEC_KEYS))
    wrong = [(*path, key) for path, keys, known in levels for key in keys if key not in known]
    lines = [(document.lines.get(path, 1), path) for path in wrong]
    return [f"line {line}: unknown key {'.'.join(map(str, path))!r}" for line, path in sorted(lines)]


def _parts(features: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for kind in _CONTAINERS:
        yield from ((kind, name, one) for name, one in (features.get(kind) or {}).items())


def _without_null(features: Any) -> Any:
    """Flags and attributes whose elements are null count as a feature without instances: nothing to match."""
    if not isinstance(features, Mapping) or not isinstance(features.get("instances"), Mapping | None):
        return features
    parts = {kind: dict(value) for kind, value in features.items() if isinstance(value, Mapping)}
    instances = parts.setdefault("instances", {})
    for kind in ("flags", "attributes"):
        for name, value in list(parts.get(kind, {}).items()):
            if isinstance(value, Mapping) and value.get("elements") is None:
                del parts[kind][name]
                instances.setdefault(name, {"elements": []})
    return {**features, **parts}
