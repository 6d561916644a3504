"""docs/labels.md: all labels, from the docstrings of what makes them: `python -m tests.checks --write`.

The docstring of a source's `labels` and of each GPU labeler has a part `Labels…:` with lines `NAME = VALUES: MEANING`;
a line that is indented deeper continues the one before it. Several names have commas between them. A part in `<…>`
depends on the machine.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gfd.labels import LABELERS
from nfd.names import FEATURE_NS, NVIDIA_NS
from nfd.source import Source
from nfd.sources import BUILT_IN

NAME = "docs/labels.md"
NVIDIA = "nvidia"
_ROW = re.compile(r"^ {4}(\S.*?) = (.*?): (.*)$")
_HEAD = re.compile(r"^Labels\b.*:$")
_CONTINUED = " " * 8
_BLANK = re.compile(r"<[^>]*>")


@dataclass(frozen=True)
class Row:
    """A label, or a kind of labels; `key` may have blanks in `<…>`."""

    key: str
    values: str
    about: str
    source: str

    @property
    def is_anything(self) -> bool:
        """Whether it says nothing about the name."""
        return bool(_BLANK.fullmatch(self.key.rpartition("/")[2]))

    def covers(self, key: str) -> bool:
        parts = [re.escape(part) for part in _BLANK.split(self.key)]
        return re.fullmatch(r"[^/]+".join(parts), key) is not None


def rows() -> list[Row]:
    """In the order of sources and their docstrings."""
    found = [row for source in BUILT_IN for row in told(source.labels, source.name, prefix_of(source))]
    return found + [row for labeler in LABELERS for row in told(labeler, NVIDIA, f"{NVIDIA_NS}/")]


def prefix_of(source: Source) -> str:
    return f"{FEATURE_NS}/" if source.verbatim else f"{FEATURE_NS}/{source.name}-"


def told(makes: Callable[..., Any], source: str, prefix: str) -> Iterator[Row]:
    lines = (inspect.getdoc(makes) or "").splitlines()
    start = next((number for number, line in enumerate(lines) if _HEAD.match(line)), len(lines))
    for line in joined(lines[start + 1 :]):
        found = _ROW.match(line)
        assert found, f"{makes.__module__}.{makes.__qualname__}: not of the form NAME = VALUES: MEANING: {line!r}"
        for name in found[1].split(", "):
            for key, when in filled(name):
                yield Row(key if "/" in key else f"{prefix}{key}", found[2], f"{found[3]}{when}", source)


def joined(lines: Iterable[str]) -> list[str]:
    """The rows, each with the lines that continue it."""
    found: list[str] = []
    for line in lines:
        if found and line.startswith(_CONTINUED):
            found[-1] += f" {line.strip()}"
        else:
            found.append(line)
    return found


def filled(name: str) -> list[tuple[str, str]]:
    """MIG devices have two names, by strategy."""
    if "<devices>" not in name:
        return [(name, "")]
    ways = {"gpu": "single", "mig-<profile>": "mixed"}
    return [(name.replace("<devices>", one), f" (MIG strategy `{strategy}`)") for one, strategy in ways.items()]


def page() -> str:
    lines = [HEAD, "| label | values | meaning | source |", "| --- | --- | --- | --- |"]
    for row in sorted(rows(), key=lambda one: (one.source == NVIDIA, one.key.replace("<", "~"))):
        values = ", ".join(one if one in KINDS else f"`{one}`" for one in row.values.split(", "))
        lines.append(f"| `{row.key}` | {values} | {row.about} | {row.source} |")
    return "\n".join(lines) + "\n"


KINDS = ("text", "number")
HEAD = """# Labels

This page lists every label that the built-in feature sources create. `make generate` writes it from the docstrings of
the sources. A part in `<…>` depends on the machine, for example on the vendor of a device. If a feature is missing, the
node has no label for it. Some labels have the value `false` instead: the column *values* shows it.

NodeFeatureRules and NodeFeature objects create labels with other names ([rules.md](rules.md)).
`nfd explain NODE LABEL` shows which source, rule or object created a label. [consumers.md](consumers.md) lists pods and
operators that select nodes by these labels. [reference/nfd-worker.md](reference/nfd-worker.md) describes the options
that change these labels.
"""
