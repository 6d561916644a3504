"""Functions on lists; upstream: Sprig list.go. Every one makes a new list."""

from __future__ import annotations

from typing import Any

from nfd.rules.template.function_calls import Runtime, function
from nfd.rules.template.functions.logic import deep_equal, is_empty
from nfd.rules.template.functions.numbers import to_int
from nfd.rules.template.values import GoList, TemplateError, kind_of, truth


def _list(value: Any) -> GoList:
    if not isinstance(value, GoList):
        raise TemplateError(f"not a list but a {kind_of(value)}")
    return value


@function("list tuple", "*any")
def list_(*values: Any) -> GoList:
    return GoList(values)


@function("append mustAppend push mustPush", "any", "any")
def append(value: Any, one: Any) -> GoList:
    return GoList((*_list(value), one))


@function("prepend mustPrepend", "any", "any")
def prepend(value: Any, one: Any) -> GoList:
    return GoList((one, *_list(value)))


@function("first mustFirst", "any", peeks=True)
def first(value: Any) -> Any:
    return _list(value)[0] if _list(value) else None


@function("last mustLast", "any", peeks=True)
def last(value: Any) -> Any:
    return _list(value)[-1] if _list(value) else None


@function("rest mustRest", "any")
def rest(value: Any) -> GoList:
    return GoList(_list(value)[1:], is_nil=not value)


@function("initial mustInitial", "any")
def initial(value: Any) -> GoList:
    return GoList(_list(value)[:-1], is_nil=not value)


@function("reverse mustReverse", "any", letters=64)
def reverse(value: Any) -> GoList:
    return GoList(reversed(_list(value)))


@function("compact mustCompact", "any", letters=8)
def compact(value: Any) -> GoList:
    return GoList(one for one in _list(value) if not is_empty(one))


@function("uniq mustUniq", "any", runtime=True)
def uniq(runtime: Runtime, value: Any) -> GoList:
    kept = GoList()
    for one in _list(value):
        if not any(deep_equal(runtime, one, other) for other in kept):
            kept.append(one)
    return kept


@function("without mustWithout", "any", "*any", runtime=True)
def without(runtime: Runtime, value: Any, *omitted: Any) -> GoList:
    return GoList(one for one in _list(value) if not any(deep_equal(runtime, one, other) for other in omitted))


@function("has mustHas", "any", "any", runtime=True)
def has(runtime: Runtime, wanted: Any, value: Any) -> bool:
    return value is not None and any(deep_equal(runtime, wanted, one) for one in _list(value))


@function("slice mustSlice", "any", "*any")
def slice_(value: Any, *bounds: Any) -> Any:
    """A part of a list; of an empty one, nothing."""
    whole = _list(value)
    if not truth(whole):
        return None
    start = to_int(bounds[0]) if bounds else 0
    end = to_int(bounds[1]) if len(bounds) > 1 else len(whole)
    if not 0 <= start <= end <= len(whole):
        raise TemplateError("slice bounds out of range")
    return GoList(whole[start:end], whole.elem)


@function("concat", "*any", runtime=True, letters=64)
def concat(runtime: Runtime, *values: Any) -> GoList:
    runtime.budget.reserve(sum(len(_list(value)) for value in values))
    joined = GoList(one for value in values for one in value)
    joined.is_nil = not joined
    return joined


@function("chunk mustChunk", "int", "any", letters=1)
def chunk(size: int, value: Any) -> GoList:
    whole = _list(value)
    if size < -1 and len(whole) == 1:  # upstream's arithmetic makes something of these sizes
        return GoList((GoList(whole),), "[]interface {}")
    if 2 <= len(whole) <= 1 - size:
        return GoList((), "[]interface {}")
    if size <= 0:
        raise TemplateError("chunks need a size")
    return GoList((GoList(whole[at : at + size]) for at in range(0, len(whole), size)), "[]interface {}")
