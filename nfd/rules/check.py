"""What a person should know about a rule file before a cluster gets it: `nfd rules validate`.

Beyond what parsing finds: operators and their values, patterns, templates, names and values that no node would get.
Upstream does the same in `kubectl nfd validate`, but for one document only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nfd.config.yamltext import Document, Path, documents
from nfd.errors import ConfigError
from nfd.message_text import did_you_mean, visible
from nfd.names import FEATURE_NS, subdomain_problem
from nfd.rules import policy as policies
from nfd.rules.known_features import ATTRIBUTES, KNOWN
from nfd.rules.model import CustomRule, Expression, GroupRule, LabelRule, Mistake, ParsedRule, Rule, RuleObject, Term
from nfd.rules.operators import compile_matcher
from nfd.rules.output_keys import VAR, Stated, outputs_of, rule_named, stated_by
from nfd.rules.parse import (
    GROUP,
    GROUP_FIELD,
    RULE,
    RULE_FIELD,
    Finding,
    all_mistakes,
    line_of,
    locate,
    read_objects,
    unreadable,
)
from nfd.rules.policy import Policy
from nfd.rules.template import Template, TemplateError
from nfd.rules.template.refused_functions import NO_TIME
from nfd.rules.time_limit import FREE, Meter

POLICY = Policy(enable_taints=True)
KINDS = (None, "", "version")
EACH_ALONE = ("InRegexp",)
"""Operators whose values are looked at one by one, so that each can be wrong."""


def validate_text(name: str, text: str) -> list[str]:
    """All mistakes in a rule file as `name:line: reason`, in the order of their lines."""
    findings: list[Finding] = []
    known: dict[tuple[bool, str, str], int] = {}
    try:
        for document, path, parsed in read_objects(text, findings):
            findings += locate(document, [*all_mistakes(parsed), *check_object(parsed, path)])
            findings += _again(document, path, parsed, known)
    except ConfigError as error:
        findings.append(unreadable(error))
    findings.sort(key=lambda finding: finding.line)
    return [f"{name}:{finding.line}: {visible(finding.reason)}" for finding in findings]


def _again(
    document: Document, path: Path, parsed: RuleObject, known: dict[tuple[bool, str, str], int]
) -> list[Finding]:
    """An object of a name that an earlier one has: a cluster takes the last one alone."""
    if not parsed.name or parsed.defect is not None:
        return []
    line = line_of(document, (*path, "metadata", "name"))
    key, kind = (parsed.is_group, parsed.namespace, parsed.name), GROUP if parsed.is_group else RULE
    if key not in known:
        known[key] = line
        return []
    reason = f"metadata.name {parsed.name!r}: a {kind} of this name is in line {known[key]} already"
    return [Finding(line, reason, False)]


def check_object(parsed: RuleObject, path: Path = ()) -> Iterator[Mistake]:
    """Mistakes that show only when an object is used; also in what is left of a rule that is broken elsewhere."""
    if parsed.defect is None:
        problem = subdomain_problem(parsed.name)
        if not parsed.name:
            yield Mistake((*path, "metadata"), "metadata.name is missing", False)
        elif problem:
            yield Mistake((*path, "metadata", "name"), f"metadata.name {parsed.name!r} {problem}", False)
    field = GROUP_FIELD if parsed.is_group else RULE_FIELD
    for index, one in enumerate(parsed.rules):
        yield from _check_parsed(one, (*path, "spec", field, index))


def check_custom(parsed: ParsedRule, path: Path) -> Iterator[Mistake]:
    """All mistakes in one of the worker's rules, what only shows when it is evaluated included."""
    yield from (*parsed.mistakes, *_check_parsed(parsed, path))


def _check_parsed(parsed: ParsedRule, path: Path) -> Iterator[Mistake]:
    rule = parsed.rule or parsed.rest
    if rule is not None:
        known = [mistake.path for mistake in parsed.mistakes if not mistake.soft]
        yield from (mistake for mistake in check_rule(rule, path) if not _concerns(mistake.path, known))


def _concerns(path: Path, known: Sequence[Path]) -> bool:
    """Whether a place is inside or around one of those known to be broken."""
    return any(path[: len(one)] == one[: len(path)] for one in known)


