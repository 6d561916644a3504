"""Defaults, choices and questions about values; upstream: Sprig defaults.go and reflect.go, Go reflect.DeepEqual."""

from __future__ import annotations

from typing import Any

from nfd.rules.template.function_calls import Runtime, function
from nfd.rules.template.values import MAX_NESTING, GoList, GoMap, TemplateError, kind_of, truth, type_name

function("typeOf", "any", peeks=True)(type_name)
function("kindOf", "any", peeks=True)(kind_of)


@function("empty", "any", peeks=True)
def is_empty(value: Any) -> bool:
    """Nothing, zero, false, and whatever has no entries."""
    return not truth(value)


@function("default", "any", "*any", peeks=True)
def default(fallback: Any, *given: Any) -> Any:
    return fallback if not given or is_empty(given[0]) else given[0]


@function("coalesce", "*any", peeks=True)
def coalesce(*values: Any) -> Any:
    return next((value for value in values if not is_empty(value)), None)


@function("all", "*any", peeks=True)
def all_(*values: Any) -> bool:
    return all(map(truth, values))


@function("any", "*any", peeks=True)
def any_(*values: Any) -> bool:
    return any(map(truth, values))


@function("ternary", "any", "any", "bool", peeks=True)
def ternary(yes: Any, no: Any, condition: bool) -> Any:
    return yes if condition else no


@function("fail", "string")
def fail(message: str) -> str:
    raise TemplateError(message)


@function("typeIs", "string", "any", peeks=True)
def type_is(wanted: str, value: Any) -> bool:
    return wanted == type_name(value)


@function("typeIsLike", "string", "any", peeks=True)
def type_is_like(wanted: str, value: Any) -> bool:
    return type_name(value) in (wanted, f"*{wanted}")


@function("kindIs", "string", "any", peeks=True)
def kind_is(wanted: str, value: Any) -> bool:
    return wanted == kind_of(value)


@function("deepEqual", "any", "any", runtime=True)
def deep_equal(runtime: Runtime, first: Any, second: Any, depth: int = 0) -> bool:
    """Equal in type and in everything inside; an int64 is no int."""
    runtime.budget.spend()
    if depth > MAX_NESTING:
        raise TemplateError("value is nested too deeply")
    if type_name(first) != type_name(second):
        return False
    if isinstance(first, GoList):
        return (
            len(first) == len(second)
            and first.is_nil == second.is_nil
            and all(deep_equal(runtime, a, b, depth + 1) for a, b in zip(first, second, strict=True))
        )
    if isinstance(first, GoMap):
        return (
            first.keys() == second.keys()
            and first.is_nil == second.is_nil
            and all(deep_equal(runtime, first[key], second[key], depth + 1) for key in first)
        )
    return bool(first == second)


@function("deepCopy mustDeepCopy", "any", runtime=True)
def deep_copy(runtime: Runtime, value: Any, depth: int = 0) -> Any:
    if value is None and not depth:
        raise TemplateError("nothing to copy")
    runtime.budget.spend()
    if depth > MAX_NESTING:
        raise TemplateError("value is nested too deeply")
    if isinstance(value, GoList):
        return GoList((deep_copy(runtime, one, depth + 1) for one in value), value.elem, is_nil=value.is_nil)
    if isinstance(value, GoMap):
        copied = {key: deep_copy(runtime, one, depth + 1) for key, one in value.items()}
        return GoMap(copied, value.elem, is_nil=value.is_nil, named=value.named)
    return value
