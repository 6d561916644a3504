"""Go values in Python: what template functions take, give and print.

bool, int (Go's `int`), float, str and None stand for themselves. Text is Go's byte string: a byte that is no UTF-8 is
a lone surrogate (PEP 383), so `trunc 1 "é"` and joining the halves again both work. Types that Python lacks are here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from nfd.message_text import visible
from nfd.rules.regexp import decode, encode

ANY = "interface {}"
MAX_NESTING = 100
"""How deep values may be nested where a function walks through them."""


class TemplateError(Exception):
    """A template that does not parse, fails, or takes too long; its text is one line, whatever it quotes."""

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


class GoInt(int):
    """An integer of another type than `int`."""

    type_name: ClassVar[str] = "int64"


class Int64(GoInt):
    """Go's int64, what arithmetic functions give."""


class Uint64(GoInt):
    """Go's uint64, the parts of a version."""

    type_name = "uint64"


class Uint8(GoInt):
    """One byte of a text."""

    type_name = "uint8"


class Named(GoInt):
    """A number that prints as a name: a month, a day of the week."""

    names: ClassVar[Sequence[str]] = ()
    first: ClassVar[int] = 0

    @property
    def label(self) -> str:
        return self.names[self - self.first]


class GoList(list[Any]):
    """A slice: a list that knows its element type, and whether it is nil."""

    __slots__ = ("elem", "is_nil")

    def __init__(self, items: Iterable[Any] = (), elem: str = ANY, *, is_nil: bool = False) -> None:
        super().__init__(items)
        self.elem = elem
        self.is_nil = is_nil


class GoMap(dict[str, Any]):
    """A map with text keys that knows its element type, and the name of its own type if that has one."""

    __slots__ = ("elem", "is_nil", "named")

    def __init__(
        self, items: Mapping[str, Any] | None = None, elem: str = ANY, *, is_nil: bool = False, named: str = ""
    ) -> None:
        super().__init__(items or {})
        self.elem = elem
        self.is_nil = is_nil
        self.named = named


class GoObject:
    """A value with methods, such as a version or a moment; `methods` maps the Go names to callables."""

    type_name: ClassVar[str] = "object"
    kind: ClassVar[str] = "struct"
    methods: ClassVar[Mapping[str, Callable[..., Any]]] = {}

    def json_text(self) -> str:
        """The text that stands for it in JSON. Raises: ValueError if there is none."""
        if "String" not in self.methods:
            raise ValueError(f"no JSON form of a {self.type_name}")
        return str(self.methods["String"](self))


ELEMENT, FEATURES, DOMAINS = (
    f"nodefeaturerule.{name}" for name in ("MatchedElement", "domainMatchedFeatures", "matchedFeatures")
)
_NAMED = {ELEMENT: "string", FEATURES: f"[]{ELEMENT}", DOMAINS: FEATURES}
"""Upstream's names for the types of matched elements, which templates can print, and what these maps hold."""


def wrap_data(data: Mapping[str, Mapping[str, list[Mapping[str, str]]]]) -> GoMap:
    """Matched elements as the template sees them: domain → feature → list of text maps; no elements are no list."""
    domains = {domain: _named(FEATURES, _lists(features)) for domain, features in data.items()}
    return _named(DOMAINS, domains)


def _lists(features: Mapping[str, list[Mapping[str, str]]]) -> dict[str, GoList]:
    return {
        name: GoList((_named(ELEMENT, one) for one in found), ELEMENT, is_nil=not found)
        for name, found in features.items()
    }


def _named(name: str, items: Mapping[str, Any], *, is_nil: bool = False) -> GoMap:
    return GoMap(items, _NAMED[name], is_nil=is_nil, named=name)


def zero_of(elem: str) -> Any:
    """The zero value of a type."""
    if elem.startswith("[]"):
        return GoList((), elem[2:], is_nil=True)
    if elem.startswith("map[string]"):
        return GoMap({}, elem[len("map[string]") :], is_nil=True)
    if elem in _NAMED:
        return _named(elem, {}, is_nil=True)
    return {"string": "", "int": 0, "bool": False, "float64": 0.0}.get(elem)


def type_name(value: Any) -> str:
    """Go's name of a value's type, as `%T` prints it."""
    if value is None:
        return "<nil>"
    if isinstance(value, GoList):
        return f"[]{value.elem}"
    if isinstance(value, GoMap):
        return value.named or f"map[string]{value.elem}"
    if isinstance(value, GoInt | GoObject):
        return value.type_name
    return _NAMES.get(type(value), type(value).__name__)


_NAMES = {bool: "bool", int: "int", float: "float64", complex: "complex128", str: "string"}


def kind_of(value: Any) -> str:
    """Go's name of a value's kind."""
    if value is None:
        return "invalid"
    if isinstance(value, GoList):
        return "slice"
    if isinstance(value, GoMap):
        return "map"
    return value.kind if isinstance(value, GoObject) else type_name(value)


def is_integer(value: Any) -> bool:
    """Whether a value is of any integer type."""
    return isinstance(value, int) and not isinstance(value, bool)


def truth(value: Any) -> bool:
    """What `if` makes of a value: false is nothing, zero and whatever is empty."""
    return True if isinstance(value, GoObject) else bool(value)


def wrap64(number: int) -> int:
    """A whole number reduced to 64 signed bits, as machine arithmetic does."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def byte_length(text: str) -> int:
    """Length in bytes."""
    return len(text) if text.isascii() else len(encode(text))


def cut(text: str, start: int | None, end: int | None) -> str:
    """A part of a text, by bytes; the caller has checked the bounds."""
    return text[start:end] if text.isascii() else decode(encode(text)[start:end])


def legible(text: str) -> str:
    """Text for the outside: halves of letters joined again, each broken byte replaced."""
    return text if text.isascii() else _BROKEN.sub("\ufffd", decode(encode(text)))


_BROKEN = re.compile("[\udc80-\udcff]")
