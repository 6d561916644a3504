"""Whether a machine suits an image: each expression of the image's compatibility specification, judged by itself.

Upstream document: "Image compatibility" of NFD's documentation; type Spec of api/image-compatibility/v1alpha1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nfd.config.yamltext import parse, scalar_text
from nfd.errors import NfdError, RuleError
from nfd.features import Features
from nfd.rules.compiled import CompiledRule, compile_rule
from nfd.rules.engine import run_rule
from nfd.rules.model import Expression, GroupRule, ParsedRule
from nfd.rules.model import Term as WrittenTerm
from nfd.rules.ops import compile_matcher
from nfd.rules.parse import parse_rule
from nfd.rules.terms import Expressions, Feature, Term, View, match_term

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CompatibilitySet:
    """One way in which a machine may suit the image."""

    rules: tuple[ParsedRule, ...]
    weight: int = 0
    tag: str = ""
    description: str = ""


def parse_specification(data: bytes, where: str) -> list[CompatibilitySet]:
    """Raises: NfdError naming the place that makes no sense."""
    value = parse(data, where).data
    sets = value.get("compatibilities") if isinstance(value, Mapping) else None
    if not isinstance(sets, list):
        raise NfdError(f"{where}: compatibilities must be a list")
    return [_set(one, f"{where}: compatibilities.{index}") for index, one in enumerate(sets)]


def _set(value: Any, where: str) -> CompatibilitySet:
    if not isinstance(value, Mapping):
        raise NfdError(f"{where} must be a mapping")
    rules, weight = value.get("rules") or [], value.get("weight") or 0
    if not isinstance(rules, list):
        raise NfdError(f"{where}.rules must be a list")
    if not isinstance(weight, int) or isinstance(weight, bool):
        raise NfdError(f"{where}.weight must be a whole number")
    parsed = tuple(parse_rule(one, GroupRule, (index,)) for index, one in enumerate(rules))
    return CompatibilitySet(parsed, weight, _text(value, "tag", where), _text(value, "description", where))


def _text(value: Mapping[str, Any], key: str, where: str) -> str:
    found = value.get(key)
    if isinstance(found, list | Mapping):
        raise NfdError(f"{where}.{key} must be text")
    return "" if found is None else found if isinstance(found, str) else scalar_text(found)


def judge_sets(
    sets: Sequence[CompatibilitySet], features: Features, tags: Collection[str]
) -> tuple[list[Json], list[str]]:
    """The status of each set with one of these tags, in NFD's JSON form, and which rules failed and why."""
    view, errors = View(features), list[str]()
    found = []
    for one in sets:
        if not tags or one.tag in tags:
            rules = [_judge(rule, view, errors) for rule in one.rules]
            extras = {"description": one.description, "weight": one.weight, "tag": one.tag}
            found.append({"rules": rules, **{key: value for key, value in extras.items() if value}})
    return found, errors


def _judge(parsed: ParsedRule, view: View, errors: list[str]) -> Json:
    """One rule; it feeds `rule.matched` for those after it if it holds."""
    rule, status = compile_rule(parsed), Json(name=parsed.name, isMatch=False)
    try:
        status["isMatch"] = run_rule(rule, view) is not None
    except RuleError as error:
        errors.append(f"rule {parsed.name!r}: {error}")
    written = parsed.rule
    if written is not None and written.match_features:
        status["matchedExpressions"] = _statuses(written.match_features, rule.match_features, view)
    if written is not None and written.match_any:
        status["matchedAny"] = _alternatives(written, rule, view)
    return status


def _alternatives(written: GroupRule, rule: CompiledRule, view: View) -> list[Json]:
    pairs = zip(written.match_any or (), rule.match_any, strict=True)
    return [{"matchedExpressions": _statuses(one.match_features or (), terms, view)} for one, terms in pairs]


def _statuses(written: Sequence[WrittenTerm], terms: Sequence[Term], view: View) -> list[Json]:
    """By feature, name and expression."""
    found = [status for one, term in zip(written, terms, strict=True) for status in _status(one, term, view)]
    return sorted(found, key=lambda one: (one["feature"], one["name"], str(one["expression"])))


def _status(written: WrittenTerm, term: Term, view: View) -> Iterator[Json]:
    held = held_of(term, view)
    for name, expression in (written.match_expressions or {}).items():
        yield _one(written.feature, name, expression, "matchExpression", name in held)
    if written.match_name is not None:
        holds = _holds(Term(term.feature, None, term.name), view)
        yield _one(written.feature, "", written.match_name, "matchName", holds)


def _one(feature: str, name: str, expression: Expression, kind: str, holds: bool) -> Json:
    told = expression.model_dump(exclude_none=True, mode="json")
    return {"feature": feature, "name": name, "expression": told, "matcherType": kind, "isMatch": holds}


def held_of(term: Term, view: View) -> set[str]:
    """The names whose expressions hold. Where each holds and no element has all of them, those of the best element."""
    expressions = term.expressions or ()
    feature = view.get(term.key)
    if feature is None:
        return set()
    held = {name for name, matcher in expressions if _holds(Term(term.feature, ((name, matcher),), None), view)}
    if len(held) < len(expressions) or _holds(Term(term.feature, expressions, None), view):
        return held
    return _best(expressions, feature)


def _best(expressions: Expressions, feature: Feature) -> set[str]:
    by_element = [
        {name for name, matcher in expressions if matcher.holds(one.get(name))} for one in feature.instances or ()
    ]
    return max(by_element, key=len, default=set())


def _holds(term: Term, view: View) -> bool:
    """An expression that makes no sense does not hold; its rule tells why."""
    try:
        return match_term(term, view, None)
    except RuleError:
        return False


def text_of(expression: Json) -> str:
    """As it stands in a table: `In [a, b]`."""
    return str(compile_matcher(expression["op"], tuple(expression.get("value", ())), expression.get("type", "")))
