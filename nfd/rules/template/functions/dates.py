"""Functions on moments and durations; upstream: Sprig date.go, Go package time. The local time zone is UTC.

The present moment comes from the caller of the engine, never from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nfd.rules.scalars import SPACE
from nfd.rules.template.function_calls import Runtime, function
from nfd.rules.template.functions.numbers import atoi
from nfd.rules.template.functions.time_layouts import DAYS, MONTHS, format_moment, parse_moment
from nfd.rules.template.values import GoObject, Int64, Named, TemplateError, is_integer, type_name, wrap64

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_SECOND = 10**9
_ROUND_UNITS = (("y", 365 * 86400), ("mo", 30 * 86400), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_ZERO = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Moment(GoObject):
    """A time.Time."""

    value: datetime

    type_name: ClassVar[str] = "time.Time"
    methods: ClassVar[Mapping[str, Callable[..., Any]]]

    def json_text(self) -> str:
        return format_moment(self.value, "2006-01-02T15:04:05.999999999Z07:00")

    def unix(self) -> int:
        return (self.value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)


class Month(Named):
    """A time.Month, counted from 1."""

    type_name = "time.Month"
    names = MONTHS
    first = 1


class Weekday(Named):
    """A time.Weekday, counted from Sunday."""

    type_name = "time.Weekday"
    names = (DAYS[-1], *DAYS[:-1])


Moment.methods = {
    "String": lambda moment: format_moment(moment.value, "2006-01-02 15:04:05.999999999 -0700 MST"),
    "Format": lambda moment, layout: format_moment(moment.value, layout),
    "UTC": lambda moment: Moment(moment.value.astimezone(UTC)),
    "Unix": lambda moment: Int64(moment.unix()),
    "Year": lambda moment: moment.value.year,
    "Month": lambda moment: Month(moment.value.month),
    "Weekday": lambda moment: Weekday((moment.value.weekday() + 1) % 7),
    "Day": lambda moment: moment.value.day,
    "YearDay": lambda moment: moment.value.timetuple().tm_yday,
    "Hour": lambda moment: moment.value.hour,
    "Minute": lambda moment: moment.value.minute,
    "Second": lambda moment: moment.value.second,
}


@function("now", runtime=True)
def now(runtime: Runtime) -> Moment:
    return Moment(runtime.now())


def _moment(runtime: Runtime, value: Any) -> datetime:
    """A moment, seconds since 1970, or for anything else the present."""
    if isinstance(value, Moment):
        return value.value
    if is_integer(value) and type_name(value) in ("int", "int64"):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(value))
    return runtime.now()


def _zone(name: str) -> tzinfo:
    if name in ("", "UTC", "Local"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


@function("dateInZone date_in_zone", "string", "any", "string", runtime=True, letters=1)
def date_in_zone(runtime: Runtime, layout: str, value: Any, zone: str) -> str:
    """An unknown zone is UTC."""
    return format_moment(_moment(runtime, value).astimezone(_zone(zone)), layout)


@function("date", "string", "any", runtime=True, letters=1)
def date(runtime: Runtime, layout: str, value: Any) -> str:
    return date_in_zone(runtime, layout, value, "UTC")


@function("htmlDate", "any", runtime=True)
def html_date(runtime: Runtime, value: Any) -> str:
    return date_in_zone(runtime, "2006-01-02", value, "UTC")


@function("htmlDateInZone", "any", "string", runtime=True)
def html_date_in_zone(runtime: Runtime, value: Any, zone: str) -> str:
    return date_in_zone(runtime, "2006-01-02", value, zone)


@function("toDate", "string", "string")
def to_date(layout: str, text: str) -> Moment:
    """What cannot be read is the first moment of the year 1."""
    try:
        return must_to_date(layout, text)
    except TemplateError:
        return Moment(_ZERO)


@function("mustToDate", "string", "string")
def must_to_date(layout: str, text: str) -> Moment:
    return Moment(parse_moment(text, layout))


@function("unixEpoch", "time")
def unix_epoch(moment: Moment) -> str:
    return str(moment.unix())


@function("dateModify date_modify", "string", "time")
def date_modify(change: str, moment: Moment) -> Moment:
    """A duration that cannot be read changes nothing."""
    try:
        return must_date_modify(change, moment)
    except TemplateError:
        return moment


@function("mustDateModify must_date_modify", "string", "time")
def must_date_modify(change: str, moment: Moment) -> Moment:
    return Moment(moment.value + timedelta(microseconds=parse_duration(change) // 1000))


@function("ago", "any", runtime=True)
def ago(runtime: Runtime, value: Any) -> str:
    past = runtime.now() - _moment(runtime, value)
    return format_duration(round(past.total_seconds()) * _SECOND)


@function("duration", "any")
def duration(value: Any) -> str:
    """Seconds, as text or int64; anything else is none."""
    seconds = atoi(value) if isinstance(value, str) else int(value) if isinstance(value, Int64) else 0
    return format_duration(wrap64(seconds * _SECOND))


@function("durationRound", "any", runtime=True)
def duration_round(runtime: Runtime, value: Any) -> str:
    """The largest unit alone: `2h`, `3d`."""
    seconds = abs(_nanoseconds(runtime, value)) / _SECOND
    for name, size in _ROUND_UNITS:
        if seconds > size:
            return f"{int(seconds // size)}{name}"
    return "0s"


def _nanoseconds(runtime: Runtime, value: Any) -> int:
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except TemplateError:
            return 0
    if isinstance(value, Moment):
        return int((runtime.now() - value.value).total_seconds() * _SECOND)
    return int(value) if isinstance(value, Int64) else 0


def parse_duration(text: str) -> int:
    """`1h30m`, `-1.5h`, `300ms` in nanoseconds. Raises: TemplateError."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0
    if not body or len(body) > 100 or _DURATION.sub("", body) or body != body.strip(SPACE):
        raise TemplateError(f"invalid duration {text[:100]!r}")
    total = sum(int(float(number) * _UNITS[unit]) for number, unit in _DURATION.findall(body))
    if total >= 1 << 63:
        raise TemplateError(f"invalid duration {text[:100]!r}")
    return -total if text[0] == "-" else total


def format_duration(nanoseconds: int) -> str:
    """Go's Duration.String for whole seconds."""
    seconds = abs(nanoseconds) // _SECOND
    sign = "-" if nanoseconds < 0 else ""
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    if hours:
        return f"{sign}{hours}h{minutes}m{rest}s"
    return f"{sign}{minutes}m{rest}s" if minutes else f"{sign}{rest}s"
