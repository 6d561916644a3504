"""Where a report is in the order of its node's reports, and digests of what it says: enough to compare two of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from nfd.features import Features
from nfd.report import Report


@dataclass(frozen=True, slots=True)
class Stamp:
    """`labels` and `content` are digests: of the labels with their origins, and of all that the report says."""

    boot: str
    started: int
    sequence: int
    labels: str
    content: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A worker got an answer to this report at that monotonic time."""

    node: str
    stamp: Stamp
    at: float


def stamp_of(report: Report) -> Stamp:
    order = report.order
    labels = digest([sorted(report.labels.items()), sorted(report.origins.items())])
    states = sorted((name, state.state) for name, state in report.sources.items())
    content = digest([labels, states, _plain(report.features)])
    if order is None:
        return Stamp("", 0, 0, labels, content)
    return Stamp(order.boot_id, order.started, order.sequence, labels, content)


def write_line(one: Acknowledged) -> bytes:
    stamp = one.stamp
    words = [one.node, stamp.boot, stamp.started, stamp.sequence, stamp.labels, stamp.content, one.at]
    return json.dumps(words).encode() + b"\n"


def read_line(line: bytes) -> Acknowledged:
    node, *stamp, at = json.loads(line)
    return Acknowledged(node, Stamp(*stamp), at)


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _plain(features: Features) -> Any:
    flags = {name: sorted(found) for name, found in features.flags.items()}
    attributes = {name: dict(found) for name, found in features.attributes.items()}
    instances = {name: [dict(one) for one in found] for name, found in features.instances.items()}
    return [flags, attributes, instances]
