"""Go's text/template with Sprig's functions, as far as rule authors have them.

`lexer` → `parser` → `nodes` → `interpreter`; `function_calls` says how functions are declared, `functions/` holds them.
PyPI's gotpl was tried: its maps and lists have no element types (a missing attribute prints `<no value>`, dictionary
functions take matched elements), and its budget does not bound the size of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from nfd.rules.regexp import encode
from nfd.rules.template.function_calls import Clock
from nfd.rules.template.lexer import tokenize
from nfd.rules.template.nodes import Body
from nfd.rules.template.values import TemplateError, wrap_data
from nfd.rules.time_limit import FREE, Meter

MAX_TEXT = 65_536
"""Bytes that the text of a template may have."""

Data = dict[str, dict[str, list[Mapping[str, str]]]]
"""Matched elements: domain → feature → elements."""

__all__ = ["Clock", "Data", "Parsed", "Template", "TemplateError", "parse_template"]


class Template:
    """A template; it is parsed when it is first run, since a rule that never holds may hold a broken one.

    The language is loaded with the first of them: most workers have none.
    """

    __slots__ = ("_mistake", "_parsed", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._parsed: Parsed | None = None
        self._mistake: str | None = None

    def _parse(self) -> Parsed:
        if self._parsed is None and self._mistake is None:
            try:
                self._parsed = parse_template(self.text)
            except TemplateError as error:
                self._mistake = str(error)
        if self._parsed is None:
            raise TemplateError(self._mistake or "")
        return self._parsed

    def mistakes(self) -> list[str]:
        """What fails whenever it is reached, though the text can be parsed. Raises: TemplateError if it cannot."""
        from nfd.rules.template.before_running import calling_mistakes

        return list(calling_mistakes(self._parse().bodies))

    def features_read(self) -> list[str]:
        """The features that it reads itself, as `domain.feature`. Raises: TemplateError."""
        from nfd.rules.template.before_running import features_read

        return list(dict.fromkeys(features_read(self._parse().bodies[""])))

    def wants_time(self) -> str | None:
        """The function by which it asks for the present moment, if it may. Raises: TemplateError."""
        return self._parse().wants_time

    def render(self, data: Data, *, clock: Clock | None = None, meter: Meter = FREE) -> str:
        """Run it on matched elements. Raises: TemplateError."""
        bodies = self._parse().bodies
        from nfd.rules.template.functions import FUNCTIONS
        from nfd.rules.template.interpreter import execute

        return execute(bodies, FUNCTIONS, wrap_data(data), clock, meter)


class Parsed(NamedTuple):
    """The bodies by name, and the function by which they may ask for the time."""

    bodies: Mapping[str, Body]
    wants_time: str | None


@lru_cache(maxsize=8)
def parse_template(text: str) -> Parsed:
    """Parse a template; whoever checks a rule and whoever runs it get the same. Raises: TemplateError."""
    from nfd.rules.template.functions import FUNCTIONS
    from nfd.rules.template.parser import parse

    if len(encode(text)) > MAX_TEXT:
        raise TemplateError(f"has more than {MAX_TEXT} bytes")
    tokens = tokenize(text)
    words = (token.text for token in tokens if token.kind == "identifier")
    return Parsed(parse(tokens, FUNCTIONS), next((name for name in words if name in ("now", "ago")), None))
