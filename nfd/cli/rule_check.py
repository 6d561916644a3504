"""Evaluates rules for a user: the result of each, and the term that does not match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nfd.cli.rule_files import read_rules
from nfd.errors import RuleError
from nfd.features import Features
from nfd.master.node.outcome import Outcome, evaluate_report
from nfd.master.rules.ruleset import RuleSet, compile_objects
from nfd.message_text import did_you_mean
from nfd.report import Report
from nfd.rules.compile import CompiledRule, Group
from nfd.rules.evaluate import Given
from nfd.rules.match_features import Feature, Term, View, match_term
from nfd.rules.output_keys import REPORT, Overwrite, rule_named
from nfd.rules.policy import Policy

_MOST_SHOWN = 5


def compile_files(paths: Iterable[str], policy: Policy) -> RuleSet:
    """The rules of files. Raises: ConfigError with file and line, also for a broken rule."""
    return compile_objects((parsed for path in paths for parsed, _ in read_rules(path, rules_too=True)), policy)


class Trace:
    """The result of each evaluated rule; with `features`, also why a rule does not match."""

    def __init__(self, features: Features | None = None) -> None:
        self.found: dict[int, Given | RuleError | str] = {}
        """The results by identity of the rule."""
        self._features = features

    def record(self, rule: CompiledRule, view: View, found: Given | RuleError | None) -> None:
        """For `watch`."""
        if found is None and self._features is not None:
            self.found[id(rule)] = _why_not(rule, view, self._features)
        else:
            self.found[id(rule)] = found or ""

    def text(self, rule: CompiledRule) -> Given | str:
        """The result of a rule, or why it has none."""
        found = self.found.get(id(rule), "")
        return f"fails: {found}" if isinstance(found, RuleError) else found


def evaluate_rules(rules: RuleSet, features: Features, policy: Policy) -> Iterator[tuple[CompiledRule, Given | str]]:
    """Evaluate the rules in order: the result of each, or why it has none."""
    trace = Trace(features)
    failed = evaluate_report(Report("", features=features), rules, policy, trace.record).evaluation.failed()
    for index, placed in enumerate(rules.rules):
        yield placed.rule, f"fails: {failed[index][0]}" if index in failed else trace.text(placed.rule)


def failures_in(group: Group, outcome: Outcome, trace: Trace) -> list[tuple[str, str]]:
    """The failed rules of a group, and why. If time ran out, the group is named instead."""
    found = [(rule.name, trace.found.get(id(rule))) for rule in group.rules]
    problems = outcome.evaluation.group_problems.get(group.key, ())
    left_out = [(group.name, text) for text in problems if not text.startswith("rule ")]
    return [(name, str(error)) for name, error in found if isinstance(error, RuleError)] + left_out


def name_of(rules: RuleSet, origin: str) -> str:
    """The origin of a key as messages about these rules name it."""
    name = next((rule.name for rule in rules.rules if rule.origin == origin), None)
    return (origin or REPORT) if name is None else rule_named(name)


def overwrites_of(outcome: Outcome, rules: RuleSet) -> list[Overwrite]:
    """The overwrites with names of rules instead of origins, including vars."""
    found = outcome.overwrites(with_vars=True)
    return [replace(one, earlier=name_of(rules, one.earlier), later=name_of(rules, one.later)) for one in found]


def _why_not(rule: CompiledRule, view: View, features: Features) -> str:
    """The first term that does not match, and the values it was evaluated on, or why the evaluation fails."""
    try:
        failing = [_first_failing(terms, view, features) for terms in rule.match_any]
        if failing and all(failing):
            return "no alternative of matchAny matches: " + "; ".join(reason for reason in failing if reason)
        return _first_failing(rule.match_features, view, features) or "does not match"
    except RuleError as error:
        return f"does not match: {error}"


def _first_failing(terms: Sequence[Term], view: View, features: Features) -> str:
    for term in terms:
        if not match_term(term, view, None):
            return _failing(term, view, features)
    return ""


def _failing(term: Term, view: View, features: Features) -> str:
    feature = view.get(term.key)
    if feature is None:
        return f"feature {term.feature} is missing{did_you_mean(term.feature, features.names())}"
    for name, matcher in term.expressions or ():
        if not match_term(Term(term.feature, ((name, matcher),), None), view, None):
            return f"{term.feature}: {name} {matcher} does not match: {_found(feature, name)}"
    if term.expressions and not match_term(Term(term.feature, term.expressions, None), view, None):
        wanted = ", ".join(f"{name} {matcher}" for name, matcher in term.expressions)
        return f"{term.feature}: no element matches all of {wanted}"
    return f"{term.feature}: no element's name matches {term.name}"


def _found(feature: Feature, name: str) -> str:
    """The values under that name."""
    values = ["it is present"] if name in (feature.flags or ()) else []
    values += [f"it is {feature.attributes[name]!r}"] if feature.attributes and name in feature.attributes else []
    seen = dict.fromkeys(f"it is {one[name]!r}" for one in feature.instances or () if name in one)
    values += list(seen)[:_MOST_SHOWN] + (["…"] if len(seen) > _MOST_SHOWN else [])
    is_empty = not (feature.flags or feature.attributes or feature.instances)
    return ", ".join(values) or ("it has no elements" if is_empty else "no element has this attribute")
