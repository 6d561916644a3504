"""Evaluating rules over the features of one node.

    rules = compile_rules(objects)                      # once
    outcome = evaluate(rules, features, policy=policy)  # per node

`run` gives what the rules ask for, `evaluate` what the node gets after `policy`, `run_custom` what the worker's own
rules give, names and values untouched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nfd.errors import RuleError, reason_of
from nfd.features import Features
from nfd.rules import policy as policies
from nfd.rules.compiled import CompiledRule, Group, Rules, Terms
from nfd.rules.meter import FREE, Exhausted, Meter
from nfd.rules.model import Taint
from nfd.rules.overwritten import EXTENDED_RESOURCE, LABEL, REPORT, TAINT, VAR, Ledger, Overwrite, is_loss, rule_named
from nfd.rules.policy import Dropped, Policy
from nfd.rules.scalars import SPACE
from nfd.rules.template import Clock, Data, Template, TemplateError
from nfd.rules.template.budget import TooLong
from nfd.rules.terms import Element, View, match_term


@dataclass(frozen=True, slots=True)
class Failure:
    """A rule that could not be evaluated; it gives nothing, the others go on."""

    rule: str
    reason: str


@dataclass(slots=True)
class Wanted:
    """What rules ask for: keys prefixed, references not yet looked up, nothing checked."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    extended_resources: dict[str, str] = field(default_factory=dict)
    taints: list[Taint] = field(default_factory=list)
    vars: dict[str, str] = field(default_factory=dict)
    errors: list[Failure] = field(default_factory=list)
    overwrites: list[Overwrite] = field(default_factory=list)
    """Keys of which a later rule has replaced the value."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a node gets; `problems` are the items left out, and those that a later rule has replaced."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    extended_resources: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    vars: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    errors: tuple[Failure, ...] = ()
    problems: tuple[Dropped, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """Labels and vars of one rule that holds."""

    labels: Mapping[str, str]
    vars: Mapping[str, str]


def evaluate(
    rules: Rules,
    features: Features,
    *,
    labels: Mapping[str, str] | None = None,
    policy: Policy = Policy(),  # noqa: B008  # frozen
    clock: Clock | None = None,
    meter: Meter = FREE,
) -> Outcome:
    """Evaluate all rules for a node; `labels` are those that its report asks for itself, rules win over them."""
    view = View(features, meter)
    reported, ledger = policies.prefix_keys(labels or {}, policy), Ledger()
    ledger.add(REPORT, LABEL, reported)
    wanted = run(rules, view, policy=policy, clock=clock, ledger=ledger)
    asked = reported | wanted.labels
    allowed = policies.allow_labels(asked, view.attribute, policy)
    left, extra, split = policies.split_resource_labels(allowed.values, policy)
    resources = policies.allow_extended_resources(extra | wanted.extended_resources, view.attribute, policy)
    annotations = policies.allow_annotations(wanted.annotations, view.attribute, policy)
    taints, bad_taints = policies.allow_taints(wanted.taints, policy)
    groups, failures = run_groups(rules.groups, features, clock=clock, meter=meter)
    return Outcome(
        left,
        annotations.values,
        resources.values,
        taints,
        wanted.vars,
        groups,
        (*wanted.errors, *failures),
        (
            *allowed.dropped,
            *annotations.dropped,
            *split.dropped,
            *resources.dropped,
            *bad_taints,
            *(Dropped(one.kind, one.key, str(one)) for one in wanted.overwrites if is_loss(one, policy)),
        ),
    )


def run(
    rules: Rules, view: View, *, policy: Policy, clock: Clock | None = None, ledger: Ledger | None = None
) -> Wanted:
    """Run the rules in order; later ones overwrite equal keys and see what earlier ones gave.

    `ledger` has what the node was given before.
    """
    wanted, ledger = Wanted(), ledger or Ledger()
    for rule in rules.rules:
        given = _run_rule(rule, view, wanted.errors, clock)
        if given is None:
            continue
        labels = policies.prefix_keys(given.labels, policy)
        annotations = policies.prefix_keys(rule.annotations, policy)
        resources = policies.prefix_keys(rule.extended_resources, policy)
        wanted.labels |= labels
        wanted.annotations |= annotations
        wanted.extended_resources |= resources
        wanted.taints += rule.taints
        wanted.vars |= given.vars
        kinds = ((LABEL, labels), (policies.ANNOTATION, annotations), (EXTENDED_RESOURCE, resources), (VAR, given.vars))
        for kind, values in (*kinds, (TAINT, policies.taint_values(rule.taints))):
            ledger.add(rule_named(rule.name), kind, values)
    wanted.overwrites = ledger.overwrites
    return wanted


def run_groups(
    groups: Iterable[Group], features: Features, *, clock: Clock | None = None, meter: Meter = FREE
) -> tuple[tuple[str, ...], list[Failure]]:
    """The groups that the node belongs to, and the group rules that failed; every group starts afresh."""
    failures: list[Failure] = []
    members = []
    for group in groups:
        view = View(features, meter)
        held = [_run_rule(rule, view, failures, clock) is not None for rule in group.rules]
        if any(held):
            members.append(group.name)
    return tuple(members), failures


def run_custom(
    rules: Iterable[CompiledRule], features: Features, *, clock: Clock | None = None, meter: Meter = FREE
) -> Wanted:
    """Run the worker's own rules: labels and vars as written, no prefix, no policy."""
    view = View(features, meter)
    wanted, ledger = Wanted(), Ledger()
    for rule in rules:
        given = _run_rule(rule, view, wanted.errors, clock)
        if given is not None:
            wanted.labels |= given.labels
            wanted.vars |= given.vars
            ledger.add(rule_named(rule.name), LABEL, given.labels)
    wanted.overwrites = ledger.overwrites
    return wanted


