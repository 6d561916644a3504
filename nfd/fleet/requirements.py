"""Requirements for features as a selector for labels, as far as labels of the fleet say the same (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from nfd.errors import ConfigError
from nfd.features import Features
from nfd.fleet.affinity import MOST_TERMS, Selector, to_selector
from nfd.fleet.query import And, Expression, Or, Term
from nfd.names import FEATURE_NS
from nfd.rules.model import Expression as Condition
from nfd.rules.model import GroupRule
from nfd.rules.model import Term as Wanted

HOST_NAME = "kubernetes.io/hostname"
_NAMES = {"system.osrelease": "system-os_release"}
"""Features whose labels have another name."""
Labels = Mapping[str, Mapping[str, str]]


def selector_for(
    sets: Sequence[Sequence[GroupRule | None]],
    labels: Labels,
    features: Mapping[str, Features],
    suitable: AbstractSet[str],
) -> Selector:
    """A selector for nodes that meet all rules of one of these sets.

    `labels` and `features` are those of all known nodes by name, `suitable` are those that meet a set. If labels cannot
    say the same, the suitable nodes are listed, with the reason as a warning.
    """
    written = _Writer(labels, features)
    try:
        expression = Or(tuple(written.all_of(rules) for rules in sets))
        selector = to_selector(expression, labels.values())
        if sets and all(selector.selects(found) == (name in suitable) for name, found in labels.items()):
            return selector
        reason = "labels do not say the same as the requirements"
    except LookupError as error:
        reason = f"no label says {error.args[0]}"
    except ConfigError:
        reason = f"labels say the same only in more than {MOST_TERMS} alternatives"
    except ValueError as error:
        reason = f"a requirement cannot be evaluated: {error}"
    hosts = tuple(sorted(labels[name].get(HOST_NAME, name) for name in suitable))
    listed = ((Term(HOST_NAME, "In", hosts),),) if hosts else ((),)
    return Selector(listed, (f"{reason}, so the nodes are listed as they are now; later ones will not be selected",))


class _Writer:
    """Writes rules as expressions over labels. Its methods raise LookupError with what no label says."""

    def __init__(self, labels: Labels, features: Mapping[str, Features]) -> None:
        self._labels = labels
        self._features = features

    def all_of(self, rules: Sequence[GroupRule | None]) -> Expression:
        parts = [part for rule in rules if rule is not None for part in self._rule(rule)]
        if not parts:
            raise LookupError("that every node is meant")
        return And(tuple(parts))

    def _rule(self, rule: GroupRule) -> Iterator[Expression]:
        yield from self._terms(rule.match_features or ())
        if rule.match_any:
            yield Or(tuple(And(tuple(self._terms(one.match_features or ()))) for one in rule.match_any))

    def _terms(self, terms: Sequence[Wanted]) -> Iterator[Expression]:
        for term in terms:
            for name, condition in (term.match_expressions or {}).items():
                yield from self._condition(term.feature, name, condition)
            if (wanted := term.match_name) is not None:
                if wanted.op != "In" or not wanted.value:
                    raise LookupError(f"which names {term.feature} has")
                yield Or(tuple(Term(self._key(term.feature, name), "Exists") for name in wanted.value))

    def _condition(self, feature: str, name: str, condition: Condition) -> Iterator[Expression]:
        key, values = self._key(feature, name), tuple(condition.value or ())
        if condition.type:
            raise LookupError(f"{feature}.{name} as {condition.type}")
        match condition.op:
            case "Exists" | "DoesNotExist":
                yield Term(key, condition.op)
            case "In":
                yield Term(key, "In", values)
            case "Gt" | "Lt" if len(values) == 1:
                yield Term(key, condition.op, values)
            case "NotIn":
                yield And((Term(key, "Exists"), Term(key, "NotIn", values)))
            case "IsTrue" | "IsFalse":
                yield Term(key, "In", (condition.op.removeprefix("Is").lower(),))
            case "InRegexp":
                yield Or(tuple(Term(key, "Matches", (pattern,)) for pattern in values))
            case _:
                raise LookupError(f"{feature}.{name} {condition.op}")

    def _key(self, feature: str, name: str) -> str:
        """The label that has the same value as the element on all known nodes, and on at least one."""
        source, _, rest = feature.partition(".")
        key = f"{FEATURE_NS}/{_NAMES.get(feature, f'{source}-{rest}')}.{name}"
        value_of = _reader(feature, name)
        values = {node: value_of(found) for node, found in self._features.items()}
        if not any(values.values()) or any(self._labels[node].get(key) != value for node, value in values.items()):
            raise LookupError(f"{feature}.{name}")
        return key


def _reader(feature: str, name: str) -> Callable[[Features], str | None]:
    def read(features: Features) -> str | None:
        if feature in features.flags:
            return "true" if name in features.flags[feature] else None
        return features.attributes.get(feature, {}).get(name)

    return read
