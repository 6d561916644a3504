"""Metrics and their text forms: Prometheus and OpenMetrics (Prometheus documentation, "Exposition formats")."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from nfd.runtime.failures import COUNTS

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[str, Mapping[str, str], float]
"""Suffix, labels, value: `("_total", {}, 3)`."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


class Histogram:
    """How often something took how long; `bounds` are upper ones, in seconds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._seconds = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._seconds += seconds

    def samples(self, labels: Mapping[str, str]) -> Iterator[Sample]:
        """Those of a family of the kind `histogram`."""
        for bound, count in zip((*map(str, self._bounds), "+Inf"), accumulate(self._counts), strict=True):
            yield "_bucket", {**labels, "le": bound}, count
        yield "_sum", labels, self._seconds
        yield "_count", labels, sum(self._counts)


def render(families: Iterable[Family], *, openmetrics: bool) -> str:
    """OpenMetrics 1.0 or the Prometheus text format 0.0.4, which names a counter with its `_total`."""
    lines: list[str] = []
    for family in families:
        name = family.name if openmetrics or family.kind != "counter" else f"{family.name}_total"
        lines += [f"# HELP {name} {_escape(family.help)}", f"# TYPE {name} {family.kind}"]
        lines += [f"{family.name}{suffix}{_labels(labels)} {value!r}" for suffix, labels, value in family.samples]
    return "\n".join([*lines, "# EOF\n" if openmetrics else ""])


def _labels(labels: Mapping[str, str]) -> str:
    text = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return f"{{{text}}}" if text else ""


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def gauge(name: str, about: str, values: float | Mapping[str, float], label: str = "") -> Family:
    """One value or, with a `label`, one for each value of that."""
    return Family(name, "gauge", about, _samples("", values, label))


def counter(name: str, about: str, counts: float | Mapping[str, float], label: str = "") -> Family:
    """As `gauge`."""
    return Family(name, "counter", about, _samples("_total", counts, label))


def _samples(suffix: str, values: float | Mapping[str, float], label: str) -> list[Sample]:
    if isinstance(values, Mapping):
        return [(suffix, {label: key}, value) for key, value in values.items()]
    return [(suffix, {}, values)]


def build_family(prefix: str, version: str, started: float) -> Family:
    """`build_info`, as NFD's programs have it."""
    about = "The label is the version of the program. The value is its start time, in seconds since 1970."
    return gauge(f"{prefix}build_info", about, {version: started}, "version")


def failures_family(prefix: str) -> Family:
    """How often the parts of this process failed in a way that was not foreseen, by part."""
    about = "Unexpected errors by task. The program continues. Its log contains the traceback."
    return counter(f"{prefix}task_failures", about, dict(sorted(COUNTS.items())), "task")
