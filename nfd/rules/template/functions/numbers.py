"""Conversions and arithmetic; upstream: Sprig numeric.go, spf13/cast, shopspring/decimal."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any

from nfd.rules.template.function_calls import Runtime, function
from nfd.rules.template.literals import floating, integer
from nfd.rules.template.printf import sprint
from nfd.rules.template.values import GoList, Int64, TemplateError, is_integer, wrap64

_DECIMAL = Context(prec=2000, Emin=-99_999, Emax=99_999)
_DIVISION = Decimal("1e-16")


@function("int", "any")
def to_int(value: Any) -> int:
    """Any value as a whole number; what cannot be read is 0."""
    if is_integer(value) or isinstance(value, bool):
        return wrap64(int(value))
    if isinstance(value, float):
        return int(value) if -(2.0**63) <= value < 2.0**63 else -(1 << 63)
    if isinstance(value, str):
        number = integer(_without_zero_fraction(value))
        return number if number is not None and -(1 << 63) <= number < 1 << 63 else 0
    return 0


def _without_zero_fraction(text: str) -> str:
    head, dot, fraction = text.rpartition(".")
    return head if dot and fraction and not fraction.strip("0") else text


@function("float64", "any")
def to_float(value: Any) -> float:
    """Any value as a fraction; what cannot be read is 0."""
    if isinstance(value, bool | int | float):
        return float(value)
    if isinstance(value, str):
        number = floating(value)
        return 0.0 if number is None else number
    return 0.0


@function("int64", "any")
def int64(value: Any) -> Int64:
    return Int64(to_int(value))


@function("atoi", "string")
def atoi(text: str) -> int:
    """Plain decimal, 0 for anything else; too large numbers become the largest."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return 0
    number = int(digits) if len(digits.lstrip("0")) < 20 else 1 << 64
    return max(-(1 << 63), -number) if text[0] == "-" else min((1 << 63) - 1, number)


@function("toDecimal", "any", runtime=True)
def to_decimal(runtime: Runtime, value: Any) -> Int64:
    """An octal number."""
    text = sprint([value], runtime.budget)
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or len(digits) > 64 or digits.strip("01234567"):
        return Int64(0)
    number = -int(digits, 8) if text[0] == "-" else int(digits, 8)
    return Int64(number if wrap64(number) == number else 0)


@function("add1", "any")
def add1(value: Any) -> Int64:
    return Int64(wrap64(to_int(value) + 1))


@function("add", "*any")
def add(*values: Any) -> Int64:
    return Int64(wrap64(sum(map(to_int, values))))


@function("sub", "any", "any")
def sub(first: Any, second: Any) -> Int64:
    return Int64(wrap64(to_int(first) - to_int(second)))


@function("mul", "any", "*any")
def mul(first: Any, *others: Any) -> Int64:
    product = to_int(first)
    for other in others:
        product = wrap64(product * to_int(other))
    return Int64(product)


@function("div", "any", "any")
def div(first: Any, second: Any) -> Int64:
    """Whole division, towards zero."""
    dividend, divisor = to_int(first), to_int(second)
    if not divisor:
        raise TemplateError("integer divide by zero")
    quotient = abs(dividend) // abs(divisor)
    return Int64(wrap64(quotient if (dividend < 0) == (divisor < 0) else -quotient))


@function("mod", "any", "any")
def mod(first: Any, second: Any) -> Int64:
    """The remainder, with the sign of the first number."""
    dividend, divisor = to_int(first), to_int(second)
    if not divisor:
        raise TemplateError("integer divide by zero")
    return Int64(abs(dividend) % abs(divisor) * (-1 if dividend < 0 else 1))


@function("max biggest", "any", "*any")
def max_(*values: Any) -> Int64:
    return Int64(max(map(to_int, values)))


@function("min", "any", "*any")
def min_(*values: Any) -> Int64:
    return Int64(min(map(to_int, values)))


def _extreme(choose: Callable[[list[float]], float], *values: Any) -> float:
    """The largest or smallest; with no number among them, no number."""
    numbers = [to_float(value) for value in values]
    return math.nan if any(map(math.isnan, numbers)) else choose(numbers)


function("maxf", "any", "*any")(partial(_extreme, max))
function("minf", "any", "*any")(partial(_extreme, min))


def _decimals(operation: Callable[[Decimal, Decimal], Decimal], first: Any, *others: Any) -> float:
    """Exact decimal arithmetic, so that 0.1 and 0.2 make 0.3."""
    result = _decimal(first)
    for other in others:
        result = operation(result, _decimal(other))
    return float(result) + 0.0


def _decimal(value: Any) -> Decimal:
    number = to_float(value)
    if not math.isfinite(number):
        raise TemplateError(f"cannot compute with {number}")
    return Decimal(repr(number))


def _divide(first: Decimal, second: Decimal) -> Decimal:
    """To sixteen places, as upstream's library divides."""
    if not second:
        raise TemplateError("decimal division by 0")
    return _DECIMAL.divide(first, second).quantize(_DIVISION, ROUND_HALF_UP, _DECIMAL)


function("add1f", "any")(partial(_decimals, _DECIMAL.add, 1))
function("addf", "*any", each=40)(partial(_decimals, _DECIMAL.add, 0))
function("subf", "any", "*any", each=40)(partial(_decimals, _DECIMAL.subtract))
function("mulf", "any", "*any", each=40)(partial(_decimals, _DECIMAL.multiply))
function("divf", "any", "*any", each=40)(partial(_decimals, _divide))


def _whole(rounding: Callable[[float], int], value: Any) -> float:
    number = to_float(value)
    return math.copysign(float(rounding(number)), number) if math.isfinite(number) else number


function("floor", "any")(partial(_whole, math.floor))
function("ceil", "any")(partial(_whole, math.ceil))


@function("round", "any", "int", "*float64")
def round_(value: Any, places: int, *limit: float) -> float:
    """To a number of places, up from .5 or another limit."""
    power = 10.0**places if places < 309 else math.inf
    digit = power * to_float(value)
    if not math.isfinite(digit):
        return digit / power
    up = math.modf(digit)[0] >= (limit[0] if limit else 0.5)
    return _whole(math.ceil if up else math.floor, digit) / power


@function("until", "int", runtime=True)
def until(runtime: Runtime, count: int) -> GoList:
    return until_step(runtime, 0, count, -1 if count < 0 else 1)


@function("untilStep", "int", "int", "int", runtime=True)
def until_step(runtime: Runtime, start: int, stop: int, step: int) -> GoList:
    return GoList(_numbers(runtime, start, stop, step), "int")


def _numbers(runtime: Runtime, start: int, stop: int, step: int) -> range:
    if (step >= 0) if stop < start else (step <= 0):
        return range(0)
    runtime.budget.reserve(max(0, (stop - start) // step))
    return range(start, stop, step)


@function("seq", "*int", runtime=True)
def seq(runtime: Runtime, *parameters: int) -> str:
    """Numbers with blanks between: to the last, from the first, by steps."""
    if not 1 <= len(parameters) <= 3:
        return ""
    start = parameters[0] if len(parameters) > 1 else 1
    end = parameters[-1]
    beyond = -1 if end < start else 1
    step = parameters[1] if len(parameters) == 3 else beyond
    if len(parameters) == 3 and end < start and step > 0:
        return ""
    return " ".join(map(str, _numbers(runtime, start, end + beyond, step)))
