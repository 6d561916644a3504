"""The base of all configuration models, and the field types they share."""

from __future__ import annotations

import re
from typing import Annotated, Any

import re2
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel

NANOSECONDS = 1_000_000_000
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


class Section(BaseModel):
    """A frozen part of the configuration; YAML keys are the camelCase of the field names."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        arbitrary_types_allowed=True,
        extra="ignore",
    )


def parse_duration(value: Any) -> float:
    """Seconds from Go's duration text (`1h30m`, `500ms`), or from a bare number of nanoseconds as NFD reads it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("expected a duration such as 60s or 1h30m")
    if isinstance(value, int | float):
        return value / NANOSECONDS
    sign, text = (-1.0, value[1:]) if value.startswith("-") else (1.0, value.removeprefix("+"))
    if text == "0":
        return 0.0
    parts = list(_PART.finditer(text))
    if not parts or "".join(part.group(0) for part in parts) != text:
        raise ValueError(f"{value!r} is not a duration such as 60s or 1h30m")
    return sign * sum(float(part.group(1)) * _UNITS[part.group(2)] for part in parts)


def parse_pattern(value: Any) -> Any:
    """An RE2 pattern; the empty one matches everything."""
    if not isinstance(value, str):
        return value
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(value, options)
    except re2.error as error:
        raise ValueError(f"{value!r} is not a regular expression (RE2): {error}") from error


def _seconds_to_text(seconds: float) -> str:
    return f"{seconds:g}s"


Duration = Annotated[float, BeforeValidator(parse_duration), PlainSerializer(_seconds_to_text)]
"""A time span in seconds."""

Pattern = Annotated[Any, BeforeValidator(parse_pattern), PlainSerializer(lambda pattern: pattern.pattern)]
"""A compiled RE2 pattern, searched unanchored."""
