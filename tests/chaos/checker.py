"""Checks every state of every Node against what was known to be there.

The driver says what it is about to change before anybody can notice. A change is pending until the Node is seen as it
is to be; while it is, the Node shows all of it or nothing of it. Whatever else is wanted must be there, always and with
that value, and nothing besides.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.model import FOREIGN, Wanted, boot_of, listed_of, state_of

VANISHED = "an owned key was absent whose feature was there"
HALF = "a Node was half updated"
UNWANTED = "a key or value that nothing speaks for"
TOUCHED = "a foreign key was touched"
LISTED = "the annotation does not list what is there"
UNEQUAL = "after quiet a Node differs from the model"
DELETED = "a Node was deleted by nobody"
KINDS = (VANISHED, HALF, UNWANTED, TOUCHED, LISTED, UNEQUAL, DELETED)

AFTERMATH = 30.0
"""Seconds after a policy is gone in which what it held up may still come in parts."""

VERSIONS = 6
"""Versions of each Node that are kept to explain a violation."""

Values = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Change:
    """Keys of these origins that go together from some values to others; None is absent."""

    origins: frozenset[str]
    old: Values
    new: Values
    since: float


@dataclass(frozen=True, slots=True)
class Violation:
    """`seen` is what the Node showed, `wanted` what it may show, `at` when it was seen (seconds into the run)."""

    kind: str
    node: str
    key: str
    seen: str
    wanted: str
    at: float
    version: str
    versions: tuple[tuple[float, Mapping[str, Any]], ...] = ()
    """The latest versions of the Node, and when they were seen."""


@dataclass(slots=True)
class _Place:
    """One Node. `returns` is what it will be once it is deleted, which is about to happen, and made again."""

    wanted: dict[str, Mapping[str, str]]
    boot: str
    pending: list[Change] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    """Keys already complained about; once is enough until they are right again."""
    object: Mapping[str, Any] | None = None
    returns: Wanted | None = None
    joined: bool = True
    poisoned: float = 0.0
    """The version in which somebody wrote the list annotations, infinite until it is known; a master corrects them."""
    halves: dict[frozenset[str], Values] = field(default_factory=dict)
    """By the keys of a change, the part of it that a policy or a missing right left on the Node. It stays until a
    master knows the features of the Node."""
    versions: deque[tuple[float, Mapping[str, Any]]] = field(default_factory=lambda: deque(maxlen=VERSIONS))


class Checker:
    """`now` gives the seconds of the run."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.violations: list[Violation] = []
        self.states = 0
        self._now = now
        self._places: dict[str, _Place] = {}
        self._changed: set[tuple[str, str]] = set()
        self._own: set[tuple[str, str]] = set()
        self._refused_until = self._rightless_until = -AFTERMATH
        self._lock = threading.RLock()

    @property
    def written(self) -> int:
        """How many versions of Nodes were seen that the driver did not write."""
        return len(self._changed - self._own)

    def expect_node(self, name: str, wanted: Wanted, boot: str) -> None:
        """A Node is about to be made; everything but foreign keys comes later, all sources in one step."""
        with self._lock:
            self._places[name] = _Place(dict(wanted), boot)
            self._start_over(self._places[name])

    def expect_deletion(self, name: str, wanted: Wanted, boot: str, *, joined: bool) -> None:
        """It is about to be deleted and made again; `joined` says that all sources will come in one step."""
        with self._lock:
            place = self._places[name]
            place.returns, place.joined, place.boot = wanted, joined, boot

    def expect(self, name: str, wanted: Wanted, boot: str, *, joined: bool = False) -> None:
        """The Node is about to change to this; `joined`: all sources in one step, else each its own."""
        with self._lock:
            place, now = self._places[name], self._now()
            changes = _changes(place.wanted, wanted, now)
            place.pending += _join(changes, now) if joined else changes
            place.wanted, place.boot = dict(wanted), boot

    def settled(self, name: str, origins: AbstractSet[str] | None = None) -> bool:
        """Whether nothing is pending, of these origins or at all."""
        with self._lock:
            place = self._places[name]
            return place.returns is None and not any(origins is None or one.origins & origins for one in place.pending)

    def exists(self, name: str) -> bool:
        """Whether the Node was last seen, and is not about to be deleted."""
        with self._lock:
            place = self._places[name]
            return place.object is not None and place.returns is None

    def waiting(self, *parts: str) -> bool:
        """Whether any Node waits for a key whose name has one of these in it, or is about to be made again."""
        with self._lock:
            return any(
                place.returns is not None
                or any(part in key for one in place.pending for key in one.new for part in parts)
                for place in self._places.values()
            )

    def unsettled(self) -> list[str]:
        """Nodes on which something is pending."""
        with self._lock:
            return [name for name, place in self._places.items() if place.pending or place.returns is not None]

    def mine(self, name: str, version: str) -> None:
        """The driver itself wrote this version."""
        with self._lock:
            self._own.add((name, version))
            place = self._places[name]
            if place.poisoned == math.inf:
                place.poisoned = float(version)
                if place.object is not None:
                    self._check_list(place, name, _version(place.object), place.object)

    def poison(self, name: str) -> None:
        """The lists of the Node are about to be written by somebody who may; no key comes or goes by that."""
        with self._lock:
            self._places[name].poisoned = math.inf

    def restarted(self) -> None:
        """The API server was: until it knows all roles it may refuse the status, where extended resources are."""
        with self._lock:
            self._rightless_until = self._now() + AFTERMATH

    def refusing(self, active: bool) -> None:
        """An admission policy refuses keys, so that what changes together may come in parts; or it is gone."""
        with self._lock:
            self._refused_until = math.inf if active else self._now() + AFTERMATH

    def see(self, kind: str, node: Mapping[str, Any]) -> None:
        """A watch event: ADDED, MODIFIED or DELETED."""
        with self._lock:
            place = self._places.get(node["metadata"]["name"])
            if place is None:
                return
            self.states += 1
            if kind == "DELETED":
                self._gone(place, node)
                return
            if kind == "MODIFIED":
                self._changed.add((node["metadata"]["name"], _version(node)))
            place.object = node
            place.versions.append((self._now(), node))
            self._check(place, node)

    def final(self) -> None:
        """After quiet: every Node is as the model says, bookkeeping included."""
        with self._lock:
            for name, place in self._places.items():
                flat = {key: text for values in place.wanted.values() for key, text in values.items()}
                state = state_of(place.object) if place.object else {}
                for key in sorted(flat.keys() | state.keys()):
                    if state.get(key) != flat.get(key):
                        self._complain(UNEQUAL, place, name, key, state.get(key), flat.get(key), "")
                boot = boot_of(place.object) if place.object else ""
                if place.poisoned:
                    self._complain(UNEQUAL, place, name, "list annotation", "poisoned", "the labels of ours", "")
                if boot != place.boot:
                    self._complain(UNEQUAL, place, name, "boot id in origins", boot, place.boot, "")

    def _gone(self, place: _Place, node: Mapping[str, Any]) -> None:
        if place.returns is None:
            self._complain(DELETED, place, node["metadata"]["name"], "", "deleted", "", _version(node))
            return
        place.wanted, place.returns = dict(place.returns), None
        place.object, place.known, place.halves = None, set(), {}
        self._start_over(place)

    def _start_over(self, place: _Place) -> None:
        """A new Node carries what its maker gave it, and nothing of ours."""
        now = self._now()
        foreign = {FOREIGN: place.wanted.get(FOREIGN, {})}
        changes = _changes(foreign, place.wanted, now)
        place.pending = _join(changes, now) if place.joined else changes

    def _check(self, place: _Place, node: Mapping[str, Any]) -> None:
        name, version, state = node["metadata"]["name"], _version(node), state_of(node)
        wrong: set[str] = set()
        loose: set[str] = set()
        for change in list(place.pending):
            loose |= change.new.keys()
            shown = {key: state.get(key) for key in change.new}
            if shown in (change.old, change.new):
                place.halves.pop(frozenset(shown), None)
            if shown == change.new:
                place.pending.remove(change)
            elif shown != change.old:
                wrong |= self._judge_half(place, name, version, change, shown)
        flat = {key: (text, origin) for origin, values in place.wanted.items() for key, text in values.items()}
        for key in (flat.keys() | state.keys()) - loose:
            text, origin = flat.get(key, (None, FOREIGN if FOREIGN in key else ""))
            if state.get(key) != text:
                kind = TOUCHED if origin == FOREIGN else VANISHED if key not in state else UNWANTED
                wrong.add(key)
                self._complain(kind, place, name, key, state.get(key), text, version)
        wrong |= self._check_list(place, name, version, node)
        place.known &= wrong

    def _judge_half(self, place: _Place, name: str, version: str, change: Change, shown: Values) -> set[str]:
        """Neither before nor after: something is missing, or never was wanted, or only a part has come."""
        for key, value in shown.items():
            if value not in (change.old[key], change.new[key]):
                gone = value is None
                kind = TOUCHED if FOREIGN in change.origins else VANISHED if gone else UNWANTED
                self._complain(kind, place, name, key, value, f"{change.old[key]} or {change.new[key]}", version)
                return {key}
        late = {key for key in shown if shown[key] != change.new[key]}
        rightless = self._now() < self._rightless_until and all(key.startswith("#") for key in late)
        keys = frozenset(shown)
        if rightless or (FOREIGN not in change.origins and self._now() < self._refused_until):
            place.halves[keys] = shown
        elif place.halves.get(keys) != shown:
            place.halves.pop(keys, None)
        if keys in place.halves or (place.poisoned and FOREIGN not in change.origins):
            return set()
        odd = min(late)
        with_it = next(key for key in sorted(shown) if shown[key] != change.old[key])
        kind = TOUCHED if FOREIGN in change.origins else HALF
        self._complain(kind, place, name, odd, shown[odd], f"{change.new[odd]}, as {with_it} came already", version)
        return {odd}

    def _check_list(self, place: _Place, name: str, version: str, node: Mapping[str, Any]) -> set[str]:
        labels = {key for key in node["metadata"].get("labels") or {} if FOREIGN not in key}
        odd = labels ^ listed_of(node)
        if not odd and float(version) > place.poisoned:
            place.poisoned = 0.0
        elif odd and place.poisoned:
            return set()
        for key in sorted(odd):
            self._complain(LISTED, place, name, key, "a label" if key in labels else "listed", "both", version)
        return odd

    def _complain(
        self, kind: str, place: _Place, name: str, key: str, seen: str | None, wanted: str | None, version: str
    ) -> None:
        if key not in place.known or kind == UNEQUAL:
            place.known.add(key)
            found = Violation(kind, name, key, str(seen), str(wanted), self._now(), version, tuple(place.versions))
            self.violations.append(found)


