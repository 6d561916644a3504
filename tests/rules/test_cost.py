"""What a step of a template costs: of every function, on large arguments of every kind, some microseconds at most."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from nfd.rule_clock import CLOCKS
from nfd.rules.regexp import compile_pattern
from nfd.rules.template.budget import Budget
from nfd.rules.template.evaluator import Evaluator
from nfd.rules.template.function_calls import Function, Runtime
from nfd.rules.template.functions import FUNCTIONS
from nfd.rules.template.functions.dates import Moment, must_to_date
from nfd.rules.template.values import GoList, GoMap, TemplateError
from tests.rules.clocks import slowness

STEP = 15e-6 * slowness()
"""Seconds of CPU time that a step may take here; 5 µs are usual at most."""
MOMENT = 0.003 * slowness()
"""Seconds that a call may take whatever it counts: not worth counting."""
STEPS = 200_000
compile_pattern("loads RE2")
SIZE = 60_000

TEXTS = (
    "1234567 aB" * (SIZE // 10),
    "a" * SIZE,
    "aB" * (SIZE // 2),
    " -_.," * (SIZE // 5),
    "é€ß𝄞" * (SIZE // 4),
    "".join(map(chr, range(0x4E00, 0x9FA5))) * (SIZE // 20_901),
    "\x00\x7f'\"\\<&" * (SIZE // 7),
    "2006Jan02" * (SIZE // 9),
    "[" + "1," * (SIZE // 2) + "1]",
    "../" * (SIZE // 3),
    "\udc80" * SIZE,
)
LISTS = (
    GoList(range(SIZE // 4), "int"),
    GoList(map(str, range(SIZE // 4)), "string"),
    GoList([""] * (SIZE // 4), "string"),
    GoList(["x" * 1000] * 1000, "string"),
)
SMALL: dict[str, tuple[Any, ...]] = {"string": ("", ",", "a.*b"), "int": (-1, 1, 5), "float64": (0.5,), "bool": (True,)}


def arguments_of(kind: str) -> tuple[Any, ...]:
    """Large ones of that type, then small ones."""
    large: dict[str, tuple[Any, ...]] = {
        "string": TEXTS,
        "int": (1_000_000,),
        "dict": (GoMap({str(number): number for number in range(SIZE // 8)}),),
        "time": (Moment(must_to_date("2006", "2020").value),),
    }
    if kind == "any":
        return (*TEXTS, *LISTS, 1e300, *arguments_of("dict"))
    return large.get(kind, ()) + SMALL.get(kind, ())


def calls_of(function: Function) -> Iterator[list[Any]]:
    """Arguments that are large one at a time, and all at once."""
    kinds = [*function.parameters, *([function.rest] * 2 if function.rest else ())]
    choices = [arguments_of(kind) for kind in kinds]
    for place, options in enumerate(choices):
        for value in options:
            small = [(SMALL.get(kind) or choice)[-1] for kind, choice in zip(kinds, choices, strict=True)]
            yield [*small[:place], value, *small[place + 1 :]]
            yield [value if at == place else choice[0] for at, choice in enumerate(choices)]
    if function.rest:
        yield [choices[0][0]] * (2 if function.rest == "string" else 1) + [arguments_of(function.rest)[-1]] * 4000


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"and", "or", "fail"}))
def test_cost_of_functions(name: str) -> None:
    """Counted before and after, as the interpreter does."""
    worst = (0.0, 0.0, "")
    for values in calls_of(FUNCTIONS[name]):
        budget = Budget(STEPS)
        began = CLOCKS.cpu()
        with suppress(TemplateError):
            Evaluator(FUNCTIONS, Runtime(budget, None)).call_function(name, values)
        seconds, steps = CLOCKS.cpu() - began, STEPS - budget.left
        if seconds > MOMENT:
            worst = max(worst, (seconds / max(steps, 1), seconds, ", ".join(repr(one)[:20] for one in values[:3])))
    assert worst[0] < STEP, worst
