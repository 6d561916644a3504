"""Changes that the API server rejects: on which nodes, and when they are tried again.

A change that was rejected on three nodes is left out for all. One node at a time, the canary, tries it again every four
seconds. If it succeeds, all others try at once. Times are of a monotonic clock, in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from nfd.errors import Invalid
from nfd.master.node.ownership import Owned
from nfd.master.node.plan import Act
from nfd.names import NFD_NS, is_below
from nfd.store.base import Kind, Node

NODES = 3
"""Nodes on which a change must be rejected before it is left out on all."""
RETRY = 4.0
"""Seconds between two attempts of a canary."""
PROBES_PER_SECOND = 5
"""Attempts of all canaries per second; with more than twenty rejected changes each waits longer."""
AT_ONCE = 3
"""Attempts of one canary in one pass."""
PAUSE = 1 / PROBES_PER_SECOND
"""The least seconds that `passed` returns."""
AT_MOST_EVERY = 1.0
"""The least seconds between two attempts of the same change, whatever the reason."""
LASTS = 20.0
"""Seconds after a success on any node during which a rejection counts for single nodes only."""
MOST = 1000
"""Rejected changes that are remembered. A node with still others waits as a whole."""

EVERYTHING: Act = (Kind.ANNOTATIONS, "*", False)
"""Stands for every change: even a PATCH that changes nothing is rejected."""
_NEVER = float("-inf")
_ANY = "*"
"""Stands for the value of a bookkeeping annotation, which changes with every other key."""


@dataclass(slots=True)
class _Here:
    """One node without the change: the rejected value, None if it has not tried since it is left out on all."""

    value: str | None = None
    tried: float = _NEVER


@dataclass(slots=True)
class _Refused:
    """One rejected change: by whom and why, on which nodes, and which is the canary."""

    by: str
    reason: str
    nodes: dict[str, _Here] = field(default_factory=dict)
    surely: set[str] = field(default_factory=set)
    canary: str = ""
    due: float = 0.0
    tried: float = _NEVER
    doubt: float = AT_MOST_EVERY
    """Seconds until the next attempt while it is uncertain which of several acts is rejected."""

    def leave(self, name: str) -> _Here | None:
        """Remove the node from those without the change."""
        self.surely.discard(name)
        return self.nodes.pop(name, None)


class Rejections:
    """`wake(node, seconds)` queues a pass over a node after that time."""

    def __init__(self, wake: Callable[[str, float], None]) -> None:
        self._wake = wake
        self._refused: dict[Act, _Refused] = {}
        self._accepted: dict[Act, float] = {}
        self._released: dict[Act, float] = {}
        self._passed: dict[str, Node] = {}
        self._retried: dict[str, float] = {}
        self._delayed: set[str] = set()
        self.remembered: dict[str, Owned] = {}
        """Managed keys of nodes on which the bookkeeping is rejected."""

    def __bool__(self) -> bool:
        """Whether any change is rejected on any node."""
        return bool(self._refused)

    def left_out(self, node: Node, acts: Mapping[Act, str], now: float) -> frozenset[Act]:
        """The acts of a plan that are not to be tried now. Acts that the plan no longer has are forgotten."""
        if not self._refused:
            return frozenset()
        name = node.name
        for act in [act for act, one in self._refused.items() if name in one.nodes and act not in acts]:
            if act != EVERYTHING or not acts:
                self._drop(act, name, now)
        if self._retries(node, now):
            return frozenset()
        wanted = {EVERYTHING: digest(acts), **acts} if acts else acts
        return frozenset(act for act, value in wanted.items() if self._is_left(act, value, name, now))

    def is_refused(self, act: Act, name: str) -> bool:
        """Whether the act is left out on the node."""
        return act in self._refused and name in self._refused[act].nodes

    def refuse(self, name: str, acts: Mapping[Act, str], error: Invalid, now: float, *, sure: bool) -> list[Act]:
        """Record rejected acts, each one for sure or some of them. Returns those that are rejected on few nodes so
        far."""
        news = []
        for act, value in acts.items():
            if act not in self._refused and len(self._refused) >= MOST:
                act, value, sure = EVERYTHING, _ANY, False
            one = self._refused.setdefault(act, _Refused(error.by, str(error)))
            one.by, one.reason = error.by, str(error)
            if name not in one.nodes and len(one.nodes) < NODES:
                news.append(act)
            one.nodes[name] = _Here(_ANY if _is_bookkeeping(act) else value, now)
            one.tried = now
            if sure:
                one.surely.add(name)
            if one.canary not in one.nodes or one.canary == name:
                self._next(act, now)
        return news

    def accept(self, name: str, acts: Mapping[Act, str], now: float) -> dict[Act, int]:
        """Record successful acts. Returns how many other nodes now try each of them as well."""
        released = {}
        for act in acts:
            one = self._refused.get(act)
            if one is None:
                continue
            here = one.leave(name)
            self._accepted = _recent(self._accepted, now, LASTS) | {act: now}
            self._released = _recent(self._released, now, RETRY)
            if act not in self._released:
                self._released[act] = now
                alike = (None, _ANY, acts[act], here.value if here else None)
                others = [other for other, at in one.nodes.items() if at.value in alike or act == EVERYTHING]
                for other in others:
                    one.leave(other)
                    self._wake(other, 0.0)
                released[act] = len(others)
                self._try_soon(one.by, now)
            self._settle(act, now)
        return released

    def probes(self, name: str, now: float) -> tuple[list[Act], list[Act]]:
        """The acts that this node tries again now: each by itself, and together those of which only some are
        rejected."""
        due = [act for act in self._refused if act != EVERYTHING and self.is_due(act, name, now)]
        doubtful = [act for act in due if not self._refused[act].surely]
        return [act for act in due if act not in doubtful][:AT_ONCE], doubtful

    def is_due(self, act: Act, name: str, now: float) -> bool:
        """Whether this node tries the rejected act again now."""
        return self._refused[act].canary == name and self._refused[act].due <= now + 0.01

    def suspects(self, acts: Iterable[Act]) -> frozenset[Act]:
        """The acts that are rejected on some node."""
        return frozenset(act for act in acts if act in self._refused)

    def passed(self, node: Node, left: AbstractSet[Act], now: float) -> float | None:
        """Record the end of a pass. Returns after how many seconds the node needs another.

        Acts that were left out are tried again at once when anything except the Node's status changes. While every
        change of the node is rejected, other nodes try the rest.
        """
        name = node.name
        mine = [act for act, one in self._refused.items() if one.canary == name]
        if EVERYTHING in left:
            self._leave_to_others([act for act in mine if act != EVERYTHING], now)
            mine = [act for act in mine if act == EVERYTHING]
        waits = [self._refused[act].due - now for act in mine]
        if name in self._delayed:
            waits.append(self._retried[name] + AT_MOST_EVERY - now)
        elif left:
            self._passed[name] = node
        else:
            self._passed.pop(name, None)
            self._retried.pop(name, None)
        return max(PAUSE, min(waits)) if waits else None

    def wants_nothing(self, name: str, now: float) -> None:
        """The node has its desired state."""
        for act in [act for act, one in self._refused.items() if name in one.nodes]:
            self._drop(act, name, now)
        self._passed.pop(name, None)

    def hand_over(self, name: str, now: float) -> None:
        """A pass could not try anything: choose another canary for each change of this node."""
        for act, one in self._refused.items():
            if one.canary == name:
                one.nodes[name].tried = now
                self._next(act, now, one.due)

    def _leave_to_others(self, acts: Iterable[Act], now: float) -> None:
        """Choose another canary for each act, if there is one of which not every change is rejected."""
        for act in acts:
            one = self._refused[act]
            if not one.nodes.keys() <= self._frozen():
                self._next(act, now, one.due)

    def _frozen(self) -> AbstractSet[str]:
        """The nodes of which every change is rejected."""
        return self._refused[EVERYTHING].nodes.keys() if EVERYTHING in self._refused else frozenset()

    def unwritten(self) -> list[Unwritten]:
        """All rejected keys, the most widespread first."""
        found = [
            Unwritten(kind.one, key, one.by, one.reason, tuple(sorted(one.nodes)), removal=removal)
            for (kind, key, removal), one in self._refused.items()
        ]
        return sorted(found, key=lambda one: (-len(one.nodes), one.kind, one.key))

    def nodes(self) -> set[str]:
        """The nodes with rejected changes."""
        return {*self._passed, *self._retried, *self._delayed, *self.remembered}.union(
            *(one.nodes for one in self._refused.values())
        )

    def forget(self, name: str) -> None:
        """The node is gone."""
        for memory in (self._passed, self._retried, self.remembered):
            memory.pop(name, None)
        self._delayed.discard(name)
        for act in [act for act, one in self._refused.items() if name in one.nodes]:
            self._drop(act, name, self._refused[act].due - RETRY)

    def clear(self) -> None:
        """Forget everything."""
        for times in (self._refused, self._accepted, self._released):
            times.clear()
        for nodes in (self._passed, self._retried, self._delayed):
            nodes.clear()

    def _is_left(self, act: Act, value: str, name: str, now: float) -> bool:
        one = self._refused.get(act)
        if one is None:
            return False
        here = one.nodes.get(name)
        if here is not None and here.value in (_ANY, value):
            return True
        if len(one.surely) >= NODES and now - self._accepted.get(act, _NEVER) >= LASTS:
            one.nodes.setdefault(name, _Here())
            return True
        if here is not None and act != EVERYTHING:
            self._drop(act, name, now)  # the value differs from the rejected one
        return False

    def _retries(self, node: Node, now: float) -> bool:
        """Whether to try everything because the Node changed since its last pass."""
        before = self._passed.get(node.name)
        if node.name not in self._delayed and (before is None or before.same_but_status(node)):
            return False
        if now - self._retried.get(node.name, _NEVER) < AT_MOST_EVERY:
            self._delayed.add(node.name)
            return False
        self._delayed.discard(node.name)
        self._retried[node.name] = now
        return True

    def _drop(self, act: Act, name: str, now: float) -> None:
        """The node no longer needs the change."""
        self._refused[act].leave(name)
        self._settle(act, now)

    def _settle(self, act: Act, now: float) -> None:
        """Forget the change if no node is left without it; else choose the next canary."""
        one = self._refused[act]
        if not one.nodes:
            del self._refused[act]
        elif one.canary not in one.nodes:
            self._next(act, now, one.due)

    def _next(self, act: Act, now: float, due: float = _NEVER) -> None:
        """Choose the canary: a node that never tried, else the one whose last attempt is the oldest. Nodes of which
        every change is rejected come last."""
        one, frozen = self._refused[act], self._frozen()
        one.canary = min(one.nodes, key=lambda name: (name in frozen, one.nodes[name].tried))
        wait = max(RETRY, sum(bool(other.surely) for other in self._refused.values()) / PROBES_PER_SECOND)
        if not one.surely:
            wait, one.doubt = min(wait, one.doubt), one.doubt * 2
        one.due = due if due > now else now + wait
        self._wake(one.canary, one.due - now)

    def _try_soon(self, by: str, now: float) -> None:
        """A policy that accepts one change may accept all: let the canaries of all its changes try soon."""
        for one in self._refused.values():
            soon = max(now, one.tried + AT_MOST_EVERY)
            if one.by == by and one.due > soon:
                one.due = soon
                self._wake(one.canary, soon - now)


def _recent(times: Mapping[Act, float], now: float, seconds: float) -> dict[Act, float]:
    return {act: at for act, at in times.items() if now - at < seconds}


def digest(acts: Mapping[Act, str]) -> str:
    """A digest of the acts: EVERYTHING is tried again when it changes."""
    return f"{hash(frozenset(acts.items())):x}"


def _is_bookkeeping(act: Act) -> bool:
    """Whether the act concerns a bookkeeping annotation."""
    return act[0] is Kind.ANNOTATIONS and is_below(act[1].rpartition("/")[0], NFD_NS)


MOST_LISTED = 4
"""The most texts for one node."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """One rejected key on some nodes. `kind` is as in `Dropped`; key `*` stands for all keys of all kinds.

    `by` is the admission policy or webhook that rejects it, or the manager that set it to another value. `removal`: it
    is to be removed.
    """

    kind: str
    key: str
    by: str
    reason: str
    nodes: tuple[str, ...] = ()
    removal: bool = False

    def what(self) -> str:
        """The key as text: `label a/b`."""
        if self.key == "*":
            return "every change of the Node"
        return f"{'removal of ' if self.removal else ''}{self.kind} {self.key}"


def texts_by_node(found: Iterable[Unwritten]) -> dict[str, list[str]]:
    """For each node its rejected keys as text: the first few, and the number of the others."""
    texts: dict[str, list[str]] = {}
    for one in found:
        for node in one.nodes:
            texts.setdefault(node, []).append(f"{one.what()} not written: {one.by}")
    return {
        node: known
        if len(known) <= MOST_LISTED
        else [*known[: MOST_LISTED - 1], f"{len(known) - MOST_LISTED + 1} more not written"]
        for node, known in texts.items()
    }


def render_unwritten(one: Unwritten) -> dict[str, Any]:
    return asdict(one)


def parse_unwritten(data: Mapping[str, Any]) -> Unwritten:
    """The reverse. Raises: TypeError, KeyError for invalid data."""
    known = {one.name: data[one.name] for one in fields(Unwritten) if one.name in data}
    return Unwritten(**{**known, "nodes": tuple(map(str, known.get("nodes") or ()))})
