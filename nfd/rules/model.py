"""Rules as they are written: NodeFeatureRule, NodeFeatureGroup and the worker's inline rules.

Upstream types: api/nfd/v1alpha1/types.go; the worker's short forms: source/custom/api. Outside text comes in here and
nowhere else, through pydantic; an error of the author is a `Mistake` with its place. A *soft* mistake (a key nobody
knows, a number where text belongs) is repaired as Kubernetes would, any other spoils the rule that it is in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, StrictStr, model_validator
from pydantic.alias_generators import to_camel

from nfd.config.yamltext import Path, scalar_text

Texts = dict[StrictStr, StrictStr]


class Part(BaseModel):
    """Base of everything in a rule: camelCase keys, none unknown, never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class Expression(Part):
    """One match expression; a missing `op` is upstream's internal "any"."""

    op: StrictStr = ""
    value: tuple[StrictStr, ...] | None = None
    type: StrictStr | None = None


class Term(Part):
    """One element of `matchFeatures`; expressions left out are not the same as an empty set of them."""

    feature: StrictStr = ""
    match_expressions: Mapping[StrictStr, Expression] | None = None
    match_name: Expression | None = None


class Alternative(Part):
    """One element of `matchAny`."""

    match_features: tuple[Term, ...] | None = None


class Taint(Part):
    """A core/v1 taint."""

    key: StrictStr
    effect: StrictStr
    value: StrictStr | None = None
    time_added: StrictStr | None = None


class GroupRule(Part):
    """A rule of a NodeFeatureGroup."""

    name: StrictStr = ""
    vars: Texts | None = None
    vars_template: StrictStr | None = None
    match_features: tuple[Term, ...] | None = None
    match_any: tuple[Alternative, ...] | None = None


class LabelRule(GroupRule):
    """What rules of a NodeFeatureRule and of the worker have beyond those of groups."""

    labels: Texts | None = None
    labels_template: StrictStr | None = None


class Rule(LabelRule):
    """A rule of a NodeFeatureRule; groups and the worker accept a part of its fields."""

    annotations: Texts | None = None
    taints: tuple[Taint, ...] | None = None
    extended_resources: Texts | None = None


class CustomExpression(Expression):
    """An expression with the worker's short forms: nothing, one value, or a list of values."""

    @model_validator(mode="before")
    @classmethod
    def expand(cls, data: Any) -> Any:
        if data is None:
            return {"op": "Exists"}
        if isinstance(data, str | bool | int | float):
            return {"op": "In", "value": [_in_full(data)]}
        if isinstance(data, list):
            return {"op": "In", "value": data}
        if isinstance(data, dict) and isinstance(data.get("value"), str | bool | int | float):
            return data | {"value": [_in_full(data["value"])]}
        return data


class CustomTerm(Term):
    """A term with the worker's short form: a list of `name` and `name=value`."""

    match_expressions: Mapping[StrictStr, CustomExpression] | None = None
    match_name: CustomExpression | None = None

    @model_validator(mode="before")
    @classmethod
    def expand(cls, data: Any) -> Any:
        listed = data.get("matchExpressions") if isinstance(data, dict) else None
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            return data
        pairs = (one.partition("=") for one in listed)
        return data | {"matchExpressions": {name: value if equals else None for name, equals, value in pairs}}


class CustomAlternative(Alternative):
    """One element of `matchAny` in the worker's dialect."""

    match_features: tuple[CustomTerm, ...] | None = None


class CustomRule(LabelRule):
    """A rule of the worker's `custom` source: labels and vars only."""

    match_features: tuple[CustomTerm, ...] | None = None
    match_any: tuple[CustomAlternative, ...] | None = None


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong at a place of the text; a soft one has been repaired."""

    path: Path
    reason: str
    soft: bool


@dataclass(frozen=True, slots=True)
class ParsedRule:
    """A rule, or why it cannot be used; `rest` is what is left of such a one without its mistakes, to find more."""

    name: str
    rule: GroupRule | None
    mistakes: tuple[Mistake, ...] = ()
    rest: GroupRule | None = None

    @property
    def defect(self) -> str | None:
        hard = [mistake.reason for mistake in self.mistakes if not mistake.soft]
        return None if self.rule is not None else "; ".join(hard) or "not a rule"


@dataclass(frozen=True, slots=True)
class RuleObject:
    """A NodeFeatureRule, or a NodeFeatureGroup if `is_group`."""

    name: str
    rules: tuple[ParsedRule, ...]
    namespace: str = ""
    is_group: bool = False
    mistakes: tuple[Mistake, ...] = ()

    @property
    def defect(self) -> str | None:
        """Why a master never sees it, or nothing in it: it is of another group or kind, or has no list of rules."""
        return "; ".join(mistake.reason for mistake in self.mistakes if not mistake.soft) or None


def as_text(value: str | bool | float | None) -> str:
    """A scalar as Kubernetes reads it where text belongs."""
    if value is None:
        return ""
    return value if isinstance(value, str) else scalar_text(value)


def _in_full(value: str | bool | float) -> str:
    """A scalar in a short form, which NFD reads as a double and writes without exponent."""
    if isinstance(value, str | bool) or not math.isfinite(value):
        return as_text(value)
    return f"{Decimal(repr(float(value))).normalize():f}"


def unquoted(value: Any) -> str:
    """The advice for a number, a truth value or nothing where text belongs."""
    if value is None:
        return "has no value and is read as empty text; put '' there"
    kind = "truth value" if isinstance(value, bool) else "number"
    return f"is read as the {kind} {scalar_text(value)}, but text is required; put it in quotes"


def name_of(data: Any) -> str:
    """The name in unparsed rule or metadata, for messages about it."""
    name = data.get("name") if isinstance(data, Mapping) else None
    return "" if name is None or isinstance(name, list | dict) else as_text(name)
