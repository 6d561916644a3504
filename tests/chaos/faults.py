"""Carries out the faults of the schedule. Each function answers how to undo it, or None if it could not be done now."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.fleet import Fleet, Undo, Unit
from tests.chaos.master import NEWER, OLDER, THIS
from tests.chaos.relay import BOTH, Relay, Way
from tests.chaos.schedule import Event
from tests.chaos.snapshots import spoil
from tests.faults.proxy import Fault, FaultProxy, Rule
from tests.faults.trouble import (
    NO_EVENTS,
    NO_LISTS,
    answer,
    cut,
    cut_after,
    cut_half,
    delay,
    garbage,
    hang,
    late,
    no_event,
    no_list,
    too_old,
)

RELEASE = "master restarted as another release"
Filters = Mapping[str, Any]
SIGNALS = {"killed": signal.SIGKILL, "terminated": signal.SIGTERM}
API_REST = 20.0
"""Seconds between two restarts of the API server, which needs some to get ready."""
STEPS = (-400 * 86400.0, -7200.0, -90.0, 90.0, 7200.0, 400 * 86400.0)
RATES = (1_000, 3_000, 10_000)
"""Bytes in a second of a slow stream, on which a TLS handshake takes 4 kB."""
LATENCY = 0.5
"""Seconds that a piece of a slow stream takes at most."""

ANY: Filters = {}
CALLS: Filters = {"watch": False}
LISTS: Filters = {"method": "GET", "path": r"/(nodes|namespaces|nodefeature\w+)(\?|$)", "watch": False}
PATCHES: Filters = {"method": "PATCH", "path": "/nodes/"}
ANSWERS: Mapping[str, tuple[tuple[Callable[[random.Random], Fault], Filters], ...]] = {
    "API answers 500": ((lambda dice: answer(500), ANY),),
    "API answers 503": ((lambda dice: answer(503), ANY),),
    "API answers 429": ((lambda dice: answer(429, retry_after=dice.randint(1, 3)), ANY),),
    "API answers 504": ((lambda dice: answer(504), ANY),),
    "API answers 409 to patches": ((lambda dice: answer(409), PATCHES),),
    "API answers 401": ((lambda dice: answer(401), ANY),),
    "API answers 410 between pages and to watches": (
        (lambda dice: too_old, {"watch": True}),
        (lambda dice: answer(410), {"method": "GET", "path": "continue="}),
    ),
    "API lists hang": ((lambda dice: hang, {"method": "GET", "path": r"(nodes|nodefeature\w+)\?", "watch": False}),),
    "API hangs": ((lambda dice: hang, ANY),),
    "API is slow to hear": ((lambda dice: delay(dice.uniform(0.2, 4)), ANY),),
    "API is slow to answer": ((lambda dice: late(dice.uniform(0.2, 4)), CALLS),),
    "connection cut before a patch": ((lambda dice: cut, PATCHES),),
    "connection cut after a patch": ((lambda dice: cut_after, PATCHES),),
    "answer cut in half": ((lambda dice: cut_half, ANY),),
    "answer is no JSON": ((lambda dice: garbage, CALLS),),
    "answer is JSON but no list": ((lambda dice: no_list(dice.choice(NO_LISTS)), LISTS),),
    "watch event is no object": ((lambda dice: no_event(dice.choice(NO_EVENTS)), {"watch": True}),),
}


@dataclass
class Faults:
    """`restarts` counts, per kind of process, how often one was started; `restarted` is called for API servers."""

    fleet: Fleet
    restarts: dict[str, int]
    restarted: Callable[[], None]
    details: Counter[str] = field(default_factory=Counter)
    """What exactly was done, as far as the kind does not say it."""
    _api_rests_until: float = 0.0
    _streams: set[str] = field(default_factory=set)
    """Streams between masters that are disturbed."""

    def begin(self, event: Event) -> Undo | None:
        """Raises: KeyError for what is no fault of a process, the network or the API server."""
        kind, dice = event.kind, random.Random(event.detail)
        unit = self._unit(event)
        if kind.startswith("API server"):
            return self._restart_api(kind.split()[-1])
        if kind in ANSWERS:
            return self._answers(event, dice)
        if kind == "connections to the API server reset":
            return self._reset(unit)
        if kind == "master cut off from the API server":
            return self._freeze(unit)
        if kind in ("masters cut off from each other", "follower is slow", "replication stream reset"):
            return self._disturb_streams(unit, kind, dice)
        if unit.busy or not unit.program.alive():
            return None
        if kind == "snapshot spoilt while its master is down":
            return self._spoil_snapshot(unit, dice)
        if kind == RELEASE:
            return self._change_release(unit, dice)
        return unit.hold(self._disturb(unit, kind.split()[-1], dice))

    def whom(self, event: Event) -> str:
        """The process that it hits; "" if that is the API server."""
        return "" if event.kind.startswith("API server") else self._unit(event).name

    def _unit(self, event: Event) -> Unit:
        """A master of another release is the next one whose release changes: it becomes this one again."""
        units = self.fleet.crews if event.kind.startswith(("worker", "clock of a worker")) else self.fleet.masters
        if event.kind == RELEASE and (others := [unit for unit in units if unit.release != THIS]):
            return others[0]
        return units[event.target % len(units)]

    def _disturb(self, unit: Unit, what: str, dice: random.Random) -> Undo:
        if what in SIGNALS:
            return self.end(unit, SIGNALS[what])
        if what == "stopped":
            unit.program.signal(signal.SIGSTOP)
            return lambda: unit.program.signal(signal.SIGCONT)
        if what == "stepped":
            unit.clock.step(dice.choice(STEPS))
            return lambda: unit.clock.step(0.0)
        unit.relay.fail(silent=dice.random() < 0.5)
        return unit.relay.mend

    def _spoil_snapshot(self, unit: Unit, dice: random.Random) -> Undo | None:
        """Impossible without one: an older release writes none."""
        if not (unit.snapshot.is_file() and unit.snapshot.stat().st_size):
            return None

        def change() -> None:
            self.details[f"snapshot: {spoil(unit.snapshot, self._other(unit).snapshot, dice)}"] += 1

        return unit.hold(self.end(unit, dice.choice(tuple(SIGNALS.values())), change))

    def _change_release(self, unit: Unit, dice: random.Random) -> Undo:
        release = THIS if unit.release != THIS else dice.choice((OLDER, NEWER))

        def change() -> None:
            self.details[f"release: {unit.release} to {release}"] += 1
            unit.become(release)

        return unit.hold(self.end(unit, dice.choice(tuple(SIGNALS.values())), change))

    def _disturb_streams(self, unit: Unit, kind: str, dice: random.Random) -> Undo | None:
        """One master cannot copy the reports of the other one, or neither can."""
        if kind == "replication stream reset":
            _stream(unit).reset()
            return lambda: None
        both = kind == "masters cut off from each other" and dice.random() < 0.5
        units = self.fleet.masters if both else [unit]
        names = {one.name for one in units}
        if self._streams & names:
            return None
        self._streams |= names
        undone = [
            _slow(_stream(one), dice) if kind == "follower is slow" else _cut(_stream(one), dice) for one in units
        ]

        def undo() -> None:
            for one in undone:
                one()
            self._streams -= names

        return undo

    def _other(self, unit: Unit) -> Unit:
        return next(one for one in self.fleet.masters if one is not unit)

    def end(self, unit: Unit, number: signal.Signals, change: Callable[[], None] = lambda: None) -> Undo:
        """End a process; to undo that is to start it again, after a change while it is down."""
        unit.program.signal(number)
        if number == signal.SIGKILL:
            unit.program.wait()

        def again() -> None:
            try:
                unit.program.wait(0.01 if number == signal.SIGKILL else 15)
            except Exception:  # it takes too long to end: as a kubelet, after the grace period
                unit.program.kill()
            change()
            unit.program.start()
            kind = "masters" if unit.proxy is not None else "worker processes"
            self.restarts[kind] += 1

        return again

    def _restart_api(self, how: str) -> Undo | None:
        plane, server = self.fleet.plane, self.fleet.plane.apiserver
        if time.monotonic() < self._api_rests_until or server.pid is None:
            return None
        self._api_rests_until = time.monotonic() + API_REST
        os.kill(server.pid, SIGNALS[how])

        def again() -> None:
            plane.stop_apiserver(kill=True)  # it has had its time to end by itself
            server.start()
            self.restarts["API servers"] += 1
            self.restarted()

        return again

    def _answers(self, event: Event, dice: random.Random) -> Undo:
        """For a part of the requests of one master, or of both."""
        rules: list[Rule] = []
        share, both = dice.choice((0.3, 0.7, 1.0, 1.0)), dice.random() < 0.4
        for number, unit in enumerate(self.fleet.masters):
            if unit.proxy is not None and (both or number == event.target % len(self.fleet.masters)):
                rules += [
                    unit.proxy.inject(make(dice), share=share, **filters) for make, filters in ANSWERS[event.kind]
                ]

        def remove() -> None:
            for rule in rules:
                rule.remove()

        return remove

    def _freeze(self, unit: Unit) -> Undo | None:
        proxy = _proxy(unit)
        if unit.busy:
            return None
        proxy.freeze()
        return unit.hold(proxy.thaw)

    def _reset(self, unit: Unit) -> Undo:
        _proxy(unit).cut_all()
        return lambda: None


def _slow(stream: Relay, dice: random.Random) -> Undo:
    stream.slow(dice.uniform(0, LATENCY), dice.choice(RATES))
    return stream.slow


def _cut(stream: Relay, dice: random.Random) -> Undo:
    """In both directions or in one."""
    stream.fail(silent=dice.random() < 0.7, ways=dice.choice((BOTH, {Way.OUT}, {Way.BACK})))
    return stream.mend


def _stream(unit: Unit) -> Relay:
    if unit.stream is None:
        raise LookupError(f"{unit.name} copies no reports")
    return unit.stream


def _proxy(unit: Unit) -> FaultProxy:
    if unit.proxy is None:
        raise LookupError(f"{unit.name} has no proxy")
    return unit.proxy
