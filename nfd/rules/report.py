"""The rule engine from text to text: what `nfd rules eval` prints and `nfd rules validate` complains about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nfd.errors import ConfigError
from nfd.features import Features, from_json
from nfd.rules.compiled import compile_rules
from nfd.rules.engine import Outcome, evaluate
from nfd.rules.model import RuleObject
from nfd.rules.parse import parse_text
from nfd.rules.policy import Policy, as_json
from nfd.rules.template import Clock
from nfd.rules.written import text_documents

POLICY = Policy(enable_taints=True)


def eval_files(rule_texts: Iterable[str], feature_text: str, *, clock: Clock | None = None) -> dict[str, Any]:
    """Evaluate rule files over a feature file, as the master would with default settings and taints switched on.

    Raises: ValueError if a text is no YAML, or the features do not have the shape of a NodeFeature.
    """
    objects: list[RuleObject] = []
    problems: list[dict[str, str]] = []
    for text in rule_texts:
        parsed = parse_text(text)
        hard = [finding for finding in parsed.findings if not finding.soft]
        objects += parsed.objects
        problems += [{"kind": "rules", "key": "", "reason": str(finding)} for finding in hard]
    features, labels = parse_features(feature_text)
    outcome = evaluate(compile_rules(objects), features, labels=labels, policy=POLICY, clock=clock)
    return to_json(outcome, problems)


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


def parse_features(text: str) -> tuple[Features, dict[str, str]]:
    """Features and labels of a NodeFeature object or its bare spec. Raises: ValueError."""
    try:
        found = [document.data for document, _ in text_documents(text, "features") if document.data is not None]
    except ConfigError as error:
        raise ValueError(str(error)) from error
    if len(found) > 1:
        raise ValueError("expected one document, found several")
    data = found[0] if found else {}
    if not isinstance(data, Mapping):
        raise ValueError("expected a mapping with features")
    spec = data.get("spec") if "features" not in data and "labels" not in data else data
    if spec is None:
        spec = {}
    if not isinstance(spec, Mapping):
        raise ValueError("spec must be a mapping")
    labels = spec.get("labels") or {}
    if not isinstance(labels, Mapping) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError("labels must be a mapping of text")
    return from_json(_without_null(spec.get("features"))), dict(labels)


def _without_null(features: Any) -> Any:
    """Flags and attributes whose elements are null count as a feature without instances: nothing to match."""
    if not isinstance(features, Mapping):
        return features
    parts = {kind: dict(value) for kind, value in features.items() if isinstance(value, Mapping)}
    instances = parts.setdefault("instances", {})
    for kind in ("flags", "attributes"):
        for name, value in list(parts.get(kind, {}).items()):
            if isinstance(value, Mapping) and value.get("elements") is None:
                del parts[kind][name]
                instances.setdefault(name, {"elements": []})
    return {**features, **parts}
