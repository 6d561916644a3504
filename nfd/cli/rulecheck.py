"""Rule files on one machine: what each rule asks for, and the term at which one that does not hold fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nfd.cli.rulefiles import read_rules
from nfd.errors import RuleError
from nfd.features import Features
from nfd.master.desired import RULE, Contribution
from nfd.rules.compiled import CompiledRule, Rules, compile_rules
from nfd.rules.engine import Given, run_rule
from nfd.rules.known import did_you_mean
from nfd.rules.policy import Policy, prefix_keys
from nfd.rules.terms import Feature, Term, View, match_term

NO_RULES = Rules()
_POLICY = Policy()
_MOST_SHOWN = 5


def compile_files(paths: Iterable[str]) -> Rules:
    """The rules of files. Raises: ConfigError naming file and line, for a broken rule too."""
    return compile_rules(parsed for path in paths for parsed, _ in read_rules(path, rules_too=True))


@dataclass(frozen=True, slots=True)
class AskedByRules:
    """What each rule that holds asks for, keys prefixed, and what `rule.matched` has in the end."""

    contributions: Sequence[Contribution]
    matched: Mapping[str, str]


def ask_rules(rules: Rules, features: Features, policy: Policy = _POLICY) -> AskedByRules:
    """Run all rules; one that fails asks for nothing."""
    view, asked = View(features), []
    for rule, given in _judge(rules.rules, view, features):
        if isinstance(given, Given):
            labels = prefix_keys(given.labels, policy)
            annotations = prefix_keys(rule.annotations, policy)
            resources = prefix_keys(rule.extended_resources, policy)
            asked.append(Contribution(f"{RULE}{rule.name}", labels, annotations, resources, rule.taints))
    return AskedByRules(asked, view.matched or {})


def judge(rules: Sequence[CompiledRule], features: Features) -> Iterator[tuple[CompiledRule, Given | str]]:
    """Run the rules in order: what each gives, or why it gives nothing."""
    return _judge(rules, View(features), features)


def _judge(rules: Sequence[CompiledRule], view: View, features: Features) -> Iterator[tuple[CompiledRule, Given | str]]:
    for rule in rules:
        try:
            given = run_rule(rule, view)
        except RuleError as error:
            yield rule, f"fails: {error}"
            continue
        yield rule, given if given is not None else _why_not(rule, view, features)
        view.remember(() if given is None else (given.labels, given.vars))


def _why_not(rule: CompiledRule, view: View, features: Features) -> str:
    """The same, also of a rule of which it cannot be told."""
    try:
        return why_not(rule, view, features)
    except RuleError as error:
        return f"does not hold: {error}"


def why_not(rule: CompiledRule, view: View, features: Features) -> str:
    """The first term that does not hold, and the values it was judged on."""
    failing = [_first_failing(terms, view, features) for terms in rule.match_any]
    if failing and all(failing):
        return "none of matchAny holds: " + "; ".join(reason for reason in failing if reason)
    return _first_failing(rule.match_features, view, features) or "does not hold"


def _first_failing(terms: Sequence[Term], view: View, features: Features) -> str:
    for term in terms:
        if not match_term(term, view, None):
            return _failing(term, view, features)
    return ""


def _failing(term: Term, view: View, features: Features) -> str:
    feature = view.get(term.key)
    if feature is None:
        return f"there is no feature {term.feature}{did_you_mean(term.feature, features.names())}"
    for name, matcher in term.expressions or ():
        if not match_term(Term(term.feature, ((name, matcher),), None), view, None):
            return f"{term.feature}: {name} {matcher} does not hold: {_found(feature, name)}"
    if term.expressions and not match_term(Term(term.feature, term.expressions, None), view, None):
        wanted = ", ".join(f"{name} {matcher}" for name, matcher in term.expressions)
        return f"{term.feature}: no element satisfies all of {wanted}"
    return f"{term.feature}: no element's name satisfies {term.name}"


def _found(feature: Feature, name: str) -> str:
    """What is there under that name."""
    values = [*_flag(feature.flags, name), *_attribute(feature.attributes, name)]
    seen = dict.fromkeys(f"it is {one[name]!r}" for one in feature.instances or () if name in one)
    values += list(seen)[:_MOST_SHOWN] + (["…"] if len(seen) > _MOST_SHOWN else [])
    return ", ".join(values) or ("there is no element" if _is_empty(feature) else "no element has it")


def _flag(flags: frozenset[str] | None, name: str) -> list[str]:
    return ["it is there"] if flags is not None and name in flags else []


def _attribute(attributes: Mapping[str, str] | None, name: str) -> list[str]:
    return [f"it is {attributes[name]!r}"] if attributes is not None and name in attributes else []


def _is_empty(feature: Feature) -> bool:
    return not (feature.flags or feature.attributes or feature.instances)
