"""How template functions are declared, and how arguments are fitted to them.

A function names the types of its parameters, since Go's templates refuse an argument of another type: `any`, `string`,
`int`, `bool`, `float64`, `dict` (made in the template, never a matched element), `time`. A last type with a star takes
the rest.

What a call costs is counted before it is made: a step for each so many letters and entries of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from nfd.rules.template.budget import Budget
from nfd.rules.template.nodes import Constant
from nfd.rules.template.refused_functions import NO_TIME
from nfd.rules.template.values import ANY, GoMap, GoObject, TemplateError, kind_of, type_name

F = TypeVar("F", bound=Callable[..., Any])

QUICK, PEEKED = 256, 2048
"""Letters in the time of a step: of a function that lets Python go over them, and of one that only looks in."""

Clock = Callable[[], datetime]
"""Tells the present moment, with its time zone."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What functions may ask for: the budget of the execution, and the time if it is given."""

    budget: Budget
    clock: Clock | None = None

    def now(self) -> datetime:
        if self.clock is None:
            raise TemplateError(NO_TIME)
        return self.clock()


@dataclass(frozen=True, slots=True)
class Function:
    """A template function: what it takes, and whether it wants the `Runtime` first.

    `letters` is how many letters or entries of its arguments it reads in the time of a step, `each` how many steps each
    argument costs besides.
    """

    call: Callable[..., Any]
    parameters: tuple[str, ...]
    rest: str | None
    runtime: bool
    letters: int
    each: int

    def check_count(self, given: int, name: str) -> None:
        if given < len(self.parameters) or (self.rest is None and given > len(self.parameters)):
            least = "at least " if self.rest else ""
            raise TemplateError(f"wrong number of args for {name}: want {least}{len(self.parameters)} got {given}")

    def type_at(self, index: int) -> str:
        return self.parameters[index] if index < len(self.parameters) else self.rest or "any"

    def account(self, values: Sequence[Any], budget: Budget) -> None:
        """Charge for the arguments."""
        size = sum(len(value) for value in values if isinstance(value, str | list | dict))
        budget.spend(size // self.letters + (len(values) * self.each >> 2))

    def invoke(self, runtime: Runtime, values: Sequence[Any]) -> Any:
        return self.call(runtime, *values) if self.runtime else self.call(*values)


FUNCTIONS: dict[str, Function] = {}
"""All functions by name; each module of `functions/` adds its own when it is imported."""


def function(
    names: str, *parameters: str, runtime: bool = False, peeks: bool = False, letters: int = QUICK, each: int = 1
) -> Callable[[F], F]:
    """`@function("name", "string", "*any")` adds one.

    One that `peeks` looks at a part of its arguments alone. `letters` is for one that does more with each letter than
    Python does in a few nanoseconds, `each` for one that does more with each argument.
    """
    rest = parameters[-1][1:] if parameters and parameters[-1].startswith("*") else None
    fixed = parameters[:-1] if rest else parameters
    read = PEEKED if peeks else letters

    def add(call: F) -> F:
        for name in names.split():
            FUNCTIONS[name] = Function(call, fixed, rest, runtime, read, each)
        return call

    return add


_PYTHON_TYPES: Mapping[str, type] = {"string": str, "int": int, "bool": bool, "float64": float}
_GO_NAMES = {"any": ANY, "dict": f"map[string]{ANY}", "time": "time.Time"}


def check_type(value: Any, wanted: str) -> Any:
    """Refuse a value of another type. Raises: TemplateError."""
    if wanted == "any":
        return value
    if value is None and wanted == "dict":
        return GoMap(is_nil=True)
    if wanted == "dict":
        fits = isinstance(value, GoMap) and value.elem == ANY
    elif wanted == "time":
        fits = isinstance(value, GoObject) and value.type_name == "time.Time"
    else:
        fits = type(value) is _PYTHON_TYPES[wanted]
    if not fits:
        expected = _GO_NAMES.get(wanted, wanted)
        raise TemplateError(f"wrong type for value; expected {expected}; got {type_name(value)}")
    return value


def constant_as(wanted: str, constant: Constant) -> Any:
    """A literal as a parameter of this type wants it. Raises: TemplateError."""
    value = constant.value
    if wanted == "any":
        if constant.overflows:
            raise TemplateError("number overflows int")
        return value
    if value is None and wanted == "dict":
        return GoMap(is_nil=True)
    if wanted == "int" and constant.as_int is not None:
        return constant.as_int
    if wanted == "float64" and constant.as_float is not None:
        return constant.as_float
    if wanted in ("string", "bool") and type(value) is _PYTHON_TYPES[wanted]:
        return value
    raise TemplateError(f"expected {_GO_NAMES.get(wanted, wanted)}; found {kind_of(value)}")
