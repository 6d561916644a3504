"""The plans of many nodes as one list of changes, by key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from nfd.cli.plan.model import PlannedNode
from nfd.cli.terminal_tables import Style
from nfd.master.node.plan import NodePlan
from nfd.message_text import visible
from nfd.store.base import Kind

_SIGNS = {"add": "+", "change": "~", "remove": "-"}
_SHOWN = 4
"""The most values that are listed; more are counted."""


@dataclass(slots=True)
class Row:
    """One key that is added, changed or removed, with its values before and after and the nodes."""

    kind: Kind
    key: str
    what: str
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)


def rows_of(outcomes: Iterable[PlannedNode]) -> list[Row]:
    """The rows by kind and key."""
    found: dict[tuple[Kind, str, str], Row] = {}
    for outcome in outcomes:
        for kind, key, what, before, now in changes_of(outcome.planned):
            row = found.setdefault((kind, key, what), Row(kind, key, what))
            row.nodes.append(outcome.planned.node.name)
            if before is not None:
                row.before.append(before)
            if now is not None:
                row.after.append(now)
    order = list(Kind)
    return sorted(found.values(), key=lambda row: (order.index(row.kind), row.key, row.what))


def changes_of(planned: NodePlan) -> Iterator[tuple[Kind, str, str, str | None, str | None]]:
    """Kind, key, `add` `change` or `remove`, value before, value after."""
    for kind, change in planned.changes.items():
        actual = planned.node.actual(kind)
        for key, value in change.write.items():
            yield kind, key, "change" if key in actual else "add", actual.get(key), value
        for key in change.remove:
            yield kind, key, "remove", actual[key], None


def to_json(outcomes: Sequence[PlannedNode], warnings: Sequence[str]) -> dict[str, Any]:
    """Every node that would change, rejected keys, and warnings."""
    nodes: dict[str, Any] = {}
    for outcome in outcomes:
        found: dict[str, Any] = {}
        for kind, key, what, before, now in changes_of(outcome.planned):
            values = {"before": before, "after": now}
            found.setdefault(kind.value, {}).setdefault(what, {})[key] = {
                name: value for name, value in values.items() if value is not None
            }
        if found:
            nodes[outcome.planned.node.name] = found
    refused = [
        {"kind": kind, "key": key, "reason": reason, "nodes": names}
        for (kind, key, reason), names in not_done(outcomes)
    ]
    return {"nodes": nodes, "notDone": refused, "warnings": list(warnings)}


def not_done(outcomes: Iterable[PlannedNode]) -> list[tuple[tuple[str, str, str], list[str]]]:
    """Keys that are requested but would not be set, by kind, key and reason, with the nodes."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for outcome in outcomes:
        name = outcome.planned.node.name
        for one in outcome.dropped:
            found.setdefault((one.kind, one.key, one.reason), []).append(name)
        for kind, change in outcome.planned.changes.items():
            for key in change.refused:
                found.setdefault((kind.value, key, "owned by another manager"), []).append(name)
    return sorted(found.items())


def as_text(outcomes: Sequence[PlannedNode], warnings: Sequence[str], style: Style, *, wide: bool) -> str:
    """A line for each key, with the number of nodes, or with `wide` their names."""
    rows = rows_of(outcomes)
    width = max((len(_change(row)) for row in rows), default=0)
    blocks = []
    for kind in Kind:
        lines = [f"  {_line(row, width, style, wide=wide)}" for row in rows if row.kind is kind]
        if lines:
            blocks.append("\n".join([style.head(kind.value), *lines]))
    refused = [
        f"  {visible(f'{kind} {key}: {reason}')}  {_nodes(names, wide=wide)}"
        for (kind, key, reason), names in not_done(outcomes)
    ]
    if refused:
        blocks.append("\n".join([style.head("not done"), *refused]))
    if warnings:
        blocks.append("\n".join(style.warn(f"warning: {visible(one)}") for one in warnings))
    return "\n\n".join([*blocks, style.dim(_sum(rows, outcomes))]) + "\n"


def as_markdown(outcomes: Sequence[PlannedNode], warnings: Sequence[str]) -> str:
    """The same for a comment in a pull request: a table of keys, and lists of what is not done and of warnings."""
    rows = rows_of(outcomes)
    blocks = [f"**nfd plan:** {_sum(rows, outcomes)}"]
    if rows:
        lines = [
            _cells(
                _SIGNS[row.what], row.kind.value, _code(row.key), _codes(row.before), _codes(row.after), len(row.nodes)
            )
            for row in rows
        ]
        head = _cells("", "Kind", "Key", "Before", "After", "Nodes")
        blocks.append("\n".join([head, "| --- | --- | --- | --- | --- | ---: |", *lines]))
    if refused := not_done(outcomes):
        reasons = [
            f"- {kind} {_code(key)}: {_code(reason)} ({_nodes(names, wide=False)})"
            for (kind, key, reason), names in refused
        ]
        blocks.append("\n".join(["**Not done**", "", *reasons]))
    if warnings:
        blocks.append("\n".join(["**Warnings**", "", *(f"- {_code(one)}" for one in warnings)]))
    return "\n\n".join(blocks) + "\n"


def _cells(*texts: object) -> str:
    return " | ".join(["", *(str(text).replace("|", "\\|") for text in texts), ""]).strip()


def _codes(values: Sequence[str]) -> str:
    found = sorted(set(values))
    return ", ".join(map(_code, found)) if len(found) <= _SHOWN else f"{len(found)} values"


def _code(text: str) -> str:
    """A text as code, in which nothing is a link or a mention."""
    text = visible(text)
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`" if text else ""


def _line(row: Row, width: int, style: Style, *, wide: bool) -> str:
    paint = {"add": style.value, "change": style.warn, "remove": style.bad}[row.what]
    return f"{paint(f'{_change(row):{width}}')}  {_nodes(row.nodes, wide=wide)}"


def _change(row: Row) -> str:
    before, now = _values(row.before), _values(row.after)
    value = now if row.what == "add" else f"{before} → {now}" if row.what == "change" else before
    return f"{_SIGNS[row.what]} {visible(row.key)}" + (f"={value}" if value else "")


def _values(values: Sequence[str]) -> str:
    found = sorted(set(values))
    return visible(",".join(found)) if len(found) <= _SHOWN else f"({len(found)} values)"


def _nodes(names: Sequence[str], *, wide: bool) -> str:
    count = "1 node" if len(names) == 1 else f"{len(names)} nodes"
    return f"{count}: {' '.join(sorted(names))}" if wide else count


def _sum(rows: Sequence[Row], outcomes: Sequence[PlannedNode]) -> str:
    changed = {name for row in rows for name in row.nodes}
    counts = {what: sum(len(row.nodes) for row in rows if row.what == what) for what in _SIGNS}
    return (
        f"{len(changed)} of {len(outcomes)} nodes change: "
        f"{counts['add']} added, {counts['change']} changed, {counts['remove']} removed"
    )
