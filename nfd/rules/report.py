"""The rule engine from text to text: what `nfd rules eval` prints and `nfd rules validate` complains about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nfd.config.yamltext import Document, Path
from nfd.errors import ConfigError
from nfd.features import Features, from_json
from nfd.rules.compiled import compile_rules
from nfd.rules.engine import Failure, Outcome, evaluate
from nfd.rules.model import RuleObject
from nfd.rules.parse import OBJECT_KEYS, parse_text, twice
from nfd.rules.policy import Policy, as_json
from nfd.rules.template import Clock
from nfd.rules.written import text_documents

POLICY = Policy(enable_taints=True)
UNREADABLE = "ruleFile"
NODE_FEATURE = "NodeFeature"
_SPEC_KEYS = frozenset(("features", "labels"))
_CONTAINERS = ("flags", "attributes", "instances")


def eval_files(
    rule_texts: Iterable[str], feature_text: str, *, clock: Clock | None = None, name: str = "features"
) -> dict[str, Any]:
    """Evaluate rule files over a feature file, as the master would with default settings and taints switched on.

    What is wrong with the texts is among the problems; one of kind UNREADABLE is a rule file that is no YAML. A rule
    object that a master would never see, as it is of another group, gives nothing and is an error by its name.
    Raises: ValueError if the feature file, called `name`, is no YAML or does not have the shape of a NodeFeature.
    """
    objects: list[RuleObject] = []
    problems: list[dict[str, str]] = []
    for text in rule_texts:
        parsed = parse_text(text)
        hard = [finding for finding in parsed.findings if not finding.soft]
        objects += parsed.objects
        kind = UNREADABLE if parsed.broken else "rules"
        problems += [{"kind": kind, "key": "", "reason": str(finding)} for finding in hard]
    features, labels, odd = parse_features(feature_text, name)
    problems += [{"kind": "features", "key": "", "reason": reason} for reason in odd]
    outcome = evaluate(compile_rules(objects), features, labels=labels, policy=POLICY, clock=clock)
    unseen = tuple(Failure(one.name, one.defect) for one in objects if one.defect is not None)
    return to_json(replace(outcome, errors=(*unseen, *outcome.errors)), problems)


def to_json(outcome: Outcome, problems: Iterable[Mapping[str, str]] = ()) -> dict[str, Any]:
    """An outcome in the JSON form of `nfd rules eval`, keys sorted."""
    return {
        "labels": dict(sorted(outcome.labels.items())),
        "annotations": dict(sorted(outcome.annotations.items())),
        "extendedResources": dict(sorted(outcome.extended_resources.items())),
        "taints": [as_json(taint) for taint in sorted(outcome.taints, key=lambda one: (one.key, one.effect))],
        "vars": dict(sorted(outcome.vars.items())),
        "groups": list(outcome.groups),
        "errors": [{"rule": failure.rule, "reason": failure.reason} for failure in outcome.errors],
        "problems": [
            *problems,
            *({"kind": one.kind, "key": one.key, "reason": one.reason} for one in outcome.problems),
        ],
    }


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
