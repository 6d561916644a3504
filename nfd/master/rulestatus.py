"""The status of NodeFeatureRules and NodeFeatureGroups: how rules were understood and what they did (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from nfd.features import Features
from nfd.master.rulebook import Evaluation, PlacedRule, Sheet
from nfd.rules.terms import MATCHED

SAMPLE = 10
"""Node names that are listed by way of example."""
MOST_RULES = 500
MOST_PROBLEMS = 10
LONGEST_MESSAGE = 500
MOST_MEMBERS = 1000
"""Nodes that the status of a group lists."""

BUILT_IN = frozenset(
    (
        *("cpu.coprocessor", "cpu.cpuid", "cpu.cstate", "cpu.hardware_multithreading", "cpu.model", "cpu.pstate"),
        *("cpu.rdt", "cpu.security", "cpu.sgx", "cpu.sst", "cpu.topology", "kernel.config", "kernel.enabledmodule"),
        *(
            "kernel.loadedmodule",
            "kernel.selinux",
            "kernel.version",
            "local.feature",
            "local.label",
            "memory.hugepages",
        ),
        *("memory.numa", "memory.nv", "memory.swap", "network.device", "network.virtual", "pci.device"),
        *("storage.block", "system.dmiid", "system.name", "system.osrelease", "usb.device", MATCHED),
    )
)
"""What NFD's sources report (NFD documentation, "Available features"); offered for a name that is none of them."""


@dataclass(slots=True)
class _Count:
    """Some of the nodes, and how many there are."""

    nodes: int = 0
    sample: list[str] = field(default_factory=list)

    def add(self, node: str) -> None:
        self.nodes += 1
        if len(self.sample) < SAMPLE:
            self.sample.append(node)


class Tally:
    """What the rules did on all nodes together; nodes are added in the order of their names."""

    def __init__(self, rules: Sequence[PlacedRule]) -> None:
        self.nodes = 0
        self.known: set[str] = set()
        self._held = [_Count() for _ in rules]
        self._problems: list[dict[str, _Count]] = [{} for _ in rules]

    def add(self, node: str, evaluation: Evaluation, features: Features) -> None:
        self.nodes += 1
        self.known |= features.names()
        for index in evaluation.held:
            self._held[index].add(node)
        for index, texts in evaluation.problems.items():
            found = self._problems[index]
            for text in texts:
                if text in found or len(found) < MOST_PROBLEMS:
                    found.setdefault(text, _Count()).add(node)

    def held(self, index: int) -> _Count:
        return self._held[index]

    def problems(self, index: int) -> Mapping[str, _Count]:
        return self._problems[index]


def render_status(sheet: Sheet, first: int, tally: Tally, now: str) -> dict[str, Any]:
    """The status of one object; `first` is the place of its first rule among all, `now` a time as in RFC 3339."""
    names = {name.lower(): name for name in (*BUILT_IN, *tally.known)}
    reported = {name.lower() for name in tally.known} | {MATCHED}
    rules = [
        _render_rule(rule, first + index, tally, [*_unknown(rule, reported, names, tally.nodes)])
        for index, rule in enumerate(sheet.rules)
    ]
    whole = [{"name": "", "matched": 0, "problems": _texts(sheet.mistakes)}] if sheet.mistakes else []
    return {
        "observedGeneration": sheet.generation,
        "evaluated": now,
        "nodes": tally.nodes,
        "problems": sum(len(rule.get("problems", ())) for rule in (*whole, *rules)),
        "rules": [*whole, *rules][:MOST_RULES],
    }


def same_status(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether they say the same, the time apart."""
    return {**one, "evaluated": ""} == {**other, "evaluated": ""}


def _render_rule(rule: PlacedRule, place: int, tally: Tally, unknown: Iterable[str]) -> dict[str, Any]:
    held = tally.held(place)
    rendered: dict[str, Any] = {"name": rule.name, "matched": held.nodes}
    if held.sample:
        rendered["sample"] = held.sample
    problems = _texts((*rule.mistakes, *unknown))
    problems += [
        {"message": text[:LONGEST_MESSAGE], "nodes": count.nodes, "sample": count.sample}
        for text, count in tally.problems(place).items()
        if text not in rule.mistakes
    ]
    return rendered | ({"problems": problems[:MOST_PROBLEMS]} if problems else {})


def _texts(messages: Iterable[str]) -> list[dict[str, Any]]:
    return [{"message": text[:LONGEST_MESSAGE]} for text in messages]


def _unknown(rule: PlacedRule, reported: Collection[str], names: Mapping[str, str], nodes: int) -> Iterable[str]:
    """Features that no node reports, each with the nearest known name."""
    for feature in rule.features:
        if feature in reported or (not nodes and feature in names):
            continue
        close = [] if feature in names else get_close_matches(feature, names, n=1)
        advice = f"; did you mean {names[close[0]]}?" if close else ""
        yield f"feature {feature}: no node reports it{advice}"


def render_group(members: Collection[str]) -> dict[str, Any]:
    """The status of a NodeFeatureGroup."""
    listed = sorted(members)[:MOST_MEMBERS]
    return {
        "nodes": [{"name": name} for name in listed],
        "count": len(members),
        "truncated": len(listed) < len(members),
    }


def listed_nodes(status: Mapping[str, Any]) -> frozenset[str]:
    """The nodes that the status of a group names."""
    return frozenset(one.get("name", "") for one in status.get("nodes") or ())
