"""The keys that a rule states, before any node is looked at.

Those that a template makes count where the text of the template has them in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nfd.config.yamltext import Path
from nfd.names import FEATURE_NS, full_key
from nfd.rules import policy as policies
from nfd.rules.model import GroupRule, Rule, Taint
from nfd.rules.policy import ANNOTATION, EXTENDED_RESOURCE, LABEL, Policy
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


def outputs_of(rule: Rule) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Kind, field and values of the labels, annotations and extended resources that a rule has written in it."""
    yield LABEL, "labels", rule.labels or {}
    yield ANNOTATION, "annotations", rule.annotations or {}
    yield EXTENDED_RESOURCE, "extendedResources", rule.extended_resources or {}


def stated_by(rule: GroupRule) -> Iterator[Stated]:
    """Every key of a rule that is known in advance, prefixed."""
    if isinstance(rule, Rule):
        yield from _template_labels(rule)
        for kind, field, values in outputs_of(rule):
            for key, value in policies.prefix_keys(values, _POLICY).items():
                written = key if key in values else key.removeprefix(f"{FEATURE_NS}/")
                yield Stated(kind, key, value, (field, written))
        for index, taint in enumerate(rule.taints or ()):
            for key, value in policies.taint_values([taint]).items():
                yield Stated(TAINT, key, value, ("taints", index))
    given = rule.vars or {}
    made = _template_pairs(rule.vars_template)
    yield from (Stated(VAR, key, value, ("varsTemplate",)) for key, value in made.items() if key not in given)
    yield from (Stated(VAR, key, value, ("vars", key)) for key, value in given.items())


def _template_labels(rule: Rule) -> Iterator[Stated]:
    """Labels written in full win over those of the rule's own template."""
    written = policies.prefix_keys(rule.labels or {}, _POLICY)
    for name, value in _template_pairs(rule.labels_template).items():
        if (key := full_key(name)) not in written:
            yield Stated(LABEL, key, value, ("labelsTemplate",))


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


TAINT, VAR = "taint", "var"
REPORT = "the report of the node"
"""Who gives what no rule gives."""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A key, by kind (`label`, `annotation`, `extendedResource`, `taint`, `var`), with both values and who gives them.

    A taint is `KEY:EFFECT`. References are not looked up.
    """

    kind: str
    key: str
    earlier: str
    later: str
    lost: str
    value: str

    def __str__(self) -> str:
        return f"{self.later} writes {self.value!r} over {self.lost!r}, which {self.earlier} gives"


class Ledger:
    """Who gave each key last, and the values that were lost; the same value given twice is none of them."""

    def __init__(self) -> None:
        self.overwrites: list[Overwrite] = []
        self._last: dict[tuple[str, str], tuple[str, str]] = {}

    def add(self, giver: str, kind: str, values: Mapping[str, str]) -> None:
        """Note what one rule gives, in the order of evaluation."""
        for key, value in values.items():
            earlier, lost = self._last.get((kind, key), (giver, value))
            if lost != value:
                self.overwrites.append(Overwrite(kind, key, earlier, giver, lost, value))
            self._last[kind, key] = giver, value


def is_loss(one: Overwrite, policy: Policy) -> bool:
    """Whether the node would have got the lost value, as far as is known without looking up references."""
    wanted = {one.key: one.lost}
    if one.kind in (LABEL, ANNOTATION, EXTENDED_RESOURCE):
        return bool(policies.allow(one.kind, wanted, policies.any_attribute, policy).values)
    key, _, effect = one.key.rpartition(":")
    return one.kind == VAR or bool(policies.allow_taints([Taint(key=key, effect=effect, value=one.lost)], policy)[0])


def rule_named(name: str) -> str:
    """How a rule is called in messages."""
    return f"rule {name!r}"


def are_disjoint(parts: Iterable[Mapping[str, str]]) -> bool:
    """Whether no key is in two of them."""
    listed = list(parts)
    return len(set().union(*listed)) == sum(map(len, listed))
