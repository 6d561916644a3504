"""Functions of text/template itself; upstream: Go text/template/funcs.go."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_plus

from nfd.rules.regexp import encode
from nfd.rules.template.function_calls import Runtime, function
from nfd.rules.template.printf import sprint, sprintf, sprintln
from nfd.rules.template.values import (
    GoList,
    GoMap,
    TemplateError,
    Uint8,
    byte_length,
    is_integer,
    kind_of,
    truth,
    type_name,
    zero_of,
)


@function("and or", "any", "*any", peeks=True)
def short_circuit(*_values: Any) -> Any:
    """The interpreter does these itself: what follows the deciding argument is not evaluated."""
    raise AssertionError


@function("not", "any", peeks=True)
def not_(value: Any) -> bool:
    return not truth(value)


@function("len", "any", peeks=True)
def length(value: Any) -> int:
    """Entries, or bytes of a text."""
    if isinstance(value, str):
        return byte_length(value)
    if isinstance(value, GoList | GoMap):
        return len(value)
    raise TemplateError(f"len of type {type_name(value)}")


@function("index", "any", "*any", peeks=True)
def index(item: Any, *indexes: Any) -> Any:
    """An entry, or an entry of an entry; a key that is missing gives the zero value."""
    if item is None:
        raise TemplateError("index of untyped nil")
    for position in indexes:
        if isinstance(item, GoMap):
            if not isinstance(position, str):
                raise TemplateError(f"value has type {type_name(position)}; should be string")
            item = item[position] if position in item else zero_of(item.elem)
        elif isinstance(item, GoList | str):
            item = _at(item, position)
        else:
            raise TemplateError(f"can't index item of type {type_name(item)}")
    return item


def _at(item: GoList | str, position: Any) -> Any:
    if not is_integer(position):
        raise TemplateError(f"cannot index slice/array with type {type_name(position)}")
    data = encode(item) if isinstance(item, str) else item
    if not 0 <= position < len(data):
        raise TemplateError(f"index out of range: {position}")
    return Uint8(data[position]) if isinstance(data, bytes) else data[position]


@function("call", "any", "*any", peeks=True)
def call(function_value: Any, *_arguments: Any) -> Any:
    """No value in a rule's data is a function."""
    raise TemplateError(f"non-function of type {type_name(function_value)}")


@function("print", "*any", runtime=True)
def print_(runtime: Runtime, *values: Any) -> str:
    return sprint(values, runtime.budget)


@function("println", "*any", runtime=True)
def println(runtime: Runtime, *values: Any) -> str:
    return sprintln(values, runtime.budget)


@function("printf", "string", "*any", runtime=True)
def printf(runtime: Runtime, pattern: str, *values: Any) -> str:
    return sprintf(pattern, values, runtime.budget)


_HTML = str.maketrans({"\0": "\ufffd", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;"})
_JS = {"\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026", "=": "\\u003D"}


def _text(runtime: Runtime, values: tuple[Any, ...]) -> str:
    return sprint(["<no value>" if value is None else value for value in values], runtime.budget)


@function("html", "*any", runtime=True, letters=64)
def html(runtime: Runtime, *values: Any) -> str:
    return _text(runtime, values).translate(_HTML)


@function("js", "*any", runtime=True, letters=16)
def js(runtime: Runtime, *values: Any) -> str:
    return "".join(_js(char) for char in _text(runtime, values))


def _js(char: str) -> str:
    if char in _JS:
        return _JS[char]
    return char if char.isprintable() or char == "\x7f" or "\udc80" <= char <= "\udcff" else f"\\u{ord(char):04X}"


@function("urlquery", "*any", runtime=True, letters=8)
def urlquery(runtime: Runtime, *values: Any) -> str:
    return quote_plus(encode(_text(runtime, values)))


_KINDS = {"bool": "bool", "string": "string", "float64": "float", "complex128": "complex"}


def _kind(value: Any) -> str | None:
    return "int" if is_integer(value) else _KINDS.get(kind_of(value))


@function("eq", "any", "*any", peeks=True)
def eq(first: Any, *others: Any) -> bool:
    """Whether the first value equals one of the others."""
    if not others:
        raise TemplateError("missing argument for comparison")
    return any(_equal(first, other) for other in others)


def _equal(first: Any, other: Any) -> bool:
    kind = _kind(first)
    if kind != _kind(other):
        if first is None or other is None:
            return False
        raise TemplateError(f"incompatible types for comparison: {type_name(first)} and {type_name(other)}")
    if kind is not None:
        return bool(first == other)
    if first is None or other is None:
        return _is_nil(first) == _is_nil(other)
    if kind_of(first) != kind_of(other):
        raise TemplateError(f"non-comparable types {type_name(first)} and {type_name(other)}")
    if _is_nil(first) or _is_nil(other):
        return _is_nil(first) == _is_nil(other)
    if isinstance(other, GoList | GoMap):
        raise TemplateError(f"non-comparable type {type_name(other)}")
    return first is other


def _is_nil(value: Any) -> bool:
    return value is None or (isinstance(value, GoList | GoMap) and value.is_nil)


@function("ne", "any", "any", peeks=True)
def ne(first: Any, other: Any) -> bool:
    return not _equal(first, other)


@function("lt", "any", "any", peeks=True)
def lt(first: Any, other: Any) -> bool:
    kind, other_kind = _kind(first), _kind(other)
    if kind is None or other_kind is None or (kind == other_kind and kind in ("bool", "complex")):
        raise TemplateError("invalid type for comparison")
    if kind != other_kind:
        raise TemplateError(f"incompatible types for comparison: {type_name(first)} and {type_name(other)}")
    return bool(first < other)


@function("le", "any", "any", peeks=True)
def le(first: Any, other: Any) -> bool:
    return lt(first, other) or _equal(first, other)


@function("gt", "any", "any", peeks=True)
def gt(first: Any, other: Any) -> bool:
    return not le(first, other)


@function("ge", "any", "any", peeks=True)
def ge(first: Any, other: Any) -> bool:
    return not lt(first, other)
