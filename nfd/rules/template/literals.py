"""Go literals: quoted text, characters and numbers; upstream: Go strconv.Unquote and text/template/parse/node.go."""

from __future__ import annotations

import re

from nfd.config.option_values import go_integer
from nfd.rules.regexp import decode, encode
from nfd.rules.template.nodes import Constant
from nfd.rules.template.values import TemplateError

_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3}))|(\\)", re.DOTALL
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?=[0-9a-fA-F.]*[0-9a-fA-F])[0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+", re.ASCII)
_LOOSE_UNDERSCORE = re.compile(r"(?<![0-9a-fA-FxXoObB])_|_(?![0-9a-fA-F])", re.ASCII)
MAX_DIGITS = 400


def unquote(text: str) -> str:
    """The text of a quoted or raw string token. Raises: TemplateError."""
    if text[0] == "`":
        return text[1:-1].replace("\r", "")
    return _unescape(text[1:-1], '"')


def character(text: str) -> Constant:
    """A character constant, which is a number. Raises: TemplateError."""
    body = text[1:-1]
    match = _ESCAPE.match(body)
    value = _unescape(body, "'")
    raw_byte = match and (match[2] or match[5])
    if not body or (len(value) != 1 and not raw_byte) or (match and match.end() != len(body)):
        raise TemplateError(f"malformed character constant: {text}")
    number = (int(match[2], 16) if match[2] else int(match[5], 8)) if match and raw_byte else ord(value)
    return Constant(number, number, float(number))


def _unescape(body: str, quote: str) -> str:
    def replace(match: re.Match[str]) -> str:
        simple, two, four, eight, octal, broken = match.groups()
        if broken or (simple in ('"', "'") and simple != quote):
            raise TemplateError(f"invalid escape in {body[:100]!r}")
        if simple:
            return _SIMPLE.get(simple, simple)
        code = int(octal, 8) if octal else int(two or four or eight, 16)
        if two or octal:
            if code > 0xFF:
                raise TemplateError(f"invalid escape in {body[:100]!r}")
            return decode(bytes((code,)))
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise TemplateError(f"invalid escape in {body[:100]!r}")
        return chr(code)

    text = _ESCAPE.sub(replace, body)
    return text if text.isascii() else decode(encode(text))


def number(text: str) -> Constant:
    """A number token: integer, fraction or imaginary. Raises: TemplateError."""
    if len(text) > MAX_DIGITS:
        raise TemplateError("number is too long")
    if text.endswith("i"):
        return _imaginary(text)
    whole = integer(text)
    if whole is not None:
        if -(1 << 63) <= whole < 1 << 63:
            return Constant(whole, whole, float(whole))
        if 0 <= whole < 1 << 64 and text[0] not in "+-":
            return Constant(None, None, float(whole), overflows=True)
    fraction = floating(text)
    if fraction is None or not any(char in text for char in ".eEpP"):
        raise TemplateError(f"illegal number syntax: {text!r}")
    return Constant(fraction, int(fraction) if _fits(fraction) else None, fraction)


def _fits(fraction: float) -> bool:
    return -(2.0**63) <= fraction < 2.0**63 and fraction.is_integer()


def _imaginary(text: str) -> Constant:
    split = max(text.rfind("+"), text.rfind("-"))
    real = floating(text[:split]) if split > 0 else 0.0
    imaginary = floating(text[max(split, 0) : -1])
    if real is None or imaginary is None:
        raise TemplateError(f"illegal number syntax: {text!r}")
    value = complex(real, imaginary)
    if imaginary:
        return Constant(value)
    return Constant(value, int(real) if _fits(real) else None, real)


def integer(text: str) -> int | None:
    """Go's ParseInt with base 0, of any size: `010` is 8, `1_000` is 1000. None for anything else."""
    return go_integer(text) if len(text) <= MAX_DIGITS else None


def floating(text: str) -> float | None:
    """Go's ParseFloat; None for anything that it refuses, too large numbers included."""
    if len(text) > MAX_DIGITS or _LOOSE_UNDERSCORE.search(text):
        return None
    text = text.replace("_", "")
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            return None
    if text.lstrip("+-").lower() in ("inf", "infinity", "nan") and len(text) - len(text.lstrip("+-")) < 2:
        return float(text)
    if not _FLOAT.fullmatch(text):
        return None
    value = float(text)
    return None if value in (float("inf"), float("-inf")) else value
