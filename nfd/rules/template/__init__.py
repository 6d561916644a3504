"""Go's text/template with Sprig's functions, as far as rule authors have them.

`lexer` → `parser` → `nodes` → `interpreter`; `calls` tells how functions are declared, `functions/` holds them. PyPI's
gotpl was tried: its maps and lists have no element types (a missing attribute prints `<no value>`, dictionary functions
take matched elements), and its budget does not bound the size of values.
"""

from __future__ import annotations

from collections.abc import Mapping

from nfd.rules.regexp import encode
from nfd.rules.template.calls import Clock
from nfd.rules.template.lexer import tokenize
from nfd.rules.template.nodes import Body
from nfd.rules.template.values import TemplateError, wrap_data

MAX_TEXT = 65_536
"""Bytes that the text of a template may have."""

Data = dict[str, dict[str, list[Mapping[str, str]]]]
"""Matched elements: domain → feature → elements."""

__all__ = ["Clock", "Data", "Template", "TemplateError"]


class Template:
    """A template; it is parsed when it is first run, since a rule that never holds may hold a broken one.

    The language is loaded with the first of them: most workers have none.
    """

    __slots__ = ("_bodies", "_mistake", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._bodies: dict[str, Body] | None = None
        self._mistake: str | None = None

    def check(self) -> None:
        """Parse it. Raises: TemplateError."""
        if self._bodies is None and self._mistake is None:
            from nfd.rules.template.functions import FUNCTIONS
            from nfd.rules.template.parser import parse

            try:
                if len(encode(self.text)) > MAX_TEXT:
                    raise TemplateError(f"has more than {MAX_TEXT} bytes")
                self._bodies = parse(self.text, FUNCTIONS)
            except TemplateError as error:
                self._mistake = str(error)
        if self._mistake is not None:
            raise TemplateError(self._mistake)

    def mistakes(self) -> list[str]:
        """What fails whenever it is reached, though the text can be parsed. Raises: TemplateError if it cannot."""
        self.check()
        from nfd.rules.template.calling import calling_mistakes

        return list(calling_mistakes(self._bodies or {}))

    def wants_time(self) -> str | None:
        """The function by which it asks for the present moment, if it does whatever it is run on."""
        found = (token.text for token in tokenize(self.text) if token.kind == "identifier")
        return next((name for name in found if name in ("now", "ago")), None)

    def render(self, data: Data, *, clock: Clock | None = None) -> str:
        """Run it on matched elements. Raises: TemplateError."""
        self.check()
        from nfd.rules.template.functions import FUNCTIONS
        from nfd.rules.template.interpreter import execute

        return execute(self._bodies or {}, FUNCTIONS, wrap_data(data), clock)
