"""One run: start everything, let the schedule happen, let it calm down, and tell what was found."""

from __future__ import annotations

import heapq
import random
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

from tests.chaos.changes import RULES_OF, Changes, Member, other_devices, other_release, other_wave
from tests.chaos.checker import Checker, Violation
from tests.chaos.crew import ACKNOWLEDGED
from tests.chaos.faults import Faults
from tests.chaos.fleet import Fleet, Undo
from tests.chaos.hostile import Hostile
from tests.chaos.knowledge import EVERYBODY, Disturbances, Knowledge, Place
from tests.chaos.machines import Machine
from tests.chaos.model import VENDORS, Rule, Truth
from tests.chaos.observer import Observer
from tests.chaos.schedule import CHANGES, CREW_ENDS, NEIGHBOURS, REPORTS_PASS, Event, digest, make_schedule
from tests.chaos.watcher import Undisturbed, Watcher
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import eventually

CALM = 240.0
"""Seconds that everything may take to be as it should once nothing is disturbed: back-off and beats go to a minute."""
SAY = 60.0
LOOK = 0.25


@dataclass(frozen=True, slots=True)
class RunOptions:
    seed: int = 1
    seconds: float = 600.0
    nodes: int = 200
    crew: int = 20
    """Workers in one process."""
    quiet: float = 12.0
    """Seconds after all has calmed down in which nothing may be written."""


@dataclass(frozen=True, slots=True)
class Happened:
    """One line of history, and whom it concerned: a node, a process, or "" for all."""

    at: float
    text: str
    whom: str


