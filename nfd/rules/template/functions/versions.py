"""Semantic versions and constraints; upstream: Sprig semver.go, Masterminds/semver."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from nfd.rules.template.function_calls import function
from nfd.rules.template.values import GoObject, TemplateError, Uint64, type_name

_TAIL = r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
_VERSION = re.compile(rf"(v?)([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?{_TAIL}", re.ASCII)
_OPERATOR = r"=<|=>|=|!=|>=|<=|>|<|~>|~|\^|"
_PATTERN = rf"v?([0-9xX*|]+)(\.[0-9xX*|]+)?(\.[0-9xX*|]+)?{_TAIL}"
_CONSTRAINT = re.compile(rf"\s*({_OPERATOR})\s*{_PATTERN}\s*", re.ASCII)
_RANGE = re.compile(r"\s*(v?[0-9xX*][^\s,|]*)\s+-\s+(v?[0-9xX*][^\s,|]*)\s*", re.ASCII)
_LONGEST_VERSION, _LONGEST_CONSTRAINT, _MOST_ALTERNATIVES = 256, 512, 32


@dataclass(frozen=True, eq=True)
class Version(GoObject):
    """A version; shorter ones are filled up with zeros."""

    numbers: tuple[int, int, int]
    pre: str = ""
    metadata: str = ""
    original: str = ""
    prefix: str = field(default="", compare=False)

    type_name: ClassVar[str] = "*semver.Version"
    kind: ClassVar[str] = "ptr"
    methods: ClassVar[Mapping[str, Callable[..., Any]]]

    def __str__(self) -> str:
        text = ".".join(map(str, self.numbers))
        return text + (f"-{self.pre}" if self.pre else "") + (f"+{self.metadata}" if self.metadata else "")

    def compare(self, other: Version) -> int:
        """-1, 0 or 1; metadata plays no part."""
        if self.numbers != other.numbers:
            return 1 if self.numbers > other.numbers else -1
        if not self.pre or not other.pre:
            return (not self.pre) - (not other.pre)
        return _compare_pre(self.pre, other.pre)

    def raised(self, place: int) -> Version:
        """The next version, counted at a place; a pre-release's next patch is the release itself."""
        numbers = [*self.numbers[: place + 1], 0, 0][:3]
        if place < 2 or not self.pre:
            numbers[place] += 1
        raised = replace(self, numbers=(numbers[0], numbers[1], numbers[2]), pre="", metadata="")
        return replace(raised, original=self.prefix + str(raised))


def _compare_pre(first: str, second: str) -> int:
    ones, others = first.split("."), second.split(".")
    for index in range(max(len(ones), len(others))):
        one = ones[index] if index < len(ones) else ""
        other = others[index] if index < len(others) else ""
        if one != other:
            return 1 if _part_key(one) > _part_key(other) else -1
    return 0


def _part_key(part: str) -> tuple[int, int, str]:
    """Nothing before numbers before words."""
    if not part:
        return 0, 0, ""
    return (1, int(part), "") if part.isdigit() and int(part) < 1 << 64 else (2, 0, part)


@function("semver", "string")
def parse(text: str) -> Version:
    """Raises: TemplateError for what is no version."""
    match = _VERSION.fullmatch(text) if len(text) <= _LONGEST_VERSION else None
    if match is None:
        raise TemplateError(f"invalid semantic version {text[:100]!r}")
    numbers = [int(match[place] or 0) for place in (2, 3, 4)]
    pre = match[5] or ""
    if any(number >= 1 << 64 for number in numbers):
        raise TemplateError("version segment out of range")
    if any(part.isdigit() and len(part) > 1 and part[0] == "0" for part in pre.split(".")):
        raise TemplateError("version segment starts with 0")
    return Version((numbers[0], numbers[1], numbers[2]), pre, match[6] or "", text, match[1])


def _other(value: Any) -> Version:
    if not isinstance(value, Version):
        raise TemplateError(f"wrong type for value; expected *semver.Version; got {type_name(value)}")
    return value


Version.methods = {
    "String": str,
    "Original": lambda version: version.original,
    "Major": lambda version: Uint64(version.numbers[0]),
    "Minor": lambda version: Uint64(version.numbers[1]),
    "Patch": lambda version: Uint64(version.numbers[2]),
    "Prerelease": lambda version: version.pre,
    "Metadata": lambda version: version.metadata,
    "IncMajor": lambda version: version.raised(0),
    "IncMinor": lambda version: version.raised(1),
    "IncPatch": lambda version: version.raised(2),
    "Compare": lambda version, other: version.compare(_other(other)),
    "Equal": lambda version, other: version.compare(_other(other)) == 0,
    "LessThan": lambda version, other: version.compare(_other(other)) < 0,
    "LessThanEqual": lambda version, other: version.compare(_other(other)) <= 0,
    "GreaterThan": lambda version, other: version.compare(_other(other)) > 0,
    "GreaterThanEqual": lambda version, other: version.compare(_other(other)) >= 0,
}


