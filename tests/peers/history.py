"""What a Node carried after each change, and which keys were removed or changed back in between."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.e2e.nodes import Node

KINDS = ("labels", "annotations", "taints", "resources")
QUIET = 5.0
"""Seconds without a change after which a Node counts as settled, and for which it is observed longer."""
ENOUGH = 180.0


class Key(NamedTuple):
    """A key of a Node. A taint is named by key and effect."""

    kind: str
    name: str


State = Mapping[Key, str]


def state_of(node: Mapping[str, Any]) -> State:
    """The keys of a Node with their values."""
    found = {Key("labels", name): value for name, value in node["metadata"].get("labels", {}).items()}
    found |= {Key("annotations", name): value for name, value in node["metadata"].get("annotations", {}).items()}
    for taint in node["spec"].get("taints", ()):
        found[Key("taints", f"{taint['key']}:{taint['effect']}")] = taint.get("value", "")
    return found | {Key("resources", name): value for name, value in node["status"].get("capacity", {}).items()}


@dataclass(frozen=True)
class Moment:
    """A Node at a resourceVersion."""

    version: str
    state: State


def look(node: Node) -> Moment:
    found = node.object()
    return Moment(found["metadata"]["resourceVersion"], state_of(found))


def settled(node: Node) -> Moment:
    """The Node after it has not changed for `QUIET` seconds."""
    moment, since, began = look(node), time.monotonic(), time.monotonic()
    while time.monotonic() < since + QUIET:
        assert time.monotonic() < began + ENOUGH, f"{node.name} still changes after {ENOUGH} s"
        time.sleep(0.2)
        if (now := look(node)).version != moment.version:
            moment, since = now, time.monotonic()
    return moment


def states(node: Node, since: Moment) -> list[State]:
    """The Node at that moment, and after each change since."""
    query = f"watch=1&resourceVersion={since.version}&timeoutSeconds=1&fieldSelector=metadata.name%3D{node.name}"
    events = [json.loads(line) for line in node.plane.text("GET", f"/api/v1/nodes?{query}").splitlines()]
    assert {event["type"] for event in events} <= {"MODIFIED"}, events
    return [since.state, *(state_of(event["object"]) for event in events)]


def removed(history: Sequence[State], keys: frozenset[Key]) -> frozenset[Key]:
    """Those that were absent in a state."""
    return frozenset(key for state in history for key in keys - state.keys())


def changed_back(history: Sequence[State], keys: frozenset[Key]) -> frozenset[Key]:
    """Those whose value came back after another one."""
    found = set()
    for key in keys:
        values = [state[key] for state in history if key in state]
        distinct = [value for at, value in enumerate(values) if at == 0 or values[at - 1] != value]
        if len(distinct) != len(set(distinct)):
            found.add(key)
    return frozenset(found)
