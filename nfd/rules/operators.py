"""Match operators: one small function each, joined in the table `OPERATORS`.

Upstream document: "Customization guide, matchExpressions" and the MatchOp type of api/nfd/v1alpha1/types.go. An
operator function takes the values of an expression once, checks them, and returns the test for one present value. What
is wrong with the values counts only when the test is needed, so a mistake is kept in the `Matcher` until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from nfd.errors import RuleError
from nfd.message_text import did_you_mean
from nfd.rules.regexp import Pattern, PatternError, TooMuchWork, compile_pattern, encode
from nfd.rules.scalars import parse_integer, parse_version

MAX_PROGRAMS = 200_000
"""Instructions that the patterns of one expression may have together."""

Test = Callable[[str], bool]
Values = tuple[str, ...]
Parse = Callable[[str], int | tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Operator:
    """How an operator treats a missing element and a flag, when its values are checked, whether a value must parse."""

    build: Callable[[Values, str], Test]
    arity: tuple[int, int | None]
    missing: bool = False
    on_flag: Literal["never", "present", "absent", "always"] = "never"
    always_checked: bool = False
    reads_value: bool = False


@dataclass(frozen=True, slots=True)
class Matcher:
    """One compiled expression, ready to be asked about an element."""

    op: str
    values: Values
    test: Test | None
    mistake: str | None
    mistake_when_missing: bool
    missing: bool
    on_flag: Literal["never", "present", "absent", "always"]
    patterns: tuple[Pattern, ...] = ()
    """What a value is searched for; each search costs more than a step."""

    def steps(self, texts: Sequence[str]) -> int:
        """What judging these values counts."""
        size = sum(map(len, texts))
        return sum(len(texts) + pattern.steps(size) for pattern in self.patterns)

    def holds(self, text: str | None) -> bool:
        """Evaluate a value; None is a missing element. Raises: RuleError for invalid values."""
        if text is None:
            if self.mistake_when_missing:
                raise RuleError(self.mistake)
            return self.missing
        if self.test is None:
            raise RuleError(self.mistake)
        try:
            return self.test(text)
        except TooMuchWork as error:
            raise RuleError(f"operator {self.op}: {error}") from error

    def holds_for_flag(self, present: bool) -> bool:
        """Evaluate a flag, which has no value: only its presence can count."""
        if self.mistake_when_missing and not self.test:
            raise RuleError(self.mistake)
        if self.on_flag == "never":
            return False
        return self.on_flag == "always" or present == (self.on_flag == "present")

    @property
    def is_safe(self) -> bool:
        """Whether no value can be a mistake."""
        return self.test is not None and not OPERATORS[self.op].reads_value

    @property
    def rank(self) -> int:
        """Which of several expressions to ask first: cheap ones, then patterns, then those that may be mistaken."""
        return 2 if not self.is_safe else 1 if self.op == "InRegexp" else 0

    def __str__(self) -> str:
        return " ".join((self.op or "(any)", *((f"[{', '.join(self.values)}]",) if self.values else ())))


def compile_matcher(op: str, values: Values, kind: str = "") -> Matcher:
    """Compile an expression; never raises, mistakes come up when the expression is evaluated."""
    operator = OPERATORS.get(op)
    if operator is None:
        return Matcher(op, values, None, f"invalid operator {op!r}{did_you_mean(op, OPERATORS)}", True, False, "never")
    mistake = None
    test: Test | None = None
    try:
        _check_arity(op, values, operator.arity)
        test = operator.build(values, kind)
    except (RuleError, PatternError) as error:
        mistake = str(error)
    checked = operator.always_checked and mistake is not None
    patterns = test.patterns if isinstance(test, Search) else ()
    return Matcher(op, values, test, mistake, checked, operator.missing, operator.on_flag, patterns)


def _check_arity(op: str, values: Values, arity: tuple[int, int | None]) -> None:
    low, high = arity
    if len(values) < low or (high is not None and len(values) > high):
        wanted = f"at least {low} value" if high is None else f"{low or 'no'} value{'' if low == 1 else 's'}"
        raise RuleError(f"operator {op or '(any)'} takes {wanted}, got {len(values)}")


def op_in(values: Values, _kind: str) -> Test:
    """The value is one of the listed ones."""
    return frozenset(values).__contains__


def op_not_in(values: Values, _kind: str) -> Test:
    """The value is none of the listed ones."""
    listed = frozenset(values)
    return lambda text: text not in listed


def op_in_regexp(values: Values, _kind: str) -> Test:
    """One of the patterns matches somewhere in the value."""
    patterns: list[Pattern] = []
    left = MAX_PROGRAMS
    for value in values:
        patterns.append(compile_pattern(value))
        left -= patterns[-1].weight
        if left < 0:
            raise RuleError(f"regular expressions of more than {MAX_PROGRAMS} instructions together")
    return Search(tuple(patterns))


@dataclass(frozen=True, slots=True)
class Search:
    """The test of InRegexp."""

    patterns: tuple[Pattern, ...]

    def __call__(self, text: str) -> bool:
        """Raises: TooMuchWork."""
        data = encode(text)
        for pattern in self.patterns:
            if len(data) > pattern.longest:
                pattern.check(len(data))
            if pattern.search(data) is not None:
                return True
        return False


def op_any(_values: Values, _kind: str) -> Test:
    """Anything will do, also for `Exists`, which is asked only about what is there."""
    return lambda _text: True


def op_does_not_exist(_values: Values, _kind: str) -> Test:
    """Never true of something that is there."""
    return lambda _text: False


def op_equals(wanted: str, _values: Values, _kind: str) -> Test:
    """The value is exactly `true` or `false`."""
    return wanted.__eq__


def op_compare(relation: str, values: Values, kind: str) -> Test:
    """The value compares to the one bound as the operator says."""
    parse = _parser(kind)
    bound = parse(values[0])
    compare: Callable[..., bool] = {
        "Gt": lambda value: value > bound,
        "Ge": lambda value: value >= bound,
        "Lt": lambda value: value < bound,
        "Le": lambda value: value <= bound,
    }[relation]
    return lambda text: compare(parse(text))


def op_between(values: Values, kind: str) -> Test:
    """Strictly between the two bounds."""
    parse = _parser(kind)
    low, high = parse(values[0]), parse(values[1])
    if not kind and low >= high:  # type: ignore[operator]  # both of one kind
        raise RuleError(f"operator GtLt: {values[0]} is not less than {values[1]}")
    return lambda text: low < parse(text) < high  # type: ignore[operator]


def op_within(values: Values, kind: str) -> Test:
    """Between the two bounds, bounds included; equal bounds are a range of one number."""
    parse = _parser(kind)
    low, high = parse(values[0]), parse(values[1])
    if not kind and low > high:  # type: ignore[operator]
        raise RuleError(f"operator GeLe: {values[0]} is greater than {values[1]}")
    return lambda text: low <= parse(text) <= high  # type: ignore[operator]


def _parser(kind: str) -> Parse:
    if kind not in PARSERS:
        raise RuleError(f"invalid value type {kind!r}")
    return PARSERS[kind]


PARSERS: dict[str, Parse] = {"": parse_integer, "version": parse_version}

OPERATORS: dict[str, Operator] = {
    "": Operator(op_any, (0, 0), missing=True, on_flag="always", always_checked=True),
    "In": Operator(op_in, (1, None)),
    "NotIn": Operator(op_not_in, (1, None)),
    "InRegexp": Operator(op_in_regexp, (1, None)),
    "Exists": Operator(op_any, (0, 0), on_flag="present", always_checked=True),
    "DoesNotExist": Operator(op_does_not_exist, (0, 0), missing=True, on_flag="absent", always_checked=True),
    "Gt": Operator(partial(op_compare, "Gt"), (1, 1), reads_value=True),
    "Ge": Operator(partial(op_compare, "Ge"), (1, 1), reads_value=True),
    "Lt": Operator(partial(op_compare, "Lt"), (1, 1), reads_value=True),
    "Le": Operator(partial(op_compare, "Le"), (1, 1), reads_value=True),
    "GtLt": Operator(op_between, (2, 2), reads_value=True),
    "GeLe": Operator(op_within, (2, 2), reads_value=True),
    "IsTrue": Operator(partial(op_equals, "true"), (0, 0)),
    "IsFalse": Operator(partial(op_equals, "false"), (0, 0)),
}
"""All operators by name; "" is upstream's internal "any"."""
