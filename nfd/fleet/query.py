"""One condition on a label, and whether labels fulfil it.

`In NotIn Exists DoesNotExist Gt Lt` are Kubernetes' own (API reference, "NodeSelectorRequirement"): a missing label is
in no list, and Gt and Lt compare whole numbers of 64 bits, a value that is none fulfilling neither. The others are for
what no selector can say: `Matches` finds a pattern anywhere in the value, the version operators compare the numbers and
dots that a value starts with, missing parts being 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple, NoReturn

from nfd import names
from nfd.errors import ConfigError
from nfd.message_text import nearest
from nfd.rules import regexp
from nfd.rules.regexp import PatternError, compile_pattern

MAX_INT = 2**63 - 1
SELECTOR_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})

_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}", re.ASCII)
_VERSION = re.compile(r"[0-9]{1,1000}(?:\.[0-9]{1,1000})*", re.ASCII)
_ACCEPTED = {"VersionLt": (-1,), "VersionLe": (-1, 0), "VersionGt": (1,), "VersionGe": (0, 1)}


@dataclass(frozen=True, slots=True)
class Term:
    """`key` is whole, namespace included; Gt, Lt, Matches and versions have one value."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    @property
    def selectable(self) -> bool:
        """Whether a selector can say it."""
        return self.operator in SELECTOR_OPERATORS

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels fulfils it."""
        value = labels.get(self.key)
        match self.operator:
            case "In" | "NotIn":
                return (value in self.values) == (self.operator == "In")
            case "Exists" | "DoesNotExist":
                return (value is not None) == (self.operator == "Exists")
        return value is not None and self.suits(value)

    def suits(self, value: str) -> bool:
        """Whether a value fulfils it, for the operators that need one."""
        wanted = self.values[0]
        if self.operator == "Matches":
            return regexp.found(wanted, value)
        if self.operator in _ACCEPTED:
            return compare_versions(value, wanted) in _ACCEPTED[self.operator]
        number, bound = parse_int64(value), parse_int64(wanted)
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


def parse_int64(text: str) -> int | None:
    """As Go's strconv.ParseInt with base 10 and 64 bits; None for anything else."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -MAX_INT - 1 <= number <= MAX_INT else None


def is_version(text: str) -> bool:
    return _VERSION.fullmatch(text) is not None


def compare_versions(one: str, other: str) -> int | None:
    """-1, 0 or 1; None if either does not start with a digit."""
    found = [_VERSION.match(text) for text in (one, other)]
    if found[0] is None or found[1] is None:
        return None
    parts = [[int(part) for part in match[0].split(".")] for match in found if match is not None]
    for mine, others in zip_longest(*parts, fillvalue=0):
        if mine != others:
            return -1 if mine < others else 1
    return 0


LONGEST = 4096
DEEPEST = 50
_TOKEN = re.compile(r"""\s*(?:(==|!=|=~|!~|<=|>=|[=<>(),])|"([^"]*)"|'([^']*)'|([^\s=!<>(),"'~]+))""")
_WORDS = frozenset({"and", "or", "not", "in", "exists"})
_ORDERS = frozenset({"<", "<=", ">", ">="})
_VERSIONS = {"<": "VersionLt", "<=": "VersionLe", ">": "VersionGt", ">=": "VersionGe"}


@dataclass(frozen=True, slots=True)
class Not:
    part: Expression

    def holds(self, labels: Mapping[str, str]) -> bool:
        return not self.part.holds(labels)


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Expression, ...]

    def holds(self, labels: Mapping[str, str]) -> bool:
        return all(part.holds(labels) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Expression, ...]

    def holds(self, labels: Mapping[str, str]) -> bool:
        return any(part.holds(labels) for part in self.parts)


Expression = Term | Not | And | Or


class _Token(NamedTuple):
    """`kind` is the sign or word itself, `text` for keys and values, "" at the end."""

    kind: str
    text: str
    place: int


def parse_query(text: str) -> Expression:
    """Raises: ConfigError naming the column."""
    if len(text) > LONGEST:
        raise ConfigError(f"expression of {len(text)} characters is too long, at most {LONGEST} are taken")
    return _Parser(text).whole()