def check_rule(rule: GroupRule, path: Path = (), policy: Policy = POLICY, meter: Meter = FREE) -> Iterator[Mistake]:
    """Mistakes that show only when a rule is evaluated, or when a node does not get what it asks for.

    Raises: Exhausted if that takes too long.
    """
    if not rule.name and not isinstance(rule, CustomRule):
        yield Mistake((*path, "name"), "rule has no name", False)
    yield from _check_terms(rule.match_features or (), (*path, "matchFeatures"), meter)
    for index, one in enumerate(rule.match_any or ()):
        place = (*path, "matchAny", index, "matchFeatures")
        if one.match_features is None:
            yield Mistake(place, f"matchAny.{index}.matchFeatures is missing", False)
        yield from _check_terms(one.match_features or (), place, meter)
    yield from _check_template(rule.vars_template, (*path, "varsTemplate"))
    if isinstance(rule, LabelRule):
        yield from _check_template(rule.labels_template, (*path, "labelsTemplate"))
    if isinstance(rule, Rule):
        yield from _check_items(rule, path, policy)


def _check_terms(terms: Sequence[Term], path: Path, meter: Meter) -> Iterator[Mistake]:
    for index, term in enumerate(terms):
        place = (*path, index)
        domain, _, feature = term.feature.partition(".")
        if not domain or not feature or "." in feature:
            yield Mistake((*place, "feature"), f"feature {term.feature!r} is not of the form domain.feature", False)
        for name, expression in (term.match_expressions or {}).items():
            yield from _check_expression(expression, (*place, "matchExpressions", name), meter)
        if term.match_name is not None:
            yield from _check_expression(term.match_name, (*place, "matchName"), meter)


def _check_expression(expression: Expression, path: Path, meter: Meter) -> Iterator[Mistake]:
    meter.look()
    values = expression.value or ()
    parts = [(one,) for one in values] if expression.op in EACH_ALONE and values else [values]
    if not expression.op:
        yield Mistake(path, "op is missing", False)
    else:
        kind = expression.type if expression.type in KINDS else ""
        for part in parts:
            meter.spend(1)
            if (mistake := compile_matcher(expression.op, part, kind or "").mistake) is not None:
                meter.look()
                yield Mistake(path, mistake, False)
    if expression.type not in KINDS:
        yield Mistake((*path, "type"), f"invalid value type {expression.type!r}", False)


def _check_template(text: str | None, path: Path) -> Iterator[Mistake]:
    try:
        template = Template(text or "")
        yield from (Mistake(path, f"template: {reason}", False) for reason in template.mistakes())
        if name := template.wants_time():
            yield Mistake(path, f"template: {name}: {NO_TIME}", False)
    except TemplateError as error:
        yield Mistake(path, f"template: {error}", False)


def _check_items(rule: Rule, path: Path, policy: Policy) -> Iterator[Mistake]:
    for kind, field, values in outputs_of(rule):
        wanted = policies.prefix_keys(values, policy)
        for one in policies.allow(kind, wanted, policies.any_attribute, policy).dropped:
            written = one.key.removeprefix(f"{FEATURE_NS}/")
            yield Mistake((*path, field, written), f"{kind} {written!r}: {one.reason}", False)
    for index, taint in enumerate(rule.taints or ()):
        for part, problem in policies.taint_problems(taint):
            yield Mistake((*path, "taints", index, part), f"taint {taint.key!r}: {part} {problem}", False)


_Found = tuple[str, int, str]
"""File, line and what is to be said."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a rule object, or one of its rules, stands."""

    file: str
    document: Document
    path: Path

    def line(self, path: Path) -> int:
        return line_of(self.document, (*self.path, *path))


@dataclass(frozen=True, slots=True)
class _Setting:
    rule: str
    value: str | None
    file: str
    line: int


def remarks_on(files: Iterable[tuple[str, str]], *, features: bool = True) -> dict[str, list[str]]:
    """Warnings and notes by file, each as `name:line: reason`; without `features` on shared keys alone.

    `files` are names and texts. A later object of the same name takes the place of an earlier one, as in a cluster.
    """
    objects: dict[tuple[bool, str, str], tuple[RuleObject, _Place]] = {}
    texts = dict(files)
    for name, text in texts.items():
        for parsed, place in _objects(name, text):
            objects[parsed.is_group, parsed.namespace, parsed.name] = parsed, place
    found: list[_Found] = []
    known: dict[tuple[str, str], _Setting] = {}
    for parsed, place in sorted(objects.values(), key=lambda one: one[0].name):
        found += (*_unknown(parsed, place), *_unmatched(parsed, place)) if features else ()
        found += _shared(parsed, place, {} if parsed.is_group else known)
    found += [one for name, text in texts.items() for one in _tabs(name, text)] if features else ()
    remarks: dict[str, list[str]] = {}
    for file, line, reason in sorted(found):
        remarks.setdefault(file, []).append(f"{file}:{line}: {reason}")
    return remarks


