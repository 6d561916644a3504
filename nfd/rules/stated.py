"""The keys that a rule states, before any node is looked at.

Those that a template makes count where the text of the template has them in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nfd.config.yamltext import Path
from nfd.names import FEATURE_NS
from nfd.rules import policy as policies
from nfd.rules.model import GroupRule, Rule
from nfd.rules.overwritten import EXTENDED_RESOURCE, LABEL, TAINT, VAR
from nfd.rules.policy import Policy
from nfd.rules.scalars import SPACE
from nfd.rules.template import TemplateError, parse_template
from nfd.rules.template.nodes import Action, Body, Branch, Range, Text

_MADE, _MAYBE = "\0", "\1"
"""In a template's text: what an action prints, and where a branch begins or ends."""
_POLICY = Policy()


@dataclass(frozen=True, slots=True)
class Stated:
    """A key that a rule sets wherever it holds; `value` is None if a template makes it."""

    kind: str
    key: str
    value: str | None
    path: Path


def stated_by(rule: GroupRule) -> Iterator[Stated]:
    """Every key of a rule that is known in advance, prefixed."""
    if isinstance(rule, Rule):
        yield from _labels(rule)
        yield from _pairs(policies.ANNOTATION, "annotations", rule.annotations)
        yield from _pairs(EXTENDED_RESOURCE, "extendedResources", rule.extended_resources)
        for index, taint in enumerate(rule.taints or ()):
            for key, value in policies.taint_values([taint]).items():
                yield Stated(TAINT, key, value, ("taints", index))
    written = rule.vars or {}
    made = _template_pairs(rule.vars_template)
    yield from (Stated(VAR, key, value, ("varsTemplate",)) for key, value in made.items() if key not in written)
    yield from (Stated(VAR, key, value, ("vars", key)) for key, value in written.items())


def _labels(rule: Rule) -> Iterator[Stated]:
    """Labels written in full win over those of the rule's own template."""
    written = policies.prefix_keys(rule.labels or {}, _POLICY)
    for name, value in _template_pairs(rule.labels_template).items():
        key = name if "/" in name else f"{FEATURE_NS}/{name}"
        if key not in written:
            yield Stated(LABEL, key, value, ("labelsTemplate",))
    yield from _pairs(LABEL, "labels", rule.labels)


def _pairs(kind: str, field: str, values: Mapping[str, str] | None) -> Iterator[Stated]:
    for key, value in policies.prefix_keys(values or {}, _POLICY).items():
        written = key if key in (values or {}) else key.removeprefix(f"{FEATURE_NS}/")
        yield Stated(kind, key, value, (field, written))


def _template_pairs(text: str | None) -> dict[str, str | None]:
    """Keys that stand in a template's text, with their values where these do, too."""
    pairs: dict[str, str | None] = {}
    for line in _text_of(text or "").split("\n"):
        key, equals, value = line.strip(SPACE + _MAYBE).partition("=")
        if equals and key and not {_MADE, _MAYBE} & set(key):
            pairs[key] = None if {_MADE, _MAYBE} & set(value) else value
    return pairs


def _text_of(text: str) -> str:
    """The text of a template without its actions; nothing of one that is broken."""
    try:
        return _flat(parse_template(text).bodies[""])
    except TemplateError:
        return ""


def _flat(body: Body) -> str:
    return "".join(_flat_statement(one) for one in body)


def _flat_statement(one: object) -> str:
    if isinstance(one, Text):
        return one.text
    if isinstance(one, Action):
        return "" if one.pipe.variables else _MADE
    if isinstance(one, Branch):
        return _between([*(body for _, body in one.arms), one.otherwise])
    return _between([one.body, one.otherwise]) if isinstance(one, Range) else _MADE


def _between(bodies: Sequence[Body]) -> str:
    return "".join(f"{_MAYBE}{_flat(body)}{_MAYBE}" for body in bodies)
