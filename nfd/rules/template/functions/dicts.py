"""Functions on dictionaries made in the template; upstream: Sprig dict.go, dario.cat/mergo. Keys come sorted."""

from __future__ import annotations

from functools import partial
from typing import Any

from nfd.rules.template.function_calls import Runtime, function
from nfd.rules.template.functions.logic import is_empty
from nfd.rules.template.functions.text import strval
from nfd.rules.template.values import ANY, MAX_NESTING, GoList, GoMap, TemplateError, kind_of, type_name


@function("dict", "*any", runtime=True)
def dict_(runtime: Runtime, *values: Any) -> GoMap:
    """Keys and values in turn; the last value may be missing."""
    padded = (*values, "") if len(values) % 2 else values
    return GoMap({strval(runtime, key): value for key, value in zip(padded[::2], padded[1::2], strict=True)})


@function("get", "dict", "string", peeks=True)
def get(values: GoMap, key: str) -> Any:
    return values.get(key, "")


@function("set", "dict", "string", "any", peeks=True)
def set_(values: GoMap, key: str, value: Any) -> GoMap:
    if values.is_nil:
        raise TemplateError("assignment to entry in nil map")
    values[key] = value
    return values


@function("unset", "dict", "string", peeks=True)
def unset(values: GoMap, key: str) -> GoMap:
    values.pop(key, None)
    return values


@function("hasKey", "dict", "string", peeks=True)
def has_key(values: GoMap, key: str) -> bool:
    return key in values


@function("pluck", "string", "*dict", peeks=True)
def pluck(key: str, *maps: GoMap) -> GoList:
    return GoList(one[key] for one in maps if key in one)


@function("keys", "*dict", letters=2)
def keys(*maps: GoMap) -> GoList:
    return GoList((key for one in maps for key in sorted(one)), "string")


@function("values", "dict", letters=2)
def values_(one: GoMap) -> GoList:
    return GoList(one[key] for key in sorted(one))


@function("pick", "dict", "*string", letters=8)
def pick(values: GoMap, *wanted: str) -> GoMap:
    return GoMap({key: values[key] for key in wanted if key in values})


@function("omit", "dict", "*string", letters=8)
def omit(values: GoMap, *unwanted: str) -> GoMap:
    left_out = frozenset(unwanted)
    return GoMap({key: value for key, value in values.items() if key not in left_out})


@function("merge mustMerge", "dict", "*dict", runtime=True)
def merge(runtime: Runtime, target: GoMap, *sources: GoMap, overwrite: bool = False) -> GoMap:
    """Fill what is missing or empty in the first dictionary from the others, dictionaries inside too.

    With `overwrite` a later dictionary wins.
    """
    for source in sources:
        _merge(runtime, target, source, overwrite=overwrite)
    return target


function("mergeOverwrite mustMergeOverwrite", "dict", "*dict", runtime=True)(partial(merge, overwrite=True))


def _merge(runtime: Runtime, target: GoMap, source: GoMap, *, overwrite: bool, depth: int = 0) -> None:
    if depth > MAX_NESTING:
        raise TemplateError("value is nested too deeply")
    for key, value in source.items():
        runtime.budget.spend()
        known = target.get(key)
        if value is None and not overwrite:
            continue
        if isinstance(known, GoMap) and isinstance(value, GoMap):
            _merge(runtime, known, value, overwrite=overwrite, depth=depth + 1)
            target[key] = known or value  # what has nothing but nil in it comes as it is
        elif key not in target or is_empty(known) or overwrite:
            if target.elem not in (ANY, source.elem):
                raise TemplateError(f"{type_name(value)} does not go into a map of {target.elem}")
            target[key] = value


def _is_dict(value: Any) -> bool:
    return isinstance(value, GoMap) and value.elem == ANY


@function("dig", "*any", peeks=True)
def dig(*arguments: Any) -> Any:
    """Follow keys into nested dictionaries: keys, what to give if one is missing, dictionary."""
    if len(arguments) < 3:
        raise TemplateError("needs at least three arguments")
    *path, fallback, value = arguments
    for key in path:
        if not isinstance(key, str):
            raise TemplateError(f"key is a {kind_of(key)}, not text")
    for key in path:
        if not _is_dict(value):
            raise TemplateError(f"not a dictionary but a {kind_of(value)}")
        if key not in value:
            return fallback
        value = value[key]
    return value
