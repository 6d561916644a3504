"""Expressions as Kubernetes' nodeSelectorTerms, and these as Kubernetes evaluates them.

Source: API reference, "NodeSelectorTerm": terms are alternatives, all requirements of one have to hold, and a term
without any selects nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nfd.errors import ConfigError
from nfd.fleet.query import And, Expression, Not, Or, Term, order_term

MOST_TERMS = 100
"""Alternatives of one selector."""
Alternative = tuple[Term, ...]
Values = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Selector:
    """`terms` are alternatives; `warnings` say what of the expression no selector can say."""

    terms: tuple[Alternative, ...]
    warnings: tuple[str, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether Kubernetes would take a node with these labels."""
        return any(term and all(one.holds(labels) for one in term) for term in self.terms)

    def to_terms(self) -> list[dict[str, Any]]:
        """The list `nodeSelectorTerms`; a selector that selects nothing has one term that is empty."""
        return [{"matchExpressions": [_requirement(one) for one in term]} if term else {} for term in self.terms]

    def to_affinity(self) -> dict[str, Any]:
        """The field `affinity` of a pod."""
        required = {"nodeSelectorTerms": self.to_terms()}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    def to_label_selector(self) -> str:
        """What `kubectl -l` takes; "" where it takes alternatives, or nothing is selected."""
        return ",".join(_written(one) for one in self.terms[0]) if len(self.terms) == 1 else ""


def to_selector(expression: Expression, fleet: Iterable[Mapping[str, str]] = ()) -> Selector:
    """The selector that says the same of the nodes whose labels `fleet` has.

    What no selector can say becomes the list of values that there are, with a warning. Raises: ConfigError for too many
    alternatives.
    """
    writer = _Writer(_values(fleet))
    alternatives = dict.fromkeys(filter(None, map(_tidy, writer.alternatives(expression, negated=False))))
    return Selector(tuple(_without_narrower(list(alternatives))) or ((),), tuple(dict.fromkeys(writer.warnings)))


class _Writer:
    """Pushes negation inwards and multiplies out; gathers warnings."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self.warnings: list[str] = []

    def alternatives(self, part: Expression, *, negated: bool) -> list[Alternative]:
        if isinstance(part, Not):
            return self.alternatives(part.part, negated=not negated)
        if isinstance(part, Term):
            return self._negative(part) if negated else self._positive(part)
        found = [self.alternatives(one, negated=negated) for one in part.parts]
        if isinstance(part, Or) != negated:
            return _limited([one for alternatives in found for one in alternatives])
        assert isinstance(part, And | Or)
        joined: list[Alternative] = [()]
        for alternatives in found:
            joined = _limited([(*one, *other) for one in joined for other in alternatives])
        return joined

    def _positive(self, term: Term) -> list[Alternative]:
        if term.selectable:
            return [(term,)]
        self._warn(term)
        return self._listed(term.key, [value for value in self._values.get(term.key, ()) if term.suits(value)])

    def _negative(self, term: Term) -> list[Alternative]:
        opposites = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}
        if term.operator in opposites:
            return [(Term(term.key, opposites[term.operator], term.values),)]
        missing = (Term(term.key, "DoesNotExist"),)
        known = self._values.get(term.key, ())
        if not term.selectable:
            self._warn(term)
            return [missing, *self._listed(term.key, [value for value in known if not term.suits(value)])]
        sign = "<=" if term.operator == "Gt" else ">="
        opposite = order_term(term.key, sign, int(term.values[0]))
        odd = [value for value in known if not term.suits(value) and not opposite.suits(value)]
        if odd:
            self.warnings.append(f"{term.key}: no selector can say that a value is no number; there are {_some(odd)}")
        return [missing, (opposite,), *self._listed(term.key, odd)]

    def _listed(self, key: str, values: Sequence[str]) -> list[Alternative]:
        return [(Term(key, "In", tuple(values)),)] if values else []

    def _warn(self, term: Term) -> None:
        what = "a pattern" if term.operator == "Matches" else "versions"
        self.warnings.append(
            f"{term.key}: no selector can say {what}, so values are listed as nodes have them now; "
            "nodes with others will not be selected"
        )


def _tidy(alternative: Alternative) -> Alternative | None:
    """The same without repetitions, lists of one key cut down to what they share; None if it can never hold."""
    lists: dict[str, tuple[str, ...]] = {}
    others: dict[Term, None] = {}
    for term in alternative:
        if term.operator == "In":
            before = lists.get(term.key, term.values)
            lists[term.key] = tuple(value for value in before if value in term.values)
        else:
            others[term] = None
    for key, values in lists.items():
        lists[key] = tuple(
            value for value in values if all(one.holds({key: value}) for one in others if one.key == key)
        )
    kept = [one for one in others if one.key not in lists]
    absent = {one.key for one in kept if one.operator == "DoesNotExist"}
    if not all(lists.values()) or any(one.key in absent and one.operator in ("Exists", "Gt", "Lt") for one in kept):
        return None
    order = dict.fromkeys(term.key for term in alternative)
    terms = [Term(key, "In", values) for key, values in lists.items()] + kept
    return tuple(sorted(terms, key=lambda one: list(order).index(one.key)))


def _without_narrower(alternatives: list[Alternative]) -> Iterator[Alternative]:
    """Leave out alternatives that ask for all that another one asks for, and more."""
    sets = [frozenset(one) for one in alternatives]
    for index, one in enumerate(alternatives):
        if not any(other < sets[index] for other in sets):
            yield one


def _limited(alternatives: list[Alternative]) -> list[Alternative]:
    if len(alternatives) > MOST_TERMS:
        raise ConfigError(f"expression: comes to more than {MOST_TERMS} alternatives; ask for less at a time")
    return alternatives


def _values(fleet: Iterable[Mapping[str, str]]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for labels in fleet:
        for key, value in labels.items():
            found.setdefault(key, set()).add(value)
    return {key: sorted(values) for key, values in found.items()}


def _some(values: Sequence[str]) -> str:
    return ", ".join(map(repr, values[:3])) + (", …" if len(values) > 3 else "")


def _requirement(term: Term) -> dict[str, Any]:
    found: dict[str, Any] = {"key": term.key, "operator": term.operator}
    return found | {"values": list(term.values)} if term.values else found


def _written(term: Term) -> str:
    """One requirement in the syntax of Kubernetes' `labels.Parse`."""
    match term.operator:
        case "In" | "NotIn" if len(term.values) == 1 and term.values[0]:
            return f"{term.key}{'=' if term.operator == 'In' else '!='}{term.values[0]}"
        case "In" | "NotIn":
            return f"{term.key} {'in' if term.operator == 'In' else 'notin'} ({','.join(term.values)})"
        case "Exists" | "DoesNotExist":
            return term.key if term.operator == "Exists" else f"!{term.key}"
    return f"{term.key}{'>' if term.operator == 'Gt' else '<'}{term.values[0]}"