def _run_rule(rule: CompiledRule, view: View, failures: list[Failure], clock: Clock | None) -> Given | None:
    """Run one rule and feed `rule.matched`; None if it does not hold or fails."""
    try:
        given = run_rule(rule, view, clock)
    except RuleError as error:
        failures.append(Failure(rule.name, str(error)))
        return None
    view.remember(() if given is None else (given.labels, given.vars))
    return given


def run_rule(rule: CompiledRule, view: View, clock: Clock | None = None) -> Given | None:
    """Evaluate one rule; None if it does not hold.

    Raises: RuleError, whatever it was that went wrong: a rule spoils only itself.
    """
    view.meter.start()
    try:
        return _derive_given(rule, view, clock)
    except RuleError:
        raise
    except Exception as error:
        raise RuleError(reason_of(error)) from error


def _derive_given(rule: CompiledRule, view: View, clock: Clock | None) -> Given | None:
    if rule.defect is not None:
        raise RuleError(rule.defect)
    data: list[Data] | None = [] if rule.has_templates else None
    if rule.match_any and not _match_any(rule.match_any, view, data):
        return None
    if rule.match_features and not _match_all(rule.match_features, view, data):
        return None
    if not data:
        return Given(rule.labels, rule.vars)
    return Given(
        {**_expand(rule.labels_template, data, clock, view.meter), **rule.labels},
        {**_expand(rule.vars_template, data, clock, view.meter), **rule.vars},
    )


def _match_any(alternatives: tuple[Terms, ...], view: View, data: list[Data] | None) -> bool:
    """Whether one alternative holds; with templates all are looked at, since each hands its matches to them."""
    if data is None:
        return any(_match_all(terms, view, None) for terms in alternatives)
    return any([_match_all(terms, view, data) for terms in alternatives])  # noqa: C419  # all of them


def _match_all(terms: Terms, view: View, data: list[Data] | None) -> bool:
    """Whether all terms hold, in order; what matched becomes one more set of template data."""
    if data is None:
        return all(match_term(term, view, None) for term in terms)
    matched: Data = {}
    for term in terms:
        elements: list[Element] = []
        if not match_term(term, view, elements):
            return False
        domain, feature = term.path
        matched.setdefault(domain, {}).setdefault(feature, []).extend(elements)
    data.append(matched)
    return True


def _expand(template: Template | None, data: Iterable[Data], clock: Clock | None, meter: Meter) -> dict[str, str]:
    """Run a template on every set of matches; later ones overwrite equal keys."""
    pairs: dict[str, str] = {}
    if template is None:
        return pairs
    try:
        for matched in data:
            meter.look()
            pairs |= parse_pairs(template.render(matched, clock=clock, meter=meter))
    except TooLong as error:
        raise Exhausted(f"template: {error}") from error
    except TemplateError as error:
        raise RuleError(f"template: {error}") from error
    return pairs


def parse_pairs(text: str) -> dict[str, str]:
    """`key=value` lines of a template's output; a line without `=` is a mistake. Raises: RuleError."""
    pairs: dict[str, str] = {}
    for line in text.split("\n"):
        line = line.strip(SPACE)
        if not line:
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise RuleError(f"template: output line {line[:100]!r} is not of the form key=value")
        pairs[key] = value
    return pairs
