"""Texts and numbers as Go's strconv writes them."""

from __future__ import annotations

import math
from decimal import Decimal

from nfd.rules.regexp import decode, encode

_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\"}
SHORTEST = -1


def quote(text: str, mark: str = '"', *, ascii_only: bool = False) -> str:
    """A Go string or character literal."""
    body = "".join(_quoted(char, mark, ascii_only) for char in decode(encode(text)))
    return f"{mark}{body}{mark}"


def _quoted(char: str, mark: str, ascii_only: bool) -> str:
    code = ord(char)
    if char == mark:
        return f"\\{char}"
    if char in _ESCAPES:
        return _ESCAPES[char]
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if char.isprintable() and (code < 0x80 or not ascii_only):
        return char
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def can_backquote(text: str) -> bool:
    """Whether a raw literal can hold the text."""
    return not any(char == "`" or (char < " " and char != "\t") or char in "\x7f\ufeff" for char in text)


def format_float(value: float, verb: str, precision: int = SHORTEST) -> str:
    """A fraction without its plus sign; the shortest `g` turns to `e` from a million on."""
    if math.isinf(value) or math.isnan(value):
        return {True: "+Inf", False: "-Inf"}[value > 0] if math.isinf(value) else "NaN"
    if verb in "xX":
        text = _hexadecimal(value, precision)
        return text.upper() if verb == "X" else text
    if verb == "b":
        return _binary(value)
    if precision != SHORTEST:
        return f"{value:.{precision}{verb}}"
    if verb in "eE":
        return _exponent(*_digits(value), verb)
    sign, digits, point = _digits(value)
    if verb in "gG" and not -4 <= point - 1 < 6:
        return _exponent(sign, digits, point, "e" if verb == "g" else "E")
    return sign + _plain(digits, point)


def with_point(text: str, precision: int, verb: str) -> str:
    """An unsigned fraction as `#` wants it: with a point, for `g` and `x` with all the digits asked for, or six."""
    marks = "pP" if verb in "xX" else "eE"
    split = next((place for place, char in enumerate(text) if char in marks), len(text))
    head, tail = text[:split], text[split:]
    wanted = (6 if precision == SHORTEST else precision) if verb in "gGx" else 0
    wanted -= len(head.replace(".", "").lstrip("0"))
    if "." not in head:
        wanted -= head == "0"
        head += "."
    return head + "0" * wanted + tail


def _digits(value: float) -> tuple[str, str, int]:
    """Sign, shortest digits without trailing zeros, and where the point is among them."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)
    stripped = text.rstrip("0") or "0"
    return "-" if sign else "", stripped, point if value else 1


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    if point >= len(digits):
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"


def _exponent(sign: str, digits: str, point: int, verb: str) -> str:
    exponent = point - 1
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{sign}{mantissa}{verb}{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _hexadecimal(value: float, precision: int) -> str:
    if not value:
        return f"{'-' if math.copysign(1, value) < 0 else ''}0x0{'.' + '0' * precision if precision > 0 else ''}p+00"
    mantissa, exponent = math.frexp(abs(value))
    bits, exponent = int(mantissa * (1 << 53)), exponent - 1
    if 0 <= precision < 13:
        shift = 52 - 4 * precision
        bits, half = bits >> shift, bits & ((1 << shift) - 1)
        bits += half > (1 << (shift - 1)) or (half == 1 << (shift - 1) and bits & 1)
        bits <<= shift
        if bits >> 53:
            bits, exponent = bits >> 1, exponent + 1
    digits = f"{bits & ((1 << 52) - 1):013x}"
    digits = digits.rstrip("0") if precision < 0 else digits[:precision].ljust(precision, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}0x1{'.' + digits if digits else ''}p{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _binary(value: float) -> str:
    exponent = max(math.frexp(value)[1] - 53, -1074) if value else -1074
    mantissa = int(math.ldexp(abs(value), -exponent))
    return f"{'-' if math.copysign(1, value) < 0 else ''}{mantissa}p{exponent:+d}"