@function("semverCompare", "string", "string")
def semver_compare(constraint: str, version: str) -> bool:
    """Whether a version fulfils `>=1.2 <2 || ^3.1`; a pre-release only fulfils alternatives that name one."""
    alternatives = _parse_constraints(constraint)
    wanted = parse(version)
    return any(_holds(all_of, wanted) for all_of in alternatives)


def _holds(all_of: list[_Constraint], version: Version) -> bool:
    if version.pre and not any(one.bound.pre for one in all_of):
        return False
    return all(_TESTS[one.operator](one, version) for one in all_of)


@dataclass(frozen=True)
class _Constraint:
    """One bound; `given` is how many numbers were written, 0 for none or a wildcard."""

    operator: str
    bound: Version
    given: int

    def differs(self, version: Version) -> bool:
        if self.given == 3:
            return version.compare(self.bound) != 0
        count = max(self.given, 1)
        if version.numbers[:count] != self.bound.numbers[:count]:
            return True
        if self.given == 0:
            return version.numbers[:2] != self.bound.numbers[:2] or version.compare(self.bound) != 0
        return (
            self.given == 2 and bool(version.pre or self.bound.pre) and _compare_pre(version.pre, self.bound.pre) != 0
        )

    def greater(self, version: Version) -> bool:
        if self.given in (0, 3):
            return version.compare(self.bound) > 0
        return version.numbers[: self.given] > self.bound.numbers[: self.given]

    def at_most(self, version: Version) -> bool:
        if self.given == 3:
            return version.compare(self.bound) <= 0
        count = 1 if self.given == 1 else 2
        return version.numbers[:count] <= self.bound.numbers[:count]

    def equal(self, version: Version) -> bool:
        return version.compare(self.bound) == 0 if self.given == 3 else self.tilde(version)

    def tilde(self, version: Version) -> bool:
        if version.compare(self.bound) < 0:
            return False
        if not any(self.bound.numbers) and self.given in (0, 3):
            return True
        count = 1 if self.given == 1 else 2
        return version.numbers[:count] == self.bound.numbers[:count]

    def caret(self, version: Version) -> bool:
        if version.compare(self.bound) < 0:
            return False
        bound = self.bound.numbers
        count = 1 if bound[0] or self.given == 1 else 2 if bound[1] or self.given == 2 else 3
        return version.numbers[:count] == bound[:count]


_TESTS: dict[str, Callable[[_Constraint, Version], bool]] = {
    "": _Constraint.equal,
    "=": _Constraint.equal,
    "!=": _Constraint.differs,
    ">": _Constraint.greater,
    ">=": lambda one, version: version.compare(one.bound) >= 0,
    "=>": lambda one, version: version.compare(one.bound) >= 0,
    "<": lambda one, version: version.compare(one.bound) < 0,
    "<=": _Constraint.at_most,
    "=<": _Constraint.at_most,
    "~": _Constraint.tilde,
    "~>": _Constraint.tilde,
    "^": _Constraint.caret,
}


def _parse_constraints(text: str) -> list[list[_Constraint]]:
    if len(text) > _LONGEST_CONSTRAINT:
        raise TemplateError("constraint is too long")
    alternatives = _RANGE.sub(r">= \1, <= \2 ", text).split("||")
    if len(alternatives) > _MOST_ALTERNATIVES:
        raise TemplateError("constraint has too many alternatives")
    return [_parse_all_of(part) for part in alternatives]


def _parse_all_of(text: str) -> list[_Constraint]:
    """Constraints separated by blanks or commas."""
    found: list[_Constraint] = []
    pos = 0
    while pos < len(text) or not found:
        match = _CONSTRAINT.match(text, pos)
        if match is None or (found and text[pos - 1] not in ", \t\n\r\f\v"):
            raise TemplateError(f"improper constraint: {text!r}")
        found.append(_constraint(match))
        pos = match.end()
        if text[pos : pos + 1] == "," and pos + 1 < len(text):
            pos += 1
    return found


def _constraint(match: re.Match[str]) -> _Constraint:
    operator, *parts = match.groups()
    written = [part.lstrip(".") if part else "" for part in parts[:3]]
    wildcards = [index for index, part in enumerate(written) if part in ("", "x", "X", "*")]
    given = wildcards[0] if wildcards else 3
    numbers = [*written[:given], "0", "0", "0"][:3]
    tail = f"-{parts[3]}" if parts[3] else ""
    try:
        return _Constraint(operator, parse(".".join(numbers) + tail), given)
    except TemplateError as error:
        raise TemplateError("constraint parser error") from error