def render_versions(versions: Sequence[tuple[float, Mapping[str, Any]]]) -> Iterator[tuple[float, str]]:
    """For each version but the first: when it was seen, who wrote it last, and what differs from the one before."""
    before: dict[str, str] | None = None
    for at, node in versions:
        metadata, state = node["metadata"], state_of(node)
        state |= {f"@{key}": text for key, text in (metadata.get("annotations") or {}).items()}
        entries = [one for one in metadata.get("managedFields") or () if not one.get("subresource")]
        writers = [(one.get("time", ""), one.get("manager", "")) for one in entries]
        if before is not None:
            differs = {key: state.get(key) for key in sorted({*before, *state}) if before.get(key) != state.get(key)}
            yield at, f"version {_version(node)}, written by {max(writers, default=('', ''))[1]}: {differs}"
        before = state


def _changes(before: Wanted, after: Wanted, now: float) -> list[Change]:
    """What differs, by origin."""
    found = []
    for origin in sorted(before.keys() | after.keys()):
        old, new = before.get(origin, {}), after.get(origin, {})
        keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
        if keys:
            values = ({key: old.get(key) for key in keys}, {key: new.get(key) for key in keys})
            found.append(Change(frozenset({origin}), *values, now))
    return found


def _join(changes: list[Change], now: float) -> list[Change]:
    """Those of the sources as one; rules and others stay by themselves."""
    sources = [one for one in changes if not any(name == FOREIGN or name.startswith("rule ") for name in one.origins)]
    if not sources:
        return changes
    origins = frozenset().union(*(one.origins for one in sources))
    old, new = ({k: v for one in sources for k, v in getattr(one, side).items()} for side in ("old", "new"))
    return [Change(origins, old, new, now), *(one for one in changes if one not in sources)]


def _version(node: Mapping[str, Any]) -> str:
    return str(node["metadata"]["resourceVersion"])