def full_key(word: str) -> str:
    """The label that a key in an expression means."""
    return word[1:] if word.startswith("/") else names.full_key(word)


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_split(text))
        self._index = 0
        self._depth = 0

    def whole(self) -> Expression:
        found = self._expression()
        if self._now.kind:
            self._fail(f"expected and, or, or the end, found {self._now.text!r}")
        return found

    @property
    def _now(self) -> _Token:
        return self._tokens[self._index]

    def _next(self) -> _Token:
        token = self._now
        self._index += 1
        return token

    def _takes(self, kind: str) -> bool:
        if self._now.kind == kind:
            self._index += 1
            return True
        return False

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(f"nested more than {DEEPEST} deep")
        parts = [self._alternative()]
        while self._takes("or"):
            parts.append(self._alternative())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _alternative(self) -> Expression:
        parts = [self._condition()]
        while self._takes("and"):
            parts.append(self._condition())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _condition(self) -> Expression:
        negated = False
        while self._takes("not"):
            negated = not negated
        if self._takes("("):
            found = self._expression()
            self._wants(")")
        else:
            found = self._about_key(full_key(self._text("a label")))
        return Not(found) if negated else found

    def _about_key(self, key: str) -> Expression:
        if problem := names.key_problem(key):
            self._index -= 1
            self._fail(f"{key!r} is no label: its {problem}")
        kind = self._now.kind
        if kind in ("=", "==", "!="):
            self._next()
            return Term(key, "NotIn" if kind == "!=" else "In", (self._value(),))
        if kind in _ORDERS:
            self._next()
            return self._order(key, kind)
        if kind in ("=~", "!~"):
            self._next()
            found = Term(key, "Matches", (self._pattern(),))
            return found if kind == "=~" else Not(found)
        if kind == "not":
            self._next()
            self._wants("in")
            return Term(key, "NotIn", self._list())
        if self._takes("in"):
            return Term(key, "In", self._list())
        self._takes("exists")
        return Term(key, "Exists")

    def _order(self, key: str, sign: str) -> Expression:
        """Whole numbers as Gt and Lt say them; with dots in it, a version."""
        text = self._text("a number")
        number = parse_int64(text)
        if number is not None:
            return order_term(key, sign, number)
        if not is_version(text) or "." not in text:
            self._index -= 1
            self._fail(f"{text!r} is neither a whole number of 64 bits nor a version such as 5.15")
        return Term(key, _VERSIONS[sign], (text,))

    def _list(self) -> tuple[str, ...]:
        self._wants("(")
        values = [self._value()]
        while self._takes(","):
            values.append(self._value())
        self._wants(")")
        return tuple(dict.fromkeys(values))

    def _value(self) -> str:
        text = self._text("a value")
        if problem := names.value_problem(text):
            self._index -= 1
            self._fail(f"{text!r} is no label value: it {problem}")
        return text

    def _pattern(self) -> str:
        text = self._text("a pattern")
        try:
            compile_pattern(text)
        except PatternError as error:
            self._index -= 1
            self._fail(str(error))
        return text

    def _text(self, what: str) -> str:
        if self._now.kind != "text":
            self._fail(
                f"expected {what}, found {self._now.text!r}" if self._now.kind else f"expected {what} at the end"
            )
        return self._next().text

    def _wants(self, kind: str) -> None:
        if not self._takes(kind):
            self._fail(f"expected {kind!r}, found {self._now.text!r}" if self._now.kind else f"expected {kind!r}")

    def _fail(self, reason: str) -> NoReturn:
        raise ConfigError(f"expression, column {self._now.place}: {reason}")


def order_term(key: str, sign: str, number: int) -> Term:
    """`<=` and `>=` by the neighbouring number. Values of labels have no sign, and neither has a selector's operand."""
    if sign in (">", ">="):
        bound = number - 1 if sign == ">=" else number
        return Term(key, "Gt", (str(bound),)) if bound >= 0 else Term(key, "Lt", (str(MAX_INT),))
    bound = number + 1 if sign == "<=" else number
    return Term(key, "Lt", (str(min(max(bound, 0), MAX_INT)),))


def _split(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            rest = text[at:].strip()
            raise ConfigError(f"expression, column {end - len(rest) + 1}: {rest[:20]!r} is not expected here")
        sign, double, single, word = found.groups()
        place = found.start(found.lastindex or 0) + 1
        if sign:
            tokens.append(_Token(sign, sign, place))
        elif word and word.lower() in _WORDS:
            tokens.append(_Token(word.lower(), word, place))
        else:
            tokens.append(_Token("text", next(one for one in (double, single, word) if one is not None), place))
        at = found.end()
    tokens.append(_Token("", "", end + 1))
    return tokens


def missing_keys(expression: Expression, all_labels: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """What to tell a user about keys that no node has: the same name in another namespace, else the nearest key."""
    have = {key for labels in all_labels for key in labels}
    for key in keys_of(expression):
        if key not in have:
            yield f"no node has the label {key}{nearest_key(key, have)}"


def nearest_key(key: str, known: Iterable[str]) -> str:
    """A hint at the same name in other namespaces, else at the nearest key, "" if there is none."""
    listed, (space, _, name) = sorted(known), key.rpartition("/")
    same = [one for one in listed if one != key and one.rpartition("/")[2] == name]
    by_name = {
        one.rpartition("/")[2]: one for one in (*listed, *(one for one in listed if one.startswith(f"{space}/")))
    }
    found = " or ".join(same) or by_name.get(nearest(name, by_name), "")
    return f"; did you mean {found}?" if found else ""


def keys_of(expression: Expression) -> list[str]:
    """The labels that it asks for, in order."""
    if isinstance(expression, Term):
        return [expression.key]
    parts = (expression.part,) if isinstance(expression, Not) else expression.parts
    return list(dict.fromkeys(key for part in parts for key in keys_of(part)))
