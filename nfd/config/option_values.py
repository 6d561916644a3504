"""Parses text from a flag or a variable by the type of its option, without guessing.

Numbers and booleans follow Go's strconv; lists and maps are split at commas, as NFD's flags are.
"""

from __future__ import annotations

import re
from typing import Any

from nfd.config.options import Kind, Shape

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_INTEGER = re.compile(r"[-+]?(0[xX](_?[0-9a-fA-F])+|0[oO]?(_?[0-7])+|0[bB](_?[01])+|0|[1-9](_?[0-9])*)", re.ASCII)
_NUMBER = re.compile(r"[-+]?(\d+(?:\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def parse_bool(text: str) -> bool:
    """Go's strconv.ParseBool."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{text!r} is not true or false")


def go_integer(text: str) -> int | None:
    """Go's strconv.ParseInt with base 0, of any size: decimal, 0x, 0o, 0b, or octal after a leading zero; `1_000`.

    None for anything else.
    """
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip("+-").replace("_", "")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    return int(digits, 8 if octal else 0) * (-1 if text.startswith("-") else 1)


def parse_integer(text: str) -> int:
    """An integer as Go writes it, of 64 bits. Raises: ValueError."""
    value = go_integer(text)
    if value is None:
        raise ValueError(f"{text!r} is not a whole number")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{text!r} does not fit 64 bits")
    return value


def parse_port(text: str) -> int:
    """A TCP port, 0 included. Raises: ValueError."""
    port = parse_integer(text)
    if not 0 <= port <= 65535:
        raise ValueError(f"{text} is not a port number")
    return port


def parse_number(text: str) -> float:
    """A finite decimal number."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def split_items(text: str, *, exact: bool = False) -> list[str]:
    """Items between commas; trimmed, blank ones dropped, unless `exact` (NFD's string-set flags)."""
    items = text.split(",")
    return items if exact else [item.strip() for item in items if item.strip()]


def parse_text(shape: Shape, text: str, *, exact: bool = False) -> Any:
    """The plain value that YAML would have given for this text; raises ValueError saying what is wrong."""
    match shape.kind:
        case Kind.BOOL:
            return parse_bool(text)
        case Kind.INTEGER:
            return parse_integer(text)
        case Kind.NUMBER:
            return parse_number(text)
        case Kind.LIST if shape.item is not None:
            return [parse_text(shape.item, item) for item in split_items(text, exact=exact)]
        case Kind.MAP if shape.item is not None:
            return {name: parse_text(shape.item, value) for name, value in map(_pair, split_items(text))}
        case Kind.SECTION:
            raise ValueError("takes no value here; use --options with YAML text")
        case _:
            return text


def _pair(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals:
        raise ValueError(f"{item!r} is not NAME=VALUE")
    return name.strip(), value.strip()


def from_environment(shape: Shape, text: str, *, exact: bool = False) -> Any:
    """As `parse_text`. An empty variable is an empty text or list, or false; otherwise None, as if it were unset.

    The same applies where only some texts are legal and the empty text is not.
    """
    if text:
        return parse_text(shape, text, exact=exact)
    if shape.choices and "" not in shape.choices:
        return None
    empty: dict[Kind, Any] = {Kind.TEXT: "", Kind.BOOL: False, Kind.LIST: [], Kind.MAP: {}, Kind.PATTERN: ""}
    return empty.get(shape.kind)
