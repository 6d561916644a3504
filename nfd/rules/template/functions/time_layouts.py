"""Go's time layouts, `2006-01-02 15:04:05` as a pattern: a moment shown by one, and read by one piece by piece.

Upstream: Go time/format.go.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta, timezone

from nfd.rules.template.values import TemplateError

MONTHS = tuple("January February March April May June July August September October November December".split())  # noqa: SIM905
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_ELEMENTS = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|Z07:00:00|Z07:00|Z070000|Z0700|Z07|-07:00:00|-07:00|-070000|-0700|-07"
    r"|[.,]0+(?![0-9])|[.,]9+(?![0-9])|002|01|02|03|04|05|06|__2|_2(?!006)|15|PM|pm|1|2|3|4|5"
)
_LONGEST = 1000
_FRACTION = re.compile(r"[.,][0-9]+", re.ASCII)
_SIGNED_HOURS = r"[+-](?:2[0-3]|[01]?[0-9])(?![0-9])"
_ZONE_NAME = re.compile(
    rf"ChST|MeST|GMT(?:{_SIGNED_HOURS})?|{_SIGNED_HOURS}|(?:WITA|[A-Z]{{4}}T|[A-Z]{{3}}T|[A-Z]{{3}})(?![A-Z])", re.ASCII
)
_OFFSETS = {
    "07": r"[+-]([0-9]{2})",
    "0700": r"[+-]([0-9]{2})([0-9]{2})",
    "07:00": r"[+-]([0-9]{2}):([0-9]{2})",
    "070000": r"[+-]([0-9]{2})([0-9]{2})([0-9]{2})",
    "07:00:00": r"[+-]([0-9]{2}):([0-9]{2}):([0-9]{2})",
}


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
    if len(text) > _LONGEST or len(layout) > _LONGEST:
        raise TemplateError("time or layout is too long")
    reader = _Reader(text)
    try:
        reader.read(split_layout(layout))
        return reader.moment()
    except ValueError as error:
        raise TemplateError(f"cannot parse {text[:100]!r} as {layout[:100]!r}: {error}") from error


class _Reader:
    """What is left of the text, and what has been read of it. All methods raise ValueError for what does not fit."""

    def __init__(self, text: str) -> None:
        self._left = text
        self._found: dict[str, int] = {}
        self._half = ""
        self._is_utc = False
        self._offset: int | None = None
        self._zone = ""

    def read(self, pieces: list[tuple[bool, str]]) -> None:
        for place, (is_element, piece) in enumerate(pieces):
            if not is_element:
                self._skip(piece)
                continue
            self._element(piece)
            following = next((text for known, text in pieces[place + 1 :] if known), " ")
            if piece in ("05", "5") and following[0] not in ".,":
                self._fraction()
        if self._left:
            raise ValueError(f"extra text {self._left[:40]!r}")

    def _skip(self, expected: str) -> None:
        """Text between the elements; any number of blanks stands for any number."""
        for part in re.findall(r" +|[^ ]+", expected):
            if part[0] == " ":
                if self._left and self._left[0] != " ":
                    raise ValueError("blank expected")
                self._left = self._left.lstrip(" ")
            else:
                if not self._left.startswith(part):
                    raise ValueError(f"{part!r} expected")
                self._left = self._left[len(part) :]

    def _take(self, pattern: str | re.Pattern[str]) -> re.Match[str]:
        match = re.match(pattern, self._left)
        if match is None:
            raise ValueError(f"{self._left[:40]!r} does not fit")
        self._left = self._left[match.end() :]
        return match

    def _element(self, element: str) -> None:
        if element[0] in ".,":
            self._fraction(len(element) if element[1] == "0" else None)
        elif element[0] in "-Z":
            self._numeric_zone(element)
        elif element == "MST":
            self._named_zone()
        elif element in _NUMBERS:
            name, pattern, low, high = _NUMBERS[element]
            self._store(name, int(self._take(pattern)[0]), low, high)
        else:
            _WORDS[element](self)

    def _store(self, name: str, value: int, low: int, high: int) -> None:
        if not low <= value <= high:
            raise ValueError(f"{name} out of range")
        self._found[name] = value

    def year_of_century(self) -> None:
        year = int(self._take(r"[0-9]{2}")[0])
        self._found["year"] = year + (1900 if year >= 69 else 2000)

    def half(self, names: str) -> None:
        self._half = self._take(names)[0].upper()

    def word(self, names: Iterable[str], field: str | None) -> None:
        """One of the names, in capital or small letters."""
        for number, name in enumerate(names, 1):
            if self._left[: len(name)].lower() == name.lower():
                self._left = self._left[len(name) :]
                if field:
                    self._found[field] = number
                return
        raise ValueError(f"{self._left[:40]!r} is no name")

    def _fraction(self, length: int | None = None) -> None:
        """A fraction of a second: of that many letters, or of any number of them, none included."""
        match = _FRACTION.match(self._left)
        if length is None and match is None:
            return
        if match is None or (length is not None and len(match[0]) < length):
            raise ValueError("fraction of a second expected")
        digits = match[0][1:length]
        self._found["microsecond"] = int(digits[:6].ljust(6, "0"))
        self._left = self._left[1 + len(digits) :]

    def _numeric_zone(self, element: str) -> None:
        if element[0] == "Z" and self._left.startswith("Z"):
            self._left = self._left[1:]
            self._is_utc = True
            return
        match = self._take(_OFFSETS[element[1:]])
        hours, minutes, seconds = [*map(int, match.groups()), 0, 0][:3]
        if hours > 24 or minutes > 60 or seconds > 60:
            raise ValueError("time zone offset out of range")
        total = (hours * 60 + minutes) * 60 + seconds
        self._offset = -total if match[0][0] == "-" else total

    def _named_zone(self) -> None:
        if self._left.startswith("UTC"):
            self._left = self._left[3:]
            self._is_utc = True
            return
        self._zone = self._take(_ZONE_NAME)[0]

    def moment(self) -> datetime:
        """All that has been read, as a moment."""
        found = self._found
        year = found.get("year") or 1
        hour = found.get("hour", 0)
        if self._half == "PM" and hour < 12:
            hour += 12
        elif self._half == "AM" and hour == 12:
            hour = 0
        month, day = self._day_of(year)
        clock = found.get("minute", 0), found.get("second", 0), found.get("microsecond", 0)
        when = datetime(year, month, day, hour, *clock, tzinfo=UTC)
        if self._is_utc:
            return when
        return when.astimezone(self._named_only()) if self._offset is None else when.replace(tzinfo=self._by_offset())

    def _day_of(self, year: int) -> tuple[int, int]:
        month, day = self._found.get("month", 1), self._found.get("day", 1)
        if (number := self._found.get("yday")) is not None:
            if not 1 <= number <= 365 + isleap(year):
                raise ValueError("day of year out of range")
            when = date(year, 1, 1) + timedelta(days=number - 1)
            if self._found.get("month", when.month) != when.month or self._found.get("day", when.day) != when.day:
                raise ValueError("day of year does not match the day")
            return when.month, when.day
        if not 1 <= day <= monthrange(year, month)[1]:
            raise ValueError("day out of range")
        return month, day

    def _by_offset(self) -> timezone:
        """The zone of an offset; a name beside it is its name."""
        if not self._offset and self._zone in ("", "UTC"):
            return UTC
        away = timedelta(seconds=self._offset or 0)
        return timezone(away, self._zone) if self._zone else timezone(away)

    def _named_only(self) -> timezone:
        """The zone of a name without an offset: UTC by that name, but for `GMT+3`; the time read is UTC in any case."""
        if not self._zone:
            return UTC
        hours = int(self._zone[3:]) if self._zone.startswith("GMT") and len(self._zone) > 3 else 0
        return timezone(timedelta(hours=hours), self._zone)


_TWO, _ONE_OR_TWO = r"[0-9]{2}", r"[0-9]{1,2}"
_NUMBERS = {
    "2006": ("year", r"[0-9]{4}", 0, 9999),
    "01": ("month", _TWO, 1, 12),
    "1": ("month", _ONE_OR_TWO, 1, 12),
    "02": ("day", _TWO, 0, 99),
    "2": ("day", _ONE_OR_TWO, 0, 99),
    "_2": ("day", rf" ?{_ONE_OR_TWO}", 0, 99),
    "002": ("yday", r"[0-9]{3}", 0, 999),
    "__2": ("yday", r" {0,2}[0-9]{1,3}", 0, 999),
    "15": ("hour", _ONE_OR_TWO, 0, 23),
    "03": ("hour", _TWO, 0, 12),
    "3": ("hour", _ONE_OR_TWO, 0, 12),
    "04": ("minute", _TWO, 0, 59),
    "4": ("minute", _ONE_OR_TWO, 0, 59),
    "05": ("second", _TWO, 0, 59),
    "5": ("second", _ONE_OR_TWO, 0, 59),
}
"""Elements that are numbers: what they tell, how they look, and their least and largest value."""

_WORDS: dict[str, Callable[[_Reader], None]] = {
    "06": _Reader.year_of_century,
    "Jan": lambda reader: reader.word((name[:3] for name in MONTHS), "month"),
    "January": lambda reader: reader.word(MONTHS, "month"),
    "Mon": lambda reader: reader.word((name[:3] for name in DAYS), None),
    "Monday": lambda reader: reader.word(DAYS, None),
    "PM": lambda reader: reader.half("AM|PM"),
    "pm": lambda reader: reader.half("am|pm"),
}
