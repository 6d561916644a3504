"""Walks a configuration model and yields one Option per leaf: key, flags, variables, type, default and help.

A leaf's `Shape` says how its text and its YAML are read; what a field's own validators add runs afterwards, in the one
validation of `nfd.config.load`.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from nfd.config.fielddocs import help_of
from nfd.config.section import Flag, Replaces, Section, parse_duration, parse_interval, parse_pattern

M = TypeVar("M")


class Kind(StrEnum):
    """The kind of a value, as in error messages and the reference page."""

    TEXT = "text"
    BOOL = "true or false"
    INTEGER = "a whole number"
    NUMBER = "a number"
    DURATION = "a duration"
    PATTERN = "a regular expression"
    LIST = "a list"
    MAP = "a mapping"
    SECTION = "a section"
    ANY = "a value"


@dataclass(frozen=True, slots=True)
class Shape:
    """`item` is the shape of the elements of a list or map, `model` that of a section, `choices` the legal texts."""

    kind: Kind
    item: Shape | None = None
    model: type[Section] | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """One leaf of the configuration. `flags` and `env` stand in the order of preference."""

    path: tuple[str, ...]
    """Keys from the top."""
    shape: Shape
    default: Any
    declared: tuple[type[Section], str]
    """Model and field."""
    flags: tuple[str, ...]
    env: tuple[str, ...]
    mark: Flag
    deprecated: bool = False

    @property
    def key(self) -> str:
        """The YAML path, `core.sleepInterval`."""
        return ".".join(self.path)

    @property
    def help(self) -> str:
        """The field's docstring."""
        return help_of(*self.declared)


def options(model: type[Section], env_prefix: str = "") -> tuple[Option, ...]:
    """Every leaf of the model, in the order it is written; variables follow from a prefix such as `NFD_WORKER`."""
    return tuple(_walk(model, (), (), env_prefix))


def key_of(name: str, field: FieldInfo) -> str:
    """A field's key in YAML."""
    return field.alias or name


def find_mark(field: FieldInfo, kind: type[M]) -> M | None:
    """The field's annotation of that kind (Flag, UnionOfFiles, Checked, Replaces), if any."""
    return next((item for item in field.metadata if isinstance(item, kind)), None)


def shape_of(field: FieldInfo, *, loose: bool = False) -> Shape:
    """The shape of a field, from its annotation and validators."""
    return _shape(field.annotation, field.metadata, loose)


def _walk(model: type[Section], path: tuple[str, ...], names: tuple[str, ...], env_prefix: str) -> Iterator[Option]:
    for name, field in model.model_fields.items():
        shape = shape_of(field, loose=model.loose)
        here = (*path, key_of(name, field))
        if shape.kind is Kind.SECTION and shape.model is not None and not (shape.model.bare or shape.model.whole):
            yield from _walk(shape.model, here, (*names, name), env_prefix)
        else:
            yield _option(model, shape, here, (*names, name), env_prefix)


def _option(
    model: type[Section], shape: Shape, path: tuple[str, ...], names: tuple[str, ...], env_prefix: str
) -> Option:
    declared = (model, names[-1])
    field = model.model_fields[names[-1]]
    flag = find_mark(field, Flag) or Flag()
    established = (flag.name, *flag.aliases) if flag.name else ()
    deprecated = find_mark(field, Replaces) is not None
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if shape.model is not None and shape.model.bare:
        declared = (shape.model, shape.model.bare)
        field = shape.model.model_fields[shape.model.bare]
        default, shape = getattr(default, shape.model.bare), shape_of(field)
    derived: tuple[str, ...] = ()
    variable: tuple[str, ...] = ()
    if model.derived and not flag.outside and not deprecated and _has_text(shape):
        derived = (".".join(name.replace("_", "-") for name in names),)
        variable = ("_".join((env_prefix, *names)).upper(),) if env_prefix else ()
    return Option(
        path=path,
        shape=shape,
        default=default,
        declared=declared,
        flags=tuple(dict.fromkeys((*established, *derived))),
        env=(*flag.env, *variable),
        mark=flag,
        deprecated=deprecated,
    )


def _has_text(shape: Shape) -> bool:
    """Whether a flag or variable can hold the value: one scalar, or a list or map of scalars."""
    if shape.kind in (Kind.LIST, Kind.MAP) and shape.item is not None:
        return shape.item.kind not in (Kind.LIST, Kind.MAP, Kind.SECTION, Kind.ANY)
    return shape.kind is not Kind.SECTION


_KINDS: dict[Any, Kind] = {str: Kind.TEXT, bool: Kind.BOOL, int: Kind.INTEGER, float: Kind.NUMBER}
_VALIDATED: dict[Any, Kind] = {
    parse_duration: Kind.DURATION,
    parse_interval: Kind.DURATION,
    parse_pattern: Kind.PATTERN,
}


def _shape(annotation: Any, metadata: Sequence[Any], loose: bool) -> Shape:
    before: list[Any] = [item.func for item in metadata if isinstance(item, BeforeValidator)]
    if before:
        return Shape(_VALIDATED.get(before[0], Kind.ANY), loose=loose)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape(arguments[0], arguments[1:], loose)
    if origin in (Union, types.UnionType):
        rest = [one for one in arguments if one is not type(None)]
        inner = _shape(rest[0], (), loose) if len(rest) == 1 else Shape(Kind.ANY)
        return replace(inner, optional=len(rest) < len(arguments))
    if origin is Literal:
        return Shape(Kind.TEXT, choices=tuple(str(one) for one in arguments), loose=loose)
    if isinstance(origin, type):
        return _container(origin, arguments, loose)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return Shape(Kind.SECTION, model=annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return Shape(Kind.TEXT, choices=tuple(str(one.value) for one in annotation), loose=loose)
    return Shape(_KINDS.get(annotation, Kind.ANY), loose=loose)


def _container(origin: type, arguments: tuple[Any, ...], loose: bool) -> Shape:
    if issubclass(origin, Mapping):
        return Shape(Kind.MAP, item=_shape(arguments[1], (), loose))
    if issubclass(origin, tuple | list | frozenset):
        return Shape(Kind.LIST, item=_shape(arguments[0], (), loose))
    return Shape(Kind.ANY)
