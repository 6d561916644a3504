"""Decides how a Node becomes what is desired, without touching what is not ours."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from nfd import names
from nfd.master.desired import ALL_FRESH, Desired, Freshness
from nfd.master.ownership import Origin, Owned, bookkeeping, parse_owned, render_owned
from nfd.quantity import same_quantity
from nfd.store.base import Kind, Node

SHARED = frozenset({f"{names.NVIDIA_NS}/gpu.present"})
"""Keys that another product writes too, with its own reasons: ours only if we were the first."""

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to the keys of one kind. `held` stay as they are, `refused` are wanted, but somebody else's."""

    write: Mapping[str, str] = field(default_factory=dict)
    remove: frozenset[str] = _NONE
    refused: frozenset[str] = _NONE
    held: frozenset[str] = _NONE

    def __bool__(self) -> bool:
        return bool(self.write or self.remove)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Everything one pass does to one Node.

    `records` and `forgotten` are the bookkeeping annotations to write and to remove; `owned` is what they say then.
    """

    node: Node
    changes: Mapping[Kind, Change]
    owned: Owned
    records: Mapping[str, str]
    forgotten: frozenset[str]
    instance: str = ""

    def __bool__(self) -> bool:
        return bool(self.records or self.forgotten or any(self.changes.values()))

    def written(self) -> list[tuple[Kind, str]]:
        """What it sets, bookkeeping included."""
        keys = [(kind, key) for kind, change in self.changes.items() for key in change.write]
        return keys + [(Kind.ANNOTATIONS, key) for key in self.records]

    def same_as(self, other: NodePlan) -> bool:
        """Whether both send the same, the guards apart."""
        parts = ("changes", "records", "forgotten")
        return all(getattr(self, name) == getattr(other, name) for name in parts)


@dataclass(frozen=True, slots=True)
class Goal:
    """What a pass is to achieve. `contested` keys are left alone for a while, whoever set them."""

    desired: Desired
    fresh: Freshness = ALL_FRESH
    overwrite: bool = True
    instance: str = ""
    contested: Mapping[Kind, AbstractSet[str]] = field(default_factory=dict)
    purge: bool = False
    """Forget every annotation of ours, also those of other releases."""

    def leaving(self, kind: Kind) -> AbstractSet[str]:
        return self.contested.get(kind, _NONE)

    def leaving_resources(self, keys: AbstractSet[str]) -> Goal:
        """The same with these extended resources left alone: the way on when the API server refuses them."""
        return replace(self, contested={**self.contested, Kind.RESOURCES: self.leaving(Kind.RESOURCES) | keys})

    def without_resources(self, node: Node) -> Goal:
        """The same with all of them left alone: it refuses, and does not say what."""
        return self.leaving_resources(node.resources.keys() | self.desired.of(Kind.RESOURCES).keys())


def plan(
    desired: Mapping[str, str],
    owned: AbstractSet[str],
    actual: Mapping[str, str],
    *,
    overwrite: bool,
    held: AbstractSet[str] = _NONE,
    shared: AbstractSet[str] = _NONE,
) -> Change:
    """Decide how `actual` becomes `desired`; `shared` keys that somebody else has set are theirs, whatever they say."""
    foreign = actual.keys() - owned
    refused = {
        key for key in foreign & desired.keys() if key in shared or (not overwrite and actual[key] != desired[key])
    }
    return Change(
        write={
            key: value
            for key, value in desired.items()
            if key not in refused and key not in held and actual.get(key) != value
        },
        remove=frozenset((owned - desired.keys() - held) & actual.keys()),
        refused=frozenset(refused),
        held=frozenset(held & actual.keys()),
    )


def plan_node(goal: Goal, node: Node) -> NodePlan:
    """One pass over one Node: all kinds, and the bookkeeping."""
    desired, before = goal.desired, parse_owned(node.annotations, goal.instance)
    changes = {kind: _plan_kind(kind, goal, before, node) for kind in Kind}
    owned = Owned(
        keys={kind: _own(desired, before, change, kind) for kind, change in changes.items()},
        taints=dict(before.taints) | dict(desired.of(Kind.TAINTS)),
        boot_id=desired.boot_id or before.boot_id,
        alone=goal.fresh.alone or (before.alone and not goal.fresh.reported),
    )
    wanted = render_owned(owned, goal.instance)
    ours = _purged(node, goal.instance) if goal.purge else bookkeeping(goal.instance)
    left = goal.leaving(Kind.ANNOTATIONS)
    return NodePlan(
        node=node,
        changes=changes,
        owned=owned,
        records={key: text for key, text in wanted.items() if node.annotations.get(key) != text and key not in left},
        forgotten=frozenset((ours & node.annotations.keys()) - wanted.keys() - left),
        instance=goal.instance,
    )


def _plan_kind(kind: Kind, goal: Goal, before: Owned, node: Node) -> Change:
    desired = goal.desired
    owned, wanted, actual = before.of(kind), desired.of(kind), node.actual(kind)
    if kind is Kind.RESOURCES:
        actual = {key: _spelt(text, wanted.get(key)) for key, text in actual.items()}
    silent = {origin for origin in set(owned.values()) if not goal.fresh.tells_of(origin)}
    held = {
        key
        for key, origin in owned.items()
        if origin in silent and key in actual and _holds(key, origin, desired, kind)
    }
    return plan(
        wanted,
        owned.keys(),
        actual,
        overwrite=goal.overwrite,
        held=held | goal.leaving(kind),
        shared=wanted.keys() if kind is Kind.TAINTS else SHARED,
    )


def _holds(key: str, origin: Origin, desired: Desired, kind: Kind) -> bool:
    """Whether a key of ours must stay as it is, where nothing fresh speaks for its origin.

    A source that failed holds its keys against others too. A key of unknown origin is held only against removal.
    """
    return key not in desired.of(kind) or (origin is not None and origin != desired.origin(kind, key))


def _own(desired: Desired, before: Owned, change: Change, kind: Kind) -> dict[str, Origin]:
    """What is ours after the change: what we want and got, and what is held, from where it was."""
    earlier = before.of(kind)
    kept = {key: earlier[key] for key in change.held if key in earlier}
    got = {
        key: desired.origin(kind, key)
        for key in desired.of(kind)
        if key not in change.refused and key not in change.held
    }
    return got | kept


def _spelt(actual: str, wanted: str | None) -> str:
    """The API server spells 1000 as 1k: an equal quantity counts as written the way we want it."""
    return wanted if wanted is not None and same_quantity(actual, wanted) else actual


def _purged(node: Node, instance: str) -> frozenset[str]:
    prefix = f"{instance}.{names.NFD_NS}/" if instance else f"{names.NFD_NS}/"
    return bookkeeping(instance) | frozenset(key for key in node.annotations if key.startswith(prefix))
