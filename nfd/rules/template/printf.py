"""print, println and printf as Go has them; upstream: Go package fmt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nfd.rules.template.budget import MAX_SIZE, Budget
from nfd.rules.template.printf_verbs import PLAIN, Spec, cut, show
from nfd.rules.template.values import TemplateError, is_integer, type_name

_FLAGS = {"+": "plus", "-": "minus", "#": "sharp", " ": "space", "0": "zero"}
_DIGITS = re.compile("[0-9]+")
_MAX_NUMBER = 1_000_000
_LONGEST = 300


def sprint(values: Sequence[Any], budget: Budget) -> str:
    """All values, with a blank between two that are both no text."""
    parts: list[str] = []
    before_text = True
    for value in values:
        is_text = isinstance(value, str)
        if not is_text and not before_text:
            parts.append(" ")
        parts.append(value if is_text else show(value, "v", PLAIN, budget))
        before_text = is_text
    return join(parts, budget)


def sprintln(values: Sequence[Any], budget: Budget) -> str:
    """All values with a blank between any two, and a line feed."""
    return join([" ".join(show(value, "v", PLAIN, budget) for value in values), "\n"], budget)


def join(parts: Sequence[str], budget: Budget, separator: str = "") -> str:
    """Join texts within the budget."""
    budget.reserve(sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0))
    return separator.join(parts)


def sprintf(pattern: str, values: Sequence[Any], budget: Budget) -> str:
    """Fill a pattern; mistakes show in the result and do not fail."""
    printer = _Printer(pattern, values, budget)
    return join(printer.run(), budget)


class _Printer:
    """One pass over a pattern."""

    def __init__(self, pattern: str, values: Sequence[Any], budget: Budget) -> None:
        self._pattern = pattern
        self._values = values
        self._budget = budget
        self._pos = 0
        self._argument = 0
        self._reordered = False
        self._good_index = True
        self._after_index = False
        self._out: list[str] = []

    def run(self) -> list[str]:
        while self._pos < len(self._pattern):
            percent = self._pattern.find("%", self._pos)
            end = len(self._pattern) if percent < 0 else percent
            self._out.append(self._pattern[self._pos : end])
            self._pos = end + 1
            if percent >= 0:
                self._directive()
        if not self._reordered and self._argument < len(self._values):
            self._extra()
        return self._out

    def _peek(self) -> str:
        return self._pattern[self._pos : self._pos + 1]

    def _directive(self) -> None:
        self._budget.spend()
        self._good_index, self._after_index = True, False
        spec = Spec()
        while (flag := self._peek()) and flag in _FLAGS:
            setattr(spec, _FLAGS[flag], True)
            self._pos += 1
        self._index()
        self._width(spec)
        self._precision(spec)
        if not self._after_index:
            self._index()
        verb = self._peek()
        if not verb:
            self._out.append("%!(NOVERB)")
            return
        self._pos += 1
        self._out.append(self._print(verb, spec))

    def _print(self, verb: str, spec: Spec) -> str:
        if verb == "%":
            return "%"
        if not self._good_index:
            return f"%!{verb}(BADINDEX)"
        if self._argument >= len(self._values):
            return f"%!{verb}(MISSING)"
        value = self._values[self._argument]
        self._argument += 1
        if max(spec.width or 0, spec.precision or 0) > MAX_SIZE >> 4:
            raise TemplateError("printf: width is too large")
        if verb == "T":
            return spec.pad(cut("<nil>" if value is None else type_name(value), spec))
        if verb in "vw":
            spec.go_syntax, spec.sharp, spec.plus = spec.sharp, False, False
        return show(value, verb, spec, self._budget)

    def _width(self, spec: Spec) -> None:
        if self._peek() == "*":
            self._pos += 1
            spec.width = self._from_argument()
            if spec.width is None:
                self._out.append("%!(BADWIDTH)")
            elif spec.width < 0:
                spec.width, spec.minus, spec.zero = -spec.width, True, False
            self._after_index = False
        else:
            spec.width = self._number()
            if self._after_index and spec.width is not None:
                self._good_index = False

    def _precision(self, spec: Spec) -> None:
        if self._peek() != "." or self._pos + 1 == len(self._pattern):
            return
        self._pos += 1
        if self._after_index:
            self._good_index = False
        self._index()
        if self._peek() == "*":
            self._pos += 1
            spec.precision = self._from_argument()
            if spec.precision is None or spec.precision < 0:
                self._out.append("%!(BADPREC)")
                spec.precision = None
            self._after_index = False
        else:
            spec.precision = self._number() or 0

    def _number(self) -> int | None:
        match = _DIGITS.match(self._pattern, self._pos)
        if match is None:
            return None
        self._pos, digits = match.end(), match[0]
        if len(digits) <= _LONGEST and int(digits[:-1] or 0) <= _MAX_NUMBER:
            return int(digits)
        self._pos = len(self._pattern)  # as upstream: a number out of all reason takes the rest with it
        return None

    def _from_argument(self) -> int | None:
        if self._argument >= len(self._values):
            return None
        value = self._values[self._argument]
        self._argument += 1
        return int(value) if is_integer(value) and abs(value) <= _MAX_NUMBER else None

    def _index(self) -> None:
        """`[2]`: the next argument is the second."""
        if self._peek() != "[":
            return
        self._reordered = True
        close = self._pattern.find("]", self._pos)
        if close < 0 or len(self._pattern) - self._pos < 3:
            self._good_index = False
            self._pos += 1
            return
        digits = self._pattern[self._pos + 1 : close]
        self._pos = close + 1
        is_number = digits.isascii() and digits.isdigit() and len(digits) < 8
        self._after_index = is_number
        if is_number and 0 < int(digits) <= len(self._values):
            self._argument = int(digits) - 1
        else:
            self._good_index = False

    def _extra(self) -> None:
        shown = [
            "<nil>" if value is None else f"{type_name(value)}={show(value, 'v', PLAIN, self._budget)}"
            for value in self._values[self._argument :]
        ]
        self._out.append(f"%!(EXTRA {', '.join(shown)})")