def _objects(name: str, text: str) -> Iterator[tuple[RuleObject, _Place]]:
    """Objects that a master would see, up to where the text is broken."""
    try:
        for document, path, parsed in read_objects(text, [], name):
            if parsed.defect is None:
                yield parsed, _Place(name, document, path)
    except ConfigError:
        return


def _rules(parsed: RuleObject) -> Iterator[tuple[GroupRule, Path]]:
    """The rules that can be used, with their places in the object."""
    for index, one in enumerate(parsed.rules):
        if one.rule is not None:
            yield one.rule, ("spec", GROUP_FIELD if parsed.is_group else RULE_FIELD, index)


def _unknown(parsed: RuleObject, place: _Place) -> Iterator[_Found]:
    """Features and attributes that no source gives; those of NodeFeature objects and plug-ins are not known here."""
    for rule, inside in _rules(parsed):
        for path, term in _terms(rule):
            if "." in term.feature and term.feature.lower() not in KNOWN:
                advice = did_you_mean(term.feature, KNOWN)
                reason = f"warning: feature {term.feature!r}: no source of nfd provides it{advice}"
                yield place.file, place.line((*inside, *path, "feature")), reason
            known = ATTRIBUTES.get(term.feature.lower())
            for name in term.match_expressions or () if known is not None else ():
                if name not in (known or ()):
                    advice = did_you_mean(name, known or ()) or f"; it has {', '.join(sorted(known or ()))}"
                    reason = f"warning: attribute {name!r}: feature {term.feature} does not have it{advice}"
                    yield place.file, place.line((*inside, *path, "matchExpressions", name)), reason


def _terms(rule: GroupRule) -> Iterator[tuple[Path, Term]]:
    """All terms of a rule, with their places in it."""
    for index, term in enumerate(rule.match_features or ()):
        yield ("matchFeatures", index), term
    for at, one in enumerate(rule.match_any or ()):
        for index, term in enumerate(one.match_features or ()):
            yield ("matchAny", at, "matchFeatures", index), term


def _unmatched(parsed: RuleObject, place: _Place) -> Iterator[_Found]:
    """Features that a template reads although no term of the rule is about them: a template has only what matched."""
    for rule, inside in _rules(parsed):
        matched = {term.feature for _, term in _terms(rule)}
        templates = {"varsTemplate": rule.vars_template, "labelsTemplate": getattr(rule, "labels_template", None)}
        for field, text in templates.items():
            for feature in _read_by(text):
                if feature not in matched:
                    advice = "" if feature in KNOWN else did_you_mean(feature, matched)
                    reason = f"warning: template: .{feature} is empty, as no term of the rule matches {feature}{advice}"
                    yield place.file, place.line((*inside, field)), reason


def _read_by(text: str | None) -> list[str]:
    try:
        return Template(text or "").features_read()
    except TemplateError:  # which is a mistake of its own
        return []


def _tabs(name: str, text: str) -> Iterator[_Found]:
    """Lines with a tab before a comment: many YAML parsers reject them, and in a template they become part of a key."""
    try:
        any(documents(text, name))
    except ConfigError:  # a mistake, which says so if the tab is the reason
        return
    for line, written in enumerate(text.splitlines(), 1):
        if "\t" in written.partition("#")[0]:
            yield name, line, "warning: the line has a tab; use blanks"


def _shared(parsed: RuleObject, place: _Place, known: dict[tuple[str, str], _Setting]) -> Iterator[_Found]:
    """Keys of which one rule may write over another's value.

    `known` has what the rules of earlier objects set, and gets what those of this one set.
    """
    for rule, inside in _rules(parsed):
        for stated in stated_by(rule):
            now = _Setting(rule.name, stated.value, place.file, place.line((*inside, *stated.path)))
            before = known.get((stated.kind, stated.key))
            if before is not None and (before.rule, before.line, before.file) != (now.rule, now.line, now.file):
                yield now.file, now.line, _remark(stated, before, now)
            known[stated.kind, stated.key] = now


def _remark(stated: Stated, before: _Setting, now: _Setting) -> str:
    where = f"line {before.line}" if before.file == now.file else f"{before.file}:{before.line}"
    what = f"{stated.kind} {stated.key.removeprefix(f'{FEATURE_NS}/')!r}"
    if before.value is not None and before.value == now.value:
        return f"note: {what}: {rule_named(before.rule)} in {where} sets it to the same value"
    word = "note" if stated.kind == VAR else "warning"
    loses = f"{rule_named(now.rule)} overwrites the value of {rule_named(before.rule)} in {where}"
    return f"{word}: {what}: where both hold, {loses}"
