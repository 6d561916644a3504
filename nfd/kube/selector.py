"""Label selectors as text, checked before an API server sees them.

Kubernetes documentation, "Labels and Selectors".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nfd import names

_COMMA = re.compile(r",(?![^(]*\))")
"""Between two requirements, not inside a list of values."""
_EXISTS = re.compile(r"!?\s*(\S+)")
_EQUALS = re.compile(r"([^\s!=]+)\s*(==?|!=)\s*(\S*)")
_COMPARES = re.compile(r"([^\s!=<>]+)\s*([<>])\s*([0-9]{1,20})", re.ASCII)
_INTEGER = re.compile(r"[-+]?[0-9]{1,20}", re.ASCII)
_FORMS = "KEY, !KEY, KEY=VALUE, KEY!=VALUE, KEY in (VALUE,…), KEY notin (VALUE,…), KEY>NUMBER, KEY<NUMBER"
_AMONG = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")


def parse_selector(text: str) -> str:
    """The selector, trimmed; "" selects everything. Raises: ValueError saying which requirement is wrong."""
    for part in _parts(text):
        _parse(part)
    return text.strip()


def selects(text: str, labels: Mapping[str, str]) -> bool:
    """Whether a selector selects an object with these labels. Raises: ValueError as `parse_selector`."""
    return all(_holds(*_parse(part), labels) for part in _parts(text))


def _parts(text: str) -> Iterator[str]:
    if text.strip():
        yield from (part.strip() for part in _COMMA.split(text))


def _parse(requirement: str) -> tuple[str, str, list[str]]:
    """Key, operator (`=`, `!=`, `<`, `>`, `in`, `notin`, `exists` or `!`) and values."""
    values: list[str] = []
    if found := _AMONG.fullmatch(requirement):
        operator, values = found[2], [one.strip() for one in found[3].split(",")]
    elif found := _EQUALS.fullmatch(requirement):
        operator, values = "!=" if found[2] == "!=" else "=", [found[3]]
    elif found := _COMPARES.fullmatch(requirement):
        operator, values = found[2], [found[3]]
    elif found := _EXISTS.fullmatch(requirement):
        operator = "!" if requirement.startswith("!") else "exists"
    else:
        raise ValueError(f"{requirement[:80]!r} is not one of {_FORMS}")
    problem = names.key_problem(found[1]) or next(filter(None, map(names.value_problem, values)), None)
    if problem:
        raise ValueError(f"{requirement[:80]!r}: {problem}")
    return found[1], operator, values


def _holds(key: str, operator: str, values: list[str], labels: Mapping[str, str]) -> bool:
    value = labels.get(key)
    if operator in ("exists", "!"):
        return (value is not None) == (operator == "exists")
    if operator in ("<", ">"):
        return value is not None and _INTEGER.fullmatch(value) is not None and _compare(operator, value, values[0])
    return (value in values) == (operator in ("=", "in"))


def _compare(operator: str, value: str, limit: str) -> bool:
    return int(value) < int(limit) if operator == "<" else int(value) > int(limit)
