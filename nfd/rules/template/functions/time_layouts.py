"""Go's time layouts: `2006-01-02 15:04:05` as a pattern; `time_parsing` reads by them; upstream: Go time/format.go."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

MONTHS = tuple("January February March April May June July August September October November December".split())  # noqa: SIM905
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_ELEMENTS = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|Z07:00:00|Z07:00|Z070000|Z0700|Z07|-07:00:00|-07:00|-070000|-0700|-07"
    r"|[.,]0+(?![0-9])|[.,]9+(?![0-9])|002|01|02|03|04|05|06|__2|_2(?!006)|15|PM|pm|1|2|3|4|5"
)


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
