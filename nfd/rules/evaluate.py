"""Evaluates rules over the features of one node, one after the other, and limits how many labels a worker's rule gives.

`run_rule` is one rule among others, `run_custom` all of the worker's own rules, names and values untouched. What a node
gets of the rules of a cluster is `nfd.master.node.outcome`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from nfd.errors import Endless, RuleError, reason_of
from nfd.features import Features
from nfd.rules.compile import CompiledRule, Terms
from nfd.rules.match_features import Element, View, match_term
from nfd.rules.output_keys import Ledger, Overwrite, rule_named
from nfd.rules.policy import LABEL
from nfd.rules.scalars import SPACE
from nfd.rules.template import Clock, Data, Template, TemplateError
from nfd.rules.template.budget import TooLong
from nfd.rules.time_limit import FREE, Exhausted, Meter

MAX_LABELS = 4_000
"""Labels of all rules of a worker; as many as a Node can list."""
MAX_LETTERS = 128 * 1024
"""Letters of their keys and values."""
PER_RULE = 2
"""One rule may give that part of either: the others have the rest."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A rule that could not be evaluated; it gives nothing, the others go on."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Given:
    """Labels and vars of one rule that holds."""

    labels: Mapping[str, str]
    vars: Mapping[str, str]


Watch = Callable[[CompiledRule, View, Given | RuleError | None], None]
"""Sees each rule with its result, before later rules run; None is a rule that does not hold."""


@dataclass(slots=True)
class CustomGiven:
    """What the worker's rules give: labels and vars as written, no prefix, no policy."""

    labels: dict[str, str] = field(default_factory=dict)
    vars: dict[str, str] = field(default_factory=dict)
    errors: list[Failure] = field(default_factory=list)
    overwrites: list[Overwrite] = field(default_factory=list)
    """Labels of which a later rule has replaced the value."""


@dataclass(slots=True)
class LabelBudget:
    """What the rules of a worker may still give, so that a master accepts the report and the Node can list it."""

    labels: int = MAX_LABELS
    letters: int = MAX_LETTERS

    def take(self, given: Given) -> None:
        """Raises: RuleError if it is too much; then nothing is taken."""
        labels, letters = len(given.labels), sum(len(key) + len(value) for key, value in given.labels.items())
        most_labels = min(self.labels, MAX_LABELS // PER_RULE)
        most_letters = min(self.letters, MAX_LETTERS // PER_RULE)
        if labels > most_labels:
            raise RuleError(f"gives {labels} labels; at most {most_labels} are allowed here")
        if letters > most_letters:
            raise RuleError(f"gives {letters} letters of labels; at most {most_letters} are allowed here")
        self.labels -= labels
        self.letters -= letters


def run_custom(
    rules: Iterable[CompiledRule],
    features: Features,
    *,
    clock: Clock | None = None,
    meter: Meter = FREE,
    watch: Watch | None = None,
) -> CustomGiven:
    """Run the worker's own rules."""
    view, found, ledger, budget = View(features, meter, watch), CustomGiven(), Ledger(), LabelBudget()
    for rule in rules:
        try:
            given = run_rule(rule, view, clock, budget)
        except RuleError as error:
            found.errors.append(Failure(rule.name, str(error)))
            continue
        if given is not None:
            found.labels |= given.labels
            found.vars |= given.vars
            ledger.add(rule_named(rule.name), LABEL, given.labels)
    found.overwrites = ledger.overwrites
    return found


def run_rule(
    rule: CompiledRule, view: View, clock: Clock | None = None, budget: LabelBudget | None = None
) -> Given | None:
    """Evaluate one rule, and let those after it see what it gave; None if it does not hold. `budget` limits its labels.

    Raises: RuleError, whatever it was that went wrong: a rule spoils only itself.
    """
    view.meter.start()
    try:
        given = _derive_given(rule, view, clock)
        if budget is not None and given is not None:
            budget.take(given)
    except Exception as error:
        kind = Exhausted if isinstance(error, Endless) else RuleError
        failure = error if isinstance(error, RuleError) else kind(reason_of(error))
        if view.watch is not None:
            view.watch(rule, view, failure)
        if failure is error:
            raise
        raise failure from error
    if view.watch is not None:
        view.watch(rule, view, given)
    view.remember(() if given is None else (given.labels, given.vars))
    return given


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
