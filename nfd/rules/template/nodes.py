"""The parsed form of a template."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; `None` is `nil`. Numbers keep the forms that a parameter of another type may need."""

    value: bool | str | int | float | complex | None
    as_int: int | None = None
    as_float: float | None = None
    overflows: bool = False


@dataclass(frozen=True, slots=True)
class Dot:
    """The current value."""


@dataclass(frozen=True, slots=True)
class Field:
    """`.a.b`, looked up from the current value."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """`$x.a.b`."""

    name: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Identifier:
    """The name of a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Chain:
    """`(…).a.b`, or fields after the result of a function without arguments."""

    node: Operand
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pipe:
    """Commands joined by `|`, each one's result the last argument of the next, and the variables that are set."""

    commands: tuple[tuple[Operand, ...], ...]
    variables: tuple[str, ...] = ()
    assigns: bool = False


Operand = Constant | Dot | Field | Variable | Identifier | Chain | Pipe


@dataclass(frozen=True, slots=True)
class Text:
    """Text between actions."""

    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """A pipeline whose result is printed."""

    pipe: Pipe


@dataclass(frozen=True, slots=True)
class Branch:
    """`if` or `with` with all its `else if` or `else with`."""

    arms: tuple[tuple[Pipe, Body], ...]
    otherwise: Body
    sets_dot: bool


@dataclass(frozen=True, slots=True)
class Range:
    """`range`."""

    pipe: Pipe
    body: Body
    otherwise: Body


@dataclass(frozen=True, slots=True)
class Call:
    """`template` or `block`: run a named template."""

    name: str
    pipe: Pipe | None


@dataclass(frozen=True, slots=True)
class Jump:
    """`break` or `continue`."""

    leaves: bool


Statement = Text | Action | Branch | Range | Call | Jump
Body = tuple[Statement, ...]
