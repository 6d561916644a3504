"""Rules made ready for evaluation: from the parsed models to plain frozen values, once per change of a rule object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nfd.errors import reason_of
from nfd.rules import model
from nfd.rules.match_features import Term
from nfd.rules.operators import Matcher, compile_matcher
from nfd.rules.template import Template
from nfd.rules.time_limit import FREE, Meter

Terms = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One rule; `defect` is set if the rule cannot be evaluated at all."""

    name: str
    match_features: Terms = ()
    match_any: tuple[Terms, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    labels_template: Template | None = None
    vars: Mapping[str, str] = field(default_factory=dict)
    vars_template: Template | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    extended_resources: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[model.Taint, ...] = ()
    defect: str | None = None

    @property
    def has_templates(self) -> bool:
        return self.labels_template is not None or self.vars_template is not None


@dataclass(frozen=True, slots=True)
class Group:
    """A NodeFeatureGroup: the node belongs to it if one of its rules holds."""

    name: str
    namespace: str
    rules: tuple[CompiledRule, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


def compile_rule(parsed: model.ParsedRule, meter: Meter = FREE) -> CompiledRule:
    """Compile one rule; mistakes in it, and whatever else goes wrong, come up when it is evaluated."""
    if parsed.rule is None:
        return CompiledRule(parsed.name, defect=parsed.defect)
    try:
        return _compiled(parsed.rule, meter)
    except Exception as error:  # a rule spoils only itself
        return CompiledRule(parsed.name, defect=f"cannot be compiled: {reason_of(error)}")


def _compiled(rule: model.GroupRule, meter: Meter) -> CompiledRule:
    return CompiledRule(
        name=rule.name,
        match_features=_terms(rule.match_features, meter),
        match_any=tuple(_terms(one.match_features, meter) for one in rule.match_any or ()),
        vars=rule.vars or {},
        vars_template=_template(rule.vars_template),
        **_outputs(rule),
    )


def _outputs(rule: model.GroupRule) -> dict[str, Any]:
    """What rules of groups do not have, and of the others, in part, only those of a NodeFeatureRule."""
    found: dict[str, Any] = {}
    if isinstance(rule, model.LabelRule):
        found |= {"labels": rule.labels or {}, "labels_template": _template(rule.labels_template)}
    if isinstance(rule, model.Rule):
        found |= {"annotations": rule.annotations or {}, "extended_resources": rule.extended_resources or {}}
        found |= {"taints": tuple(rule.taints or ())}
    return found


def _terms(terms: Sequence[model.Term] | None, meter: Meter) -> Terms:
    return tuple(_term(term, meter) for term in terms or ())


def _term(term: model.Term, meter: Meter) -> Term:
    expressions = term.match_expressions
    compiled = None
    if expressions is not None:
        matchers = [(name, _matcher(expressions[name], meter)) for name in sorted(expressions)]
        compiled = tuple(sorted(matchers, key=lambda one: one[1].rank))
    return Term(term.feature, compiled, None if term.match_name is None else _matcher(term.match_name, meter))


def _matcher(expression: model.Expression, meter: Meter) -> Matcher:
    meter.look()
    return compile_matcher(expression.op, expression.value or (), expression.type or "")


def _template(text: str | None) -> Template | None:
    return Template(text) if text else None
