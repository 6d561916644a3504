"""Reference page, example file and JSON schema of a configuration, all from its Options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from nfd.config.options import Kind, Option, Shape, options
from nfd.config.section import Section
from nfd.config.yamltext import dump

WIDTH = 100
_SCHEMA: dict[Kind, dict[str, Any]] = {
    Kind.TEXT: {"type": "string"},
    Kind.BOOL: {"type": "boolean"},
    Kind.INTEGER: {"type": "integer"},
    Kind.NUMBER: {"type": "number"},
    Kind.DURATION: {"type": ["string", "number"]},
    Kind.PATTERN: {"type": "string", "format": "regex"},
    Kind.ANY: {},
}


def reference(title: str, model: type[Section], env_prefix: str = "") -> str:
    """A Markdown page: one heading for each key, with what it is, its default, flags and variables."""
    lines = [f"# {title}", ""]
    for leaf in options(model, env_prefix):
        lines += [f"## `{f'--{leaf.mark.name}' if leaf.mark.outside else leaf.key}`", ""]
        lines += [*wrap(" ".join(leaf.help.split()), 120), ""] if leaf.help else []
        lines += ["| | |", "| --- | --- |", f"| type | {type_text(leaf.shape)} |"]
        lines += [f"| default | `{flow(default_of(leaf))}` |"]
        lines += ["| flag | " + ", ".join(f"`--{name}`" for name in leaf.flags) + " |"] if leaf.flags else []
        lines += ["| environment | " + ", ".join(f"`{name}`" for name in leaf.env) + " |"] if leaf.env else []
        lines += ["| deprecated | yes |"] if leaf.deprecated else []
        lines += [""]
    return "\n".join(lines)


def example(model: type[Section]) -> str:
    """A YAML file in which every key stands as a comment, with its default."""
    lines: list[str] = []
    before: tuple[str, ...] = ()
    for leaf in options(model):
        if leaf.deprecated or leaf.mark.hidden or leaf.mark.outside:
            continue
        *sections, key = leaf.path
        same = next((i for i, (a, b) in enumerate(zip(before, sections, strict=False)) if a != b), len(before))
        lines += [f"#{'  ' * depth}{sections[depth]}:" for depth in range(min(same, len(sections)), len(sections))]
        before, indent = tuple(sections), "  " * len(sections)
        help_width = max(40, 110 - len(indent))
        lines += [f"#{indent}# {line}" for line in wrap(" ".join(leaf.help.split()), help_width)]
        lines += [f"#{indent}{line}" for line in _value_lines(key, default_of(leaf))]
    return "\n".join(lines) + "\n"


def schema(title: str, model: type[Section]) -> str:
    """A JSON schema (draft 2020-12) for editors; keys nobody knows are errors there."""
    top = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **_section_schema([leaf for leaf in options(model) if not leaf.mark.outside], 0),
    }
    return json.dumps(top, indent=2, ensure_ascii=False) + "\n"


def default_of(leaf: Option) -> Any:
    """An option's default as YAML and JSON would hold it; durations as text."""
    if leaf.shape.kind is Kind.DURATION and isinstance(leaf.default, int | float):
        return duration_text(leaf.default)
    return _plain(leaf.default)


def duration_text(seconds: float) -> str:
    """`90s`, `500ms`: what Go's duration parser reads."""
    return f"{seconds:g}s" if seconds >= 1 or seconds <= 0 else f"{seconds * 1000:g}ms"


def flow(value: Any) -> str:
    """A value as YAML on one line."""
    return dump(value, flow=True)


def type_text(shape: Shape) -> str:
    """`a list of text`, `none or summary`."""
    if shape.choices:
        return " or ".join(f"`{choice}`" for choice in shape.choices)
    if shape.kind in (Kind.LIST, Kind.MAP) and shape.item is not None:
        words = {Kind.LIST: "mappings", Kind.MAP: "maps", Kind.SECTION: "mappings", Kind.ANY: "values"}
        item = words.get(shape.item.kind, str(shape.item.kind).removeprefix("a ") + "s").replace("texts", "text")
        return f"{shape.kind} of {item}"
    return str(shape.kind)


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return value.model_dump(by_alias=True, mode="json", exclude_defaults=type(value).whole)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [_plain(one) for one in value]
    return getattr(value, "pattern", value)


def _value_lines(key: str, value: Any) -> list[str]:
    """A key and its value, in flow style while it fits a line."""
    line = f"{key}: {flow(value)}"
    if len(line) <= WIDTH or not isinstance(value, list | dict):
        return [line]
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return wrap(line, WIDTH, subsequent_indent=" " * (len(key) + 3), break_long_words=False, break_on_hyphens=False)
    if isinstance(value, list):
        items = [f"- {flow(item)}" for item in value]
    else:
        items = [f"{name}: {flow(item)}" for name, item in value.items()]
    return [f"{key}:", *(f"  {item}" for item in items)]


def _section_schema(leaves: Sequence[Option], depth: int) -> dict[str, Any]:
    """The object at one level: `leaves` share the first `depth` keys of their paths."""
    properties: dict[str, Any] = {}
    for key in dict.fromkeys(leaf.path[depth] for leaf in leaves):
        below = [leaf for leaf in leaves if leaf.path[depth] == key]
        nested = len(below[0].path) > depth + 1
        properties[key] = _section_schema(below, depth + 1) if nested else _leaf_schema(below[0])
    return {"type": ["object", "null"] if depth else "object", "additionalProperties": False, "properties": properties}


def _leaf_schema(leaf: Option) -> dict[str, Any]:
    found = {**_shape_schema(leaf.shape), "default": default_of(leaf)}
    if leaf.help:
        found["description"] = " ".join(leaf.help.split())
    return found | ({"deprecated": True} if leaf.deprecated else {})


def _shape_schema(shape: Shape) -> dict[str, Any]:
    if shape.choices:
        return {"enum": list(shape.choices)}
    if shape.kind is Kind.LIST and shape.item is not None:
        return {"type": ["array", "null"], "items": _shape_schema(shape.item)}
    if shape.kind is Kind.MAP and shape.item is not None:
        return {"type": ["object", "null"], "additionalProperties": _shape_schema(shape.item)}
    if shape.kind is Kind.SECTION and shape.model is not None:
        return _section_schema(options(shape.model), 0)
    if shape.loose:
        return {"type": ["string", "number", "boolean"]}
    return dict(_SCHEMA[shape.kind])
