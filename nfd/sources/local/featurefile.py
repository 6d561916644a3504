"""The format of feature files.

A line is `key`, which means `key=true`, or `key=value`; `#` starts a comment line. Comments `# +expiry-time=TIME`,
`# +no-label` and `# +no-feature` are directives. (NFD documentation, "Customization guide", feature files.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from nfd.host.blanks_and_numbers import BLANK

EXPIRY, NO_FEATURE, NO_LABEL = "expiry-time", "no-feature", "no-label"
DIRECTIVE = "# +"

_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_CYCLE = 400
"""Years after which the Gregorian calendar comes again."""
_CYCLE_SECONDS = 146097 * 86400


@dataclass(slots=True)
class Entries:
    """What a file says, and (line number, reason) for each invalid directive."""

    labels: dict[str, str] = field(default_factory=dict)
    features: dict[str, str] = field(default_factory=dict)
    notes: list[tuple[int, str]] = field(default_factory=list)


@dataclass(slots=True)
class _State:
    """Directives in force: an expiry time holds until the next one, the others for one entry that is not expired."""

    expired: bool = False
    no_feature: bool = False
    no_label: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One entry with what it is to become, or a directive with its problem; key and value are those of an entry."""

    number: int
    text: str
    key: str = ""
    value: str = ""
    is_label: bool = False
    is_feature: bool = False
    expired: bool = False
    problem: str = ""


def parse(text: str, now: float) -> Entries:
    """Read a file; `now` in seconds since the epoch decides what has expired."""
    entries = Entries()
    for line in lines_of(text, now):
        if line.problem:
            entries.notes.append((line.number, line.problem))
        elif not line.expired:
            _enter(entries, line)
    return entries


def lines_of(text: str, now: float) -> Iterator[Line]:
    """The entries of a file in order, and the directives that are wrong."""
    state = _State()
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        line = raw.strip(BLANK)
        if line.startswith(DIRECTIVE):
            if problem := _direct(state, line.removeprefix(DIRECTIVE), now):
                yield Line(number, line, problem=problem)
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            value = value if equals else "true"
            yield Line(number, line, key, value, not state.no_label, not state.no_feature, state.expired)
            if not state.expired:
                state.no_feature = state.no_label = False


def _direct(state: _State, directive: str, now: float) -> str | None:
    """Obey a directive, or say what is wrong with it; a wrong one changes nothing."""
    name, _, value = directive.partition("=")
    if name == NO_FEATURE:
        state.no_feature = True
    elif name == NO_LABEL:
        state.no_label = True
    elif name == EXPIRY:
        try:
            state.expired = parse_time(value.strip(BLANK)) < now
        except ValueError as error:
            return f"{EXPIRY}: {error}"
    else:
        return f"there is no directive {name!r}, only {EXPIRY}, {NO_FEATURE} and {NO_LABEL}"
    return None


def _enter(entries: Entries, line: Line) -> None:
    for wanted, target in ((line.is_feature, entries.features), (line.is_label, entries.labels)):
        if wanted:
            target[line.key] = line.value
        else:
            target.pop(line.key, None)


def parse_time(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time; raises ValueError.

    As NFD does, it takes an hour of one digit, a comma before the fraction, the year 0 and offsets up to 24:60.
    """
    match = _RFC3339.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        year, month, day, hour, minute, second = map(int, match.groups()[:6])
        fraction, sign, hours, minutes = match.groups()[6:]
        if int(hours or 0) > 24 or int(minutes or 0) > 60:
            raise ValueError
        whole = datetime(year or _CYCLE, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError as error:
        raise ValueError(f"{text!r} is not a time such as 2030-01-31T12:00:00Z") from error
    offset = 3600 * int(hours or 0) + 60 * int(minutes or 0)
    shift = (offset if sign == "-" else -offset) - (0 if year else _CYCLE_SECONDS)
    return whole + shift + float(f"0.{fraction or 0}")
