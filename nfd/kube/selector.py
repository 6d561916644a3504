"""Label selectors as text, checked before an API server sees them.

Kubernetes documentation, "Labels and Selectors".
"""

from __future__ import annotations

import re

from nfd import names

_COMMA = re.compile(r",(?![^(]*\))")
"""Between two requirements, not inside a list of values."""
_EXISTS = re.compile(r"!?\s*(\S+)")
_EQUALS = re.compile(r"([^\s!=]+)\s*(?:==?|!=)\s*(\S*)")
_COMPARES = re.compile(r"([^\s!=<>]+)\s*[<>]\s*[0-9]+", re.ASCII)
_FORMS = "KEY, !KEY, KEY=VALUE, KEY!=VALUE, KEY in (VALUE,…), KEY notin (VALUE,…), KEY>NUMBER, KEY<NUMBER"
_AMONG = re.compile(r"(\S+)\s+(?:in|notin)\s*\(([^()]*)\)")


def parse_selector(text: str) -> str:
    """The selector, trimmed; "" selects everything. Raises: ValueError saying which requirement is wrong."""
    if text.strip():
        for part in _COMMA.split(text):
            _check(part.strip())
    return text.strip()


def _check(requirement: str) -> None:
    if found := _AMONG.fullmatch(requirement):
        values = [one.strip() for one in found[2].split(",")]
    elif found := _EQUALS.fullmatch(requirement):
        values = [found[2]]
    elif found := _COMPARES.fullmatch(requirement) or _EXISTS.fullmatch(requirement):
        values = []
    else:
        raise ValueError(f"{requirement[:80]!r} is not one of {_FORMS}")
    problem = names.key_problem(found[1]) or next(filter(None, map(names.value_problem, values)), None)
    if problem:
        raise ValueError(f"{requirement[:80]!r}: {problem}")
