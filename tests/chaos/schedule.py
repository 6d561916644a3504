"""What happens when: from a seed, with no look at anything that happens (pure)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FAULTS = {
    "master killed": (4, 1, 8),
    "master terminated": (4, 1, 6),
    "master stopped": (4, 2, 15),
    "worker process killed": (8, 1, 6),
    "worker process terminated": (5, 1, 6),
    "worker process stopped": (6, 2, 15),
    "API server killed": (3, 1, 4),
    "API server terminated": (3, 1, 4),
    "workers cut off from all masters": (6, 2, 15),
    "master cut off from all workers": (3, 2, 12),
    "master cut off from the API server": (4, 2, 15),
    "connections to the API server reset": (4, 0, 0),
    "API answers 500": (3, 1, 6),
    "API answers 503": (3, 1, 6),
    "API answers 429": (3, 1, 6),
    "API answers 504": (3, 1, 6),
    "API answers 409 to patches": (3, 1, 6),
    "API answers 401": (3, 1, 4),
    "API answers 410 between pages and to watches": (3, 1, 6),
    "API lists hang": (3, 2, 12),
    "API hangs": (3, 2, 10),
    "API is slow to hear": (4, 2, 10),
    "API is slow to answer": (4, 2, 10),
    "connection cut before a patch": (4, 1, 6),
    "connection cut after a patch": (4, 1, 6),
    "answer cut in half": (3, 1, 6),
    "answer is no JSON": (3, 1, 5),
    "answer is JSON but no list": (6, 1, 6),
    "watch event is no object": (3, 1, 5),
    "clock of a master stepped": (3, 3, 20),
    "clock of a worker process stepped": (3, 3, 20),
    "source spoilt": (25, 3, 25),
    "admission refuses the keys of a rule": (4, 5, 20),
    "rule is hostile": (4, 3, 15),
    "masters cut off from each other": (4, 2, 20),
    "follower is slow": (4, 5, 30),
    "replication stream reset": (3, 0, 0),
    "snapshot spoilt while its master is down": (5, 1, 8),
    "master restarted as another release": (5, 1, 6),
}
"""Weight, shortest and longest duration in seconds."""
NEIGHBOURS = ("admission refuses the keys of a rule", "rule is hostile")
"""Faults that come as objects of the cluster."""
REPORTS_PASS = (*NEIGHBOURS, "source spoilt", "API answers 409 to patches", "watch event is no object")
"""Faults that keep no report from a leader."""
CHANGES = {
    "device plugged or unplugged": 30,
    "release changed": 12,
    "feature file changed": 20,
    "rule put": 3,
    "rule deleted": 2,
    "foreign key written": 14,
    "machine changed while its worker was away": 3,
    "node recreated": 5,
    "node recreated after a reboot": 3,
    "machine rebooted": 3,
    "list annotations poisoned": 6,
}
"""Weights of what really changes."""
CREW_ENDS = ("machine changed while its worker was away", "node recreated after a reboot", "machine rebooted")
"""Changes at which the worker's process ends and starts."""
FAULT_EVERY, CHANGE_EVERY = 2.2, 0.4
"""Mean seconds between two faults, and between two changes."""


@dataclass(frozen=True, slots=True)
class Event:
    """`target` chooses whom it hits and `detail` the rest, by remainder; `seconds` is how long it lasts."""

    at: float
    kind: str
    target: int
    seconds: float
    detail: int


def make_schedule(seed: int, seconds: float) -> tuple[Event, ...]:
    """Everything that will happen in that time, in order; what lasts is over by then."""
    random_faults, random_changes = random.Random(f"faults {seed}"), random.Random(f"changes {seed}")
    weights = {kind: weight for kind, (weight, _, _) in FAULTS.items()}
    faults = (
        Event(at, kind, target, min(random_faults.uniform(*FAULTS[kind][1:]), seconds - at), detail)
        for at, kind, target, detail in _draw(random_faults, weights, FAULT_EVERY, seconds)
    )
    changes = (
        Event(at, kind, target, 0.0, detail)
        for at, kind, target, detail in _draw(random_changes, CHANGES, CHANGE_EVERY, seconds)
    )
    return tuple(sorted((*faults, *changes), key=lambda event: event.at))


def digest(events: tuple[Event, ...]) -> str:
    """Of two runs with the same one, the same faults were meant to happen at the same times."""
    return hashlib.sha256(repr(events).encode()).hexdigest()[:12]


def _draw(
    source: random.Random, weights: Mapping[str, int], every: float, seconds: float
) -> Iterator[tuple[float, str, int, int]]:
    at = 0.0
    while (at := at + source.expovariate(1 / every)) < seconds:
        kind = source.choices(list(weights), list(weights.values()))[0]
        yield at, kind, source.getrandbits(32), source.getrandbits(32)
