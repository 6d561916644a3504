"""Go's time layouts: `2006-01-02 15:04:05` as a pattern, for printing and reading; upstream: Go time/format.go."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from nfd.rules.template.values import TemplateError

MONTHS = tuple("January February March April May June July August September October November December".split())  # noqa: SIM905
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_ELEMENTS = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|Z07:00:00|Z07:00|Z0700|Z070000|Z07|-07:00:00|-07:00|-070000|-0700|-07"
    r"|[.,]0+(?![0-9])|[.,]9+(?![0-9])|002|01|02|03|04|05|06|__2|_2(?!006)|15|PM|pm|1|2|3|4|5"
)
_NUMBERS = {
    "01": r"\d{2}", "1": r"\d{1,2}", "02": r"\d{2}", "2": r"\d{1,2}", "_2": r" ?\d{1,2}", "15": r"\d{1,2}",
    "03": r"\d{2}", "3": r"\d{1,2}", "04": r"\d{2}", "4": r"\d{1,2}", "05": r"\d{2}", "5": r"\d{1,2}",
    "2006": r"\d{4}", "06": r"\d{2}", "002": r"\d{3}",
}  # fmt: skip
_PARTS = {
    "2006": "year", "06": "year2", "01": "month", "1": "month", "02": "day", "2": "day", "_2": "day", "15": "hour",
    "03": "hour12", "3": "hour12", "04": "minute", "4": "minute", "05": "second", "5": "second",
}  # fmt: skip


def split_layout(layout: str) -> list[tuple[bool, str]]:
    """The layout in pieces: whether a piece is an element, and its text."""
    pieces: list[tuple[bool, str]] = []
    pos = 0
    for match in _ELEMENTS.finditer(layout):
        if match.group() in ("Jan", "Mon") and layout[match.end() : match.end() + 1].islower():
            continue
        pieces += [(False, layout[pos : match.start()]), (True, match.group())]
        pos = match.end()
    return [*pieces, (False, layout[pos:])]


def format_moment(moment: datetime, layout: str) -> str:
    """A moment as the layout shows it."""
    return "".join(_shown(moment, text) if element else text for element, text in split_layout(layout))


def _shown(moment: datetime, element: str) -> str:
    if element[0] in ".,":
        digits = f"{moment.microsecond:06d}000"[: len(element) - 1].ljust(len(element) - 1, "0")
        digits = digits.rstrip("0") if element[1] == "9" else digits
        return element[0] + digits if digits else ""
    if element[0] in "-Z":
        return _zone(moment, element)
    hour = moment.hour % 12 or 12
    texts = {
        "2006": f"{moment.year:04d}", "06": f"{moment.year % 100:02d}", "January": MONTHS[moment.month - 1],
        "Jan": MONTHS[moment.month - 1][:3], "01": f"{moment.month:02d}", "1": str(moment.month),
        "Monday": DAYS[moment.weekday()], "Mon": DAYS[moment.weekday()][:3], "02": f"{moment.day:02d}",
        "2": str(moment.day), "_2": f"{moment.day:2d}", "15": f"{moment.hour:02d}", "03": f"{hour:02d}",
        "3": str(hour), "04": f"{moment.minute:02d}", "4": str(moment.minute), "05": f"{moment.second:02d}",
        "5": str(moment.second), "PM": "PM" if moment.hour > 11 else "AM", "pm": "pm" if moment.hour > 11 else "am",
        "002": f"{moment.timetuple().tm_yday:03d}", "__2": f"{moment.timetuple().tm_yday:3d}",
        "MST": _zone_name(moment),
    }  # fmt: skip
    return texts[element]


def _zone_name(moment: datetime) -> str:
    """The zone's abbreviation; a bare offset has none and shows itself."""
    name = moment.tzname() or "UTC"
    return _zone(moment, "-0700") if ":" in name else name


def _zone(moment: datetime, element: str) -> str:
    seconds = int((moment.utcoffset() or timedelta()).total_seconds())
    if element[0] == "Z" and not seconds:
        return "Z"
    colon = ":" if ":" in element else ""
    parts = [f"{abs(seconds) // 3600:02d}", f"{abs(seconds) // 60 % 60:02d}", f"{abs(seconds) % 60:02d}"]
    count = len(re.findall("0[07]|00", element))
    return ("-" if seconds < 0 else "+") + colon.join(parts[:count])


def parse_moment(text: str, layout: str) -> datetime:
    """Read a moment in UTC unless the text names an offset. Raises: TemplateError."""
    if len(text) > 1000 or len(layout) > 1000:
        raise TemplateError("time or layout is too long")
    names: list[str] = []
    pattern = ""
    for element, piece in split_layout(layout):
        if element:
            names.append(piece)
            pattern += f"({_pattern(piece)})"
            pattern += r"(?:[.,]\d+)?" if piece in ("05", "5") else ""
        else:
            pattern += re.escape(piece)
    match = re.fullmatch(pattern, text, re.ASCII)
    if match is None:
        raise TemplateError(f"cannot parse {text[:100]!r} as {layout[:100]!r}")
    return _assemble(dict(zip(names, match.groups(), strict=True)))


def _pattern(element: str) -> str:
    if element in ("January", "Jan"):
        return "|".join(month if element == "January" else month[:3] for month in MONTHS)
    if element in ("Monday", "Mon"):
        return "|".join(day if element == "Monday" else day[:3] for day in DAYS)
    if element[0] in ".,":
        return r"[.,]\d+"
    if element[0] in "-Z":
        digits = r":?\d{2}" * (len(re.findall("0[07]|00", element)) - 1)
        return rf"{'Z|' if element[0] == 'Z' else ''}[+-]\d{{2}}{digits}"
    return _NUMBERS.get(element, "[A-Z]{3,4}" if element == "MST" else "[AaPp][Mm]")


def _assemble(found: dict[str, str]) -> datetime:
    parts = {_PARTS[name]: int(value) for name, value in found.items() if name in _PARTS}
    for name, value in found.items():
        if name in ("January", "Jan"):
            parts["month"] = [month[:3] for month in MONTHS].index(value[:3]) + 1
    if "year2" in parts:
        parts["year"] = parts["year2"] + (1900 if parts["year2"] >= 69 else 2000)
    hour = parts.get("hour", parts.get("hour12", 0))
    half = found.get("PM", found.get("pm", "")).upper()
    if "hour12" in parts and half:
        hour = hour % 12 + (12 if half == "PM" else 0)
    year = parts.get("year", 1) or 1
    try:
        moment = datetime(
            year, parts.get("month", 1), parts.get("day", 1), hour, parts.get("minute", 0), parts.get("second", 0),
            tzinfo=_offset(found),
        )  # fmt: skip
    except ValueError as error:
        raise TemplateError(f"time out of range: {error}") from error
    return moment


def _offset(found: dict[str, str]) -> timezone:
    text = next((value for name, value in found.items() if name[0] in "-Z" and name != "-"), "")
    digits = re.findall(r"\d{2}", text)
    if not digits:
        return UTC
    seconds = sum(int(part) * unit for part, unit in zip(digits, (3600, 60, 1), strict=False))
    return timezone(timedelta(seconds=-seconds if text[0] == "-" else seconds))