@dataclass
class Run:
    """On a control plane that runs already and has nothing else to do. `close` ends all the rest and leaves nothing."""

    options: RunOptions
    say: Callable[[str], None]
    plane: ControlPlane
    injected: Counter[str] = field(default_factory=Counter)
    impossible: Counter[str] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)
    history: deque[Happened] = field(default_factory=deque)
    wrong: list[str] = field(default_factory=list)
    """What went wrong besides violations."""

    def __post_init__(self) -> None:
        self.begun = time.monotonic()
        self.folder = Path(tempfile.mkdtemp(prefix="nfd-chaos-"))
        self.checker = Checker(self.now)
        self.disturbances = Disturbances()
        self.knowledge = Knowledge(self.disturbances, self._where, self.now)
        self.schedule = make_schedule(self.options.seed, self.options.seconds)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def now(self) -> float:
        return time.monotonic() - self.begun

    def start(self) -> None:
        """Everything runs, and every Node is as the model says."""
        options, begun = self.options, time.monotonic()
        self.server = Undisturbed(self.plane)
        eventually(self.server.ready, 90)
        self.fleet = Fleet(self.plane, self.server, self.folder, options.seed)
        self.fleet.prepare()
        self.watcher = Watcher(self.server, self.checker.see)
        self.fleet.start_masters()
        machines = self._machines()
        self.fleet.start_crews([(name, machine.root) for name, machine in machines.items()], options.crew)
        crew_of = {name: unit for unit in self.fleet.crews for name in unit.members}
        self.members = {name: Member(name, machine, crew_of[name]) for name, machine in machines.items()}
        members = list(self.members.values())
        self.faults = Faults(self.fleet, self.restarts, self.checker.restarted)
        self.hostile = Hostile(self.server, self.checker)
        self.changes = Changes(members, self.checker, self.server, self.faults, self.fleet.join)
        files = [unit.folder / ACKNOWLEDGED for unit in self.fleet.crews]
        self.observer = Observer(self.fleet.masters, files, self.plane.token(), self.knowledge)
        for member in members:
            self.checker.expect_node(member.name, self.changes.wanted(member), member.machine.truth.boot)
            self.changes.create(member)
        self.changes.asked |= {vendor: Rule(RULES_OF[vendor], vendor, 1) for vendor in VENDORS[:3]}
        self.await_calm()
        self.say(
            f"seed {options.seed}, schedule {digest(self.schedule)}: {options.nodes} nodes,"
            f" {len(self.fleet.crews)} worker processes, {len(self.fleet.masters)} masters;"
            f" labelled after {time.monotonic() - begun:.0f} s"
        )

    def disturb(self) -> None:
        """The schedule happens; at its end all that lasted is undone."""
        self.begun = time.monotonic()
        self._put_rules()
        for event in self.schedule:
            self._at(event.at, partial(self._begin, event))
        for minute in range(1, int(self.options.seconds / SAY) + 1):
            self._at(minute * SAY - 0.001, self._say_minute)
        while (self._due[0][0] < self.options.seconds or len(self._due) > 1) and not self.watcher.failed:
            at, _, action = heapq.heappop(self._due)
            time.sleep(max(0.0, at - self.now()))
            action()

    def calm(self) -> None:
        """Nothing is disturbed any more: all is as it should be within a time, and then nothing is written."""
        begun = self.now()
        self.fleet.plane.start_apiserver()
        self.await_calm()
        self.say(f"calm {self.now() - begun:.0f} s after the last fault")
        written = self.checker.written
        time.sleep(self.options.quiet)
        self.checker.final()
        self.knowledge.final(time.monotonic())
        if self.checker.written != written:
            self.wrong.append(
                f"{self.checker.written - written} writes in {self.options.quiet:.0f} s although nothing changed"
            )
        self.wrong += self.fleet.failures()
        self.wrong += [part.failed for part in (self.watcher, self.observer) if part.failed]

    def await_calm(self) -> None:
        """What was asked for is still done, and a leader knows all that was acknowledged."""
        deadline = time.monotonic() + CALM
        while self._unsettled() and time.monotonic() < deadline and not self.watcher.failed:
            self.changes.put_rules()
            time.sleep(LOOK)

    def violations(self) -> list[Violation]:
        return sorted((*self.checker.violations, *self.knowledge.violations), key=lambda one: one.at)

    def close(self) -> None:
        self.plane.start_apiserver()
        for name in ("observer", "watcher", "fleet", "changes", "hostile", "server"):
            if (part := getattr(self, name, None)) is not None:
                part.stop()

    def _unsettled(self) -> bool:
        return bool(self.checker.unsettled() or self.changes.asked or self.knowledge.unsettled())

    def _where(self, node: str) -> Place | None:
        """None for a Node that does not exist, or is about to be deleted."""
        if not self.checker.exists(node):
            return None
        member = self.members[node]
        return Place(member.made_at, self.checker.settled(node), member.crew.name)

    def _machines(self) -> dict[str, Machine]:
        dice, machines = random.Random(f"machines {self.options.seed}"), {}
        for number in range(self.options.nodes):
            truth = other_wave(other_release(other_devices(Truth(f"boot-{number}"), dice), dice), dice)
            name = f"chaos-{number}"
            machines[name] = Machine(self.folder / "machines" / name, truth)
            machines[name].build()
        return machines

    def _at(self, at: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at, next(self._numbers), action))

    def _begin(self, event: Event) -> None:
        """A fault or a change; what cannot be done now is counted and let be."""
        ours, theirs = event.kind in CHANGES or event.kind == "source spoilt", event.kind in NEIGHBOURS
        undo = (self.changes if ours else self.hostile if theirs else self.faults).begin(event)
        if undo is None:
            self.impossible[event.kind] += 1
            return
        self.injected[event.kind] += 1
        whom = self.changes.member(event).name if ours else "" if theirs else self.faults.whom(event)
        self.history.append(Happened(self.now(), event.kind, whom))
        if (kept := self._keeps_reports_from(event, whom)) is not None:
            self.disturbances.begin(kept)
        self._at(self.now() + event.seconds, partial(self._undo, event, whom, kept, undo))

    def _keeps_reports_from(self, event: Event, whom: str) -> str | None:
        """Whose reports do not come while it lasts: those of a process of workers, or of everybody; None of nobody."""
        if event.kind in CHANGES:
            return self.changes.member(event).crew.name if event.kind in CREW_ENDS else None
        if event.kind in REPORTS_PASS:
            return None
        return whom if whom in (unit.name for unit in self.fleet.crews) else EVERYBODY

    def _undo(self, event: Event, whom: str, kept: str | None, undo: Undo) -> None:
        undo()
        if kept is not None:
            self.disturbances.end(kept, time.monotonic())
        if event.seconds:
            self.history.append(Happened(self.now(), f"over: {event.kind}", whom))

    def _put_rules(self) -> None:
        self.changes.put_rules()
        self._at(self.now() + LOOK, self._put_rules)

    def _say_minute(self) -> None:
        faults = sum(number for kind, number in self.injected.items() if kind not in CHANGES)
        changed = sum(self.injected.values()) - faults
        self.say(
            f"{self.now() / 60:4.0f} min: {faults} faults, {changed} changes, {self.checker.states} states seen,"
            f" {self.checker.written} patches written, {sum(self.restarts.values())} restarts,"
            f" {len(self.checker.unsettled())} nodes waiting, {len(self.checker.violations)} violations"
        )
