"""Snapshots of what `nfd plan` needs of a cluster, as files: lines of JSON, each an object of one kind.

The first line has the format and the settings. Reports of workers have the form of the master's `/reports`.
"""

from __future__ import annotations

import json
import zlib
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nfd import __version__
from nfd.cli.namespace_selector import ObjectDocuments
from nfd.cli.plan.cluster import ClusterDocuments, input_of
from nfd.cli.plan.model import Files, Json, PlanInput
from nfd.cli.rule_files import read_input
from nfd.config.overlay import Layer
from nfd.errors import ConfigError
from nfd.kube.check_responses import labels_of
from nfd.kube.selector import selects
from nfd.master.http.reports_api import TimedReport, parse_line, parse_state, render_report, render_state
from nfd.report import Report
from nfd.store.base import trim

FORMAT = 1
WORKER_CONFIG = "the workers' configuration in the snapshot"
_PACKED = b"\x1f\x8b"
_LARGEST = 2**31
"""Bytes of an unpacked file."""


def snapshot_input(path: str, selector: str, current: Files, new: Files, deleted: list[str]) -> PlanInput:
    """The input of a plan for the cluster in a snapshot. Raises: ConfigError."""
    found = read_snapshot(path, selector)
    given = input_of(found, current, new, deleted)
    return replace(given, warnings=(*given.warnings, *_uncertain_rules(new, found.replaced)))


def read_snapshot(path: str, selector: str) -> ClusterDocuments:
    """The cluster in a file, with the nodes that the selector selects. Raises: ConfigError."""
    found = parse_snapshot(_read(path), path)
    return found.for_nodes([node for node in found.nodes if selects(selector, labels_of(node))])


def render_snapshot(found: ClusterDocuments) -> Iterator[str]:
    """The lines of a file."""
    objects = found.objects
    yield _line(
        {
            "snapshot": FORMAT,
            "version": __version__,
            "settings": render_state(found.state),
            "worker": None if found.worker is None else {"configuration": found.worker.data},
            "replaced": {name: list(elements) for name, elements in found.replaced.items()},
            "namespaces": objects.namespaces,
            "doubt": objects.doubt,
        }
    )
    for name, item in sorted(found.rules.items()):
        yield _line({"rule": name, "document": item})
    yield from (_line({"object": item}) for item in objects.items)
    yield from (_line({"Node": node}) for node in found.nodes)
    numbers: dict[int, tuple[int, Any]] = {}
    for report in found.reports.values():
        yield from map(_line, render_report(TimedReport(report), numbers))


@dataclass(slots=True)
class _Lines:
    """What the lines after the first have."""

    rules: dict[str, Json] = field(default_factory=dict)
    objects: list[Json] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    reports: dict[str, Report] = field(default_factory=dict)
    contents: dict[int, Any] = field(default_factory=dict)

    def take(self, data: Any) -> None:
        """Raises: KeyError, TypeError, ValueError."""
        if "rule" in data:
            _mapping(_mapping(data["document"])["metadata"])
            self.rules[str(data["rule"])] = data["document"]
        elif "object" in data:
            _mapping(_mapping(data["object"])["metadata"])
            self.objects.append(data["object"])
        elif "Node" in data:
            if not trim(_mapping(data["Node"])).name:
                raise ValueError("metadata.name: is missing")
            self.nodes.append(data["Node"])
        elif (reported := parse_line(data, self.contents)) is not None:
            self.reports[reported.report.node] = reported.report


def parse_snapshot(data: bytes, name: str) -> ClusterDocuments:
    """The reverse of `render_snapshot`. Raises: ConfigError with file and line."""
    lines, number = _Lines(), 1
    first, *rest = data.split(b"\n")
    try:
        head = _mapping(json.loads(first))
        if (version := head.get("snapshot")) != FORMAT:
            raise ConfigError(f"{name}: is not a snapshot of format {FORMAT}: found {json.dumps(version)[:80]}")
        state, worker = parse_state(head["settings"]), head["worker"]
        namespaces, doubt, replaced = head["namespaces"], str(head["doubt"]), _texts(head["replaced"])
        layer = None if worker is None else Layer(WORKER_CONFIG, worker["configuration"])
        for line in rest:
            number += 1
            if line:
                lines.take(json.loads(line))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ConfigError(
            f"{name}:{number}: is not a line of a snapshot that `nfd export fleet` made: {reason}"
        ) from error
    objects = ObjectDocuments(lines.objects, namespaces, doubt)
    return ClusterDocuments(lines.nodes, lines.reports, state, lines.rules, objects, layer, replaced)


def _read(path: str) -> bytes:
    """Raises: ConfigError."""
    data = read_input(path)
    if not data.startswith(_PACKED):
        return data
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(data, _LARGEST)
    except zlib.error as error:
        raise ConfigError(f"{path}: is packed with gzip, and damaged: {error}") from error
    if not unpacker.eof:
        raise ConfigError(f"{path}: is packed with gzip, and {'too large' if unpacker.unconsumed_tail else 'cut off'}")
    return text


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected a mapping, found {type(value).__name__}")
    return value


def _texts(value: Any) -> dict[str, list[str]]:
    return {name: [str(one) for one in elements] for name, elements in _mapping(value).items()}


def _uncertain_rules(new: Files, replaced: Mapping[str, Any]) -> list[str]:
    """Rules that compare values which the snapshot has replaced."""
    found = []
    for name, item in (new.rules or {}).items():
        for rule in _list((item.get("spec") or {}).get("rules")):
            elements = {one for term in _terms(rule) for one in _compared(term, replaced)}
            if elements:
                found.append(
                    f"rule {rule.get('name')!r} of NodeFeatureRule {name} compares {', '.join(sorted(elements))}: "
                    "the snapshot has other values in their place, so the result may differ on the cluster"
                )
    return found


def _terms(rule: Json) -> Iterator[Json]:
    yield from _list(rule.get("matchFeatures"))
    for alternative in _list(rule.get("matchAny")):
        yield from _list(alternative.get("matchFeatures"))


def _compared(term: Json, replaced: Mapping[str, Any]) -> Iterator[str]:
    feature = str(term.get("feature"))
    elements = replaced.get(feature) or ()
    expressions = term.get("matchExpressions")
    for name, expression in expressions.items() if isinstance(expressions, Mapping) else ():
        operator = expression.get("op") if isinstance(expression, Mapping) else None
        if (name in elements and operator not in ("Exists", "DoesNotExist")) or "*" in elements:
            yield f"{feature}.{name}"
    if term.get("matchName") and "*" in elements:
        yield f"names of {feature}"


def _list(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def check_flags(args: Namespace, *others: str) -> None:
    """Raises: ConfigError for flags that a snapshot makes meaningless, and for `others` that were given."""
    names = ("replay", "current_rules", "kubeconfig", "context", "cluster", "user", "as_user", "token_file")
    given = [f"--{name.removesuffix('_user').replace('_', '-')}" for name in names if getattr(args, name, None)]
    if given := [*given, *others]:
        raise ConfigError(f"--cluster-snapshot cannot be combined with {', '.join(given)}")
