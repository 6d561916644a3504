"""One value printed by one verb; upstream: Go fmt/print.go and fmt/format.go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nfd.rules.regexp import encode
from nfd.rules.template.budget import Budget
from nfd.rules.template.quoting import SHORTEST, can_backquote, format_float, quote, with_point
from nfd.rules.template.values import (
    ANY,
    MAX_NESTING,
    GoList,
    GoMap,
    GoObject,
    Named,
    TemplateError,
    Uint8,
    Uint64,
    type_name,
)


@dataclass(slots=True)
class Spec:
    """What stands between `%` and the verb; `#` before `v` is `go_syntax` instead."""

    plus: bool = False
    minus: bool = False
    sharp: bool = False
    space: bool = False
    zero: bool = False
    width: int | None = None
    precision: int | None = None
    go_syntax: bool = False

    def pad(self, text: str, *, zeros: bool = True) -> str:
        """Fill up to the width, counted in letters; without `zeros` with blanks alone."""
        if self.width is None or len(text) >= self.width:
            return text
        if self.minus:
            return text.ljust(self.width)
        return text.rjust(self.width, "0" if self.zero and zeros else " ")


PLAIN = Spec()


def show(value: Any, verb: str, spec: Spec, budget: Budget, depth: int = 0, *, plainly: bool = False) -> str:
    """A value as `verb` prints it; a verb that does not fit prints as a mistake and does not fail.

    `plainly` is without the value's own text, as inside such a mistake.
    """
    budget.spend()
    if depth > MAX_NESTING:
        raise TemplateError("value is nested too deeply")
    if value is None:
        return _nil(verb, spec, depth)
    if not plainly and verb == "w" and isinstance(value, GoMap | GoList):
        return _bad(value, verb, spec, budget)
    if not plainly and verb in "vsxXq":
        value = _own_text(value)
    if isinstance(value, GoMap | GoList):
        return _collection(value, verb, spec, budget, depth, plainly)
    if isinstance(value, str) and (verb in "xXq" or spec.go_syntax):
        budget.spend(len(value) >> 2)  # a letter at a time
    text = _scalar(value, verb, spec)
    return _bad(value, verb, spec, budget) if text is None else budget.check(text)


def _nil(verb: str, spec: Spec, depth: int) -> str:
    if depth:
        return f"{ANY}(nil)" if spec.go_syntax else "<nil>"
    return spec.pad("<nil>") if verb == "v" else f"%!{verb}(<nil>)"


def _own_text(value: Any) -> Any:
    """The text that a value has a method for, else the value."""
    if isinstance(value, GoObject) and "String" in value.methods:
        return value.methods["String"](value)
    return value.label if isinstance(value, Named) else value


def _scalar(value: Any, verb: str, spec: Spec) -> str | None:
    """A single value, or None if the verb does not fit it."""
    if isinstance(value, bool):
        return spec.pad("true" if value else "false") if verb in "tv" else None
    if isinstance(value, int):
        return _integer(value, verb, spec)
    if isinstance(value, float):
        return _float(value, verb, spec)
    if isinstance(value, complex):
        return _complex(value, verb, spec)
    if isinstance(value, str):
        return _string(value, verb, spec)
    return spec.pad(f"{{{type_name(value)}}}") if verb == "v" else None


def _bad(value: Any, verb: str, spec: Spec, budget: Budget) -> str:
    return f"%!{verb}({type_name(value)}={show(value, 'v', spec, budget, plainly=True)})"


def _collection(value: GoMap | GoList, verb: str, spec: Spec, budget: Budget, depth: int, plainly: bool) -> str:
    def inner(one: Any) -> str:
        return show(one, verb, spec, budget, depth + 1, plainly=plainly)

    if isinstance(value, GoMap):
        parts = [f"{inner(key)}:{inner(value[key])}" for key in sorted(value)]
    else:
        parts = [inner(one) for one in value]
    budget.reserve(sum(map(len, parts)))
    if spec.go_syntax:
        return f"{type_name(value)}(nil)" if value.is_nil else f"{type_name(value)}{{{', '.join(parts)}}}"
    return f"map[{' '.join(parts)}]" if isinstance(value, GoMap) else f"[{' '.join(parts)}]"


def _string(value: str, verb: str, spec: Spec) -> str | None:
    if verb == "s" or (verb == "v" and not spec.go_syntax):
        return spec.pad(cut(value, spec))
    if verb in "qv":
        text = cut(value, spec)
        if spec.sharp and can_backquote(text):
            return spec.pad(f"`{text}`")
        return spec.pad(quote(text, ascii_only=spec.plus))
    if verb in "xX":
        return spec.pad(_hex(encode(value), verb, spec))
    return None


def cut(value: str, spec: Spec) -> str:
    """A text as long as the precision allows."""
    return value if spec.precision is None else value[: spec.precision]


def _hex(data: bytes, verb: str, spec: Spec) -> str:
    data = data if spec.precision is None else data[: spec.precision]
    prefix = f"0{verb}" if spec.sharp and data else ""
    parts = [f"{byte:02{verb}}" for byte in data]
    if spec.space:
        return " ".join(prefix + part for part in parts)
    return prefix + "".join(parts)


def _integer(value: int, verb: str, spec: Spec) -> str | None:
    if verb == "v" and spec.go_syntax and isinstance(value, Uint64 | Uint8):
        return _number(value, "x", replace(spec, sharp=True))
    if verb in "dv":
        return _number(value, "d", spec)
    if verb in "boOxX":
        return _number(value, verb, spec)
    if verb in "cqU":
        return _rune(value, verb, spec)
    return None


def _number(value: int, verb: str, spec: Spec) -> str:
    digits = format(abs(value), {"O": "o"}.get(verb, verb))
    sign = "-" if value < 0 else "+" if spec.plus else " " if spec.space else ""
    if spec.precision is not None:
        if not spec.precision and not value:
            return " " * (spec.width or 0)
        digits = digits.rjust(spec.precision, "0")
    elif spec.zero and not spec.minus and spec.width is not None:
        digits = digits.rjust(spec.width - len(sign), "0")
    if spec.sharp:
        octal = "" if digits[0] == "0" else "0"
        digits = {"b": "0b", "x": "0x", "X": "0X", "o": octal, "O": octal}.get(verb, "") + digits
    if verb == "O":
        digits = f"0o{digits}"
    return spec.pad(sign + digits, zeros=False)


def _rune(value: int, verb: str, spec: Spec) -> str:
    legal = 0 <= value <= 0x10FFFF and not 0xD800 <= value <= 0xDFFF
    char = chr(value) if legal else "\ufffd"
    if verb == "c":
        return spec.pad(char)
    if verb == "q":
        return spec.pad(quote(char, "'", ascii_only=spec.plus))
    text = f"U+{value % (1 << 64):0{max(spec.precision or 0, 4)}X}"
    return spec.pad(f"{text} '{char}'" if spec.sharp and legal and char.isprintable() else text, zeros=False)


def _float(value: float, verb: str, spec: Spec) -> str | None:
    if verb not in "vbgGxXeEfF":
        return None
    precision = spec.precision
    if precision is None:
        precision = 6 if verb in "eEfF" else SHORTEST
    plain = {"v": "g", "F": "f"}.get(verb, verb)
    text = format_float(value, plain, precision)
    body = text.lstrip("+-")
    finite = body not in ("Inf", "NaN")
    sign = "-" if text[0] == "-" else "+" if spec.plus else " " if spec.space else "+" if body == "Inf" else ""
    if spec.sharp and finite and plain != "b":
        body = with_point(body, precision, plain)
    width = spec.width or 0
    if spec.zero and finite and not spec.minus:
        body = body.rjust(width - len(sign), "0")
    return spec.pad(sign + body, zeros=False)


def _complex(value: complex, verb: str, spec: Spec) -> str | None:
    real = _float(value.real, verb, spec)
    imaginary = _float(value.imag, verb, replace(spec, plus=True))
    return None if real is None else f"({real}{imaginary}i)"
