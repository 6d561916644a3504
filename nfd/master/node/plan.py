"""Plans how a Node gets its desired state, without changing keys that are not managed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from nfd.master.node.desired import ALL_FRESH, OBJECT_ORIGIN, RULE_ORIGIN, Desired, Freshness
from nfd.master.node.ownership import (
    CACHED_LISTS,
    CLAIMED,
    LISTS,
    LONGEST,
    ORIGINS,
    Origin,
    Owned,
    annotation,
    are_equivalent,
    bookkeeping,
    lasting_part,
    parse_owned,
    render_owned,
)
from nfd.master.node.proof import UNPROVEN, Proof
from nfd.master.node.shared_labels import SHARED
from nfd.quantity import same_quantity
from nfd.rules.policy import Policy, may_remove
from nfd.runtime.cache import LruCache
from nfd.store.base import Condition, Kind, Node

CONDITIONS = "conditions"
"""Stands for a kind among contested keys: those of conditions are their types."""

Act = tuple[Kind, str, bool]
"""One act of a plan: kind, key, and True to remove it. Bookkeeping annotations are included."""

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Change:
    """The change of the keys of one kind. `kept` keys stay as they are; `refused` are desired, but owned by another
    manager."""

    write: Mapping[str, str] = field(default_factory=dict)
    remove: frozenset[str] = _NONE
    refused: frozenset[str] = _NONE
    kept: frozenset[str] = _NONE

    def __bool__(self) -> bool:
        return bool(self.write or self.remove)


@dataclass(frozen=True, slots=True)
class NodePlan:
    """All that one pass changes on one Node.

    `records` and `forgotten` are the bookkeeping annotations to write and to remove; `owned` is their new content,
    `before` the current one. `left` are keys that are in the Node's lists and on the Node, but that nfd may not remove.
    """

    node: Node
    changes: Mapping[Kind, Change]
    owned: Owned
    records: Mapping[str, str]
    forgotten: frozenset[str]
    goal: Goal
    before: Owned
    left: frozenset[tuple[Kind, str]] = frozenset()
    conditions: Mapping[str, Condition | None] = field(default_factory=dict)
    """The conditions to write, None for one to remove."""

    def __bool__(self) -> bool:
        return bool(self.records or self.forgotten or any(self.changes.values()) or self.conditions)

    def written(self) -> list[tuple[Kind, str]]:
        """The keys that it sets, bookkeeping included."""
        keys = [(kind, key) for kind, change in self.changes.items() for key in change.write]
        return keys + [(Kind.ANNOTATIONS, key) for key in self.records]

    def acts(self) -> dict[Act, str]:
        """All acts, with the value each writes, "" for a removal. Of the record, without what each report changes."""
        found: dict[Act, str] = {}
        for kind, change in self.changes.items():
            found |= {(kind, key, False): value for key, value in sorted(change.write.items())}
            found |= {(kind, key, True): "" for key in sorted(change.remove)}
        record = annotation(ORIGINS, self.goal.instance)
        found |= {
            (Kind.ANNOTATIONS, key, False): lasting_part(text) if key == record else text
            for key, text in sorted(self.records.items())
        }
        return found | {(Kind.ANNOTATIONS, key, True): "" for key in sorted(self.forgotten)}


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a pass. `contested` keys and conditions are in back-off: they stay as they are, and in the lists.

    `refused` keys are those that the API server does not let the master change: they stay as they are, and in the lists
    only if they are on the Node. `foreign` are shared labels that another product changed after the master wrote them.
    `remembered` is what is managed where the API server rejects the bookkeeping.
    """

    desired: Desired
    fresh: Freshness = ALL_FRESH
    overwrite: bool = True
    instance: str = ""
    contested: Mapping[str, AbstractSet[str]] = field(default_factory=dict)
    refused: Mapping[Kind, AbstractSet[str]] = field(default_factory=dict)
    foreign: AbstractSet[str] = _NONE
    remembered: Owned | None = None
    purge: bool = False
    """Remove every bookkeeping annotation, including those of older releases."""
    policy: Policy = field(default_factory=Policy)
    proof: Proof = UNPROVEN
    conditions: Mapping[str, Condition | None] = field(default_factory=dict)
    """The desired conditions, None for one to remove. Others stay."""
    stamp: str = ""
    """The time that a changed condition gets (RFC 3339)."""

    def leaving(self, kind: Kind) -> AbstractSet[str]:
        return self.contested.get(kind, _NONE) | self.refused.get(kind, _NONE)

    def without(self, acts: Iterable[Act]) -> Goal:
        """The goal with these left unchanged as well, since the API server rejects them."""
        refused = {kind: set(keys) for kind, keys in self.refused.items()}
        for kind, key, _ in acts:
            refused.setdefault(kind, set()).add(key)
        return replace(self, refused=refused)

    def unlisted(self, kind: Kind) -> bool:
        """Whether the API server rejects the list of keys of that kind."""
        return annotation(LISTS[kind], self.instance) in self.refused.get(Kind.ANNOTATIONS, _NONE)


def plan(
    desired: Mapping[str, str],
    owned: AbstractSet[str],
    actual: Mapping[str, str],
    *,
    overwrite: bool,
    kept: AbstractSet[str] = _NONE,
    shared: AbstractSet[str] = _NONE,
) -> Change:
    """Decide how `actual` becomes `desired`. `shared` keys that another product has set are its own, whatever their
    value."""
    foreign = actual.keys() - owned
    refused = {
        key for key in foreign & desired.keys() if key in shared or (not overwrite and actual[key] != desired[key])
    }
    return Change(
        write={
            key: value
            for key, value in desired.items()
            if key not in refused and key not in kept and actual.get(key) != value
        },
        remove=frozenset((owned - desired.keys() - kept) & actual.keys()),
        refused=frozenset(refused),
        kept=frozenset(kept & actual.keys()),
    )


def listed_and_managed(goal: Goal, node: Node) -> tuple[Owned, Owned]:
    """What the Node's lists name, and what of it nfd may change."""
    listed = _owned_before(goal, node)
    return listed, _ours(listed, goal, node)


def plan_node(goal: Goal, node: Node) -> NodePlan:
    """The plan of one pass over one Node: all kinds, and the bookkeeping."""
    desired, (listed, before) = goal.desired, listed_and_managed(goal, node)
    changes = {kind: plan_kind(kind, goal, before, node) for kind in Kind}
    owned = Owned(
        keys={kind: _own(goal, before, change, kind) for kind, change in changes.items()},
        taints=dict(before.taints)
        | {key: text for key, text in desired.of(Kind.TAINTS).items() if key not in changes[Kind.TAINTS].kept},
        boot_id=desired.boot_id or before.boot_id,
        alone=goal.fresh.alone or (before.alone and not goal.fresh.reported),
        at=desired.at if desired.boot_id else before.at,
    )
    listed_after = {kind: listed.of(kind) if goal.unlisted(kind) else owned.of(kind) for kind in Kind}
    wanted = render_owned(replace(owned, keys=listed_after), goal.instance, node.uid, goal.proof)
    left, idle = goal.leaving(Kind.ANNOTATIONS), not any(one.write or one.remove for one in changes.values())
    return NodePlan(
        node=node,
        changes=changes,
        owned=owned,
        records={
            key: text
            for key, text in wanted.items()
            if key not in left and not _is_current(key, text, goal, before, node, idle=idle)
        },
        forgotten=frozenset((_removable_records(goal, before, node) & node.annotations.keys()) - wanted.keys() - left),
        goal=goal,
        before=listed,
        left=frozenset((kind, key) for kind in Kind for key in _left(kind, listed, before, goal, node)),
        conditions={
            name: one
            for name, one in goal.conditions.items()
            if node.conditions.get(name) != one and name not in goal.contested.get(CONDITIONS, _NONE)
        },
    )


def _left(kind: Kind, listed: Owned, ours: Owned, goal: Goal, node: Node) -> AbstractSet[str]:
    """Keys that are in the Node's list and on the Node, are not desired, and may not be removed."""
    return (listed.of(kind).keys() - ours.of(kind).keys() - goal.desired.of(kind).keys()) & node.actual(kind).keys()


def _ours(listed: Owned, goal: Goal, node: Node) -> Owned:
    """The managed keys, without those that a list names but nfd may not change.

    Nobody knows who wrote a list without a proof, and a shared label belongs to its latest writer.
    """
    foreign = SHARED & (goal.foreign | node.writers.keys())
    others = {
        kind: _not_removable(kind, keys, goal.policy) | (foreign & keys.keys() if kind is Kind.LABELS else _NONE)
        for kind, keys in listed.keys.items()
    }
    if not any(others.values()):
        return listed
    keys = {kind: {key: keys[key] for key in keys if key not in others[kind]} for kind, keys in listed.keys.items()}
    return replace(listed, keys=keys)


def _not_removable(kind: Kind, keys: Mapping[str, Origin], policy: Policy) -> frozenset[str]:
    """Keys of a list that nfd may not remove. Nodes with equal lists share the parsed one, so it is checked once."""
    identity = kind, id(keys), id(policy)
    if (known := _checked.get(identity)) is not None:
        _checked.move_to_end(identity)
        return known[2]
    found = frozenset(
        key
        for key, origin in keys.items()
        if not may_remove(kind.one, _bare(kind, key), policy, proven=origin != CLAIMED)
    )
    if sum(map(len, keys)) <= LONGEST:
        _checked.put(identity, (keys, policy, found))
    return found


_checked = LruCache[tuple[Kind, int, int], tuple[Mapping[str, Origin], Policy, frozenset[str]]](CACHED_LISTS)
"""By identity; an entry keeps its list and policy alive."""


def _bare(kind: Kind, key: str) -> str:
    return key.rpartition(":")[0] if kind is Kind.TAINTS else key


def _is_current(key: str, text: str, goal: Goal, before: Owned, node: Node, *, idle: bool) -> bool:
    """Whether a bookkeeping annotation need not be written. A newer report alone, or a proof that ends with this
    process, is no reason to write, but a key that the newer report changes is: an older report must not pass for it.
    """
    present = node.annotations.get(key, "")
    if idle and key == annotation(ORIGINS, goal.instance) and (not before.doubt or not goal.proof.lasting):
        return present == text or are_equivalent(present, text)
    return present == text


def _owned_before(goal: Goal, node: Node) -> Owned:
    """The managed keys from the Node's record, and those that could not be recorded there."""
    found = parse_owned(node.annotations, goal.instance, node.uid, goal.proof)
    if goal.remembered is None:
        return found
    return replace(found, keys={kind: {**found.of(kind), **goal.remembered.of(kind)} for kind in Kind})


def plan_kind(kind: Kind, goal: Goal, before: Owned, node: Node) -> Change:
    """The change of the keys of one kind; `before` are the managed ones."""
    desired = goal.desired
    owned, wanted = before.of(kind), desired.of(kind)
    if not owned and not wanted:
        return Change()
    actual = node.actual(kind)
    if kind is Kind.RESOURCES:
        actual = {key: _spelt(text, wanted.get(key)) for key, text in actual.items()}
    leaving = goal.leaving(kind)
    if kind is Kind.TAINTS and goal.unlisted(kind):
        leaving = leaving | wanted.keys() | owned.keys()  # an unrecorded taint would never be removed
    silent = {origin for origin in set(owned.values()) if not goal.fresh.proves_absent(origin)}
    kept: set[str] = set()
    if goal.fresh.adds_only:
        kept = {key for key in actual if key in wanted or key not in owned or owned[key] in silent}
    elif silent:
        kept = {
            key
            for key, origin in owned.items()
            if origin in silent and key in actual and _holds(key, origin, desired, kind)
        }
    if goal.fresh.partial:
        kept |= desired.unknown(kind, goal.fresh) & owned.keys() & actual.keys()
    if kind is Kind.LABELS:
        kept -= desired.disproved.keys()
    return plan(
        wanted,
        owned.keys(),
        actual,
        overwrite=goal.overwrite,
        kept=kept | leaving,
        shared=wanted.keys() if kind is Kind.TAINTS else SHARED,
    )


def _holds(key: str, origin: Origin, desired: Desired, kind: Kind) -> bool:
    """Whether a managed key must stay as it is because nothing fresh is known of its origin.

    A key of a failed source is also kept against other values. A key of unknown origin is kept only against removal.
    """
    return key not in desired.of(kind) or (origin not in (None, CLAIMED) and origin != desired.origin(kind, key))


def _own(goal: Goal, before: Owned, change: Change, kind: Kind) -> dict[str, Origin]:
    """The managed keys after the change: desired keys that the Node has, and kept keys with their old origin."""
    earlier, desired, origins = before.of(kind), goal.desired, goal.desired.origins.get(kind, {})
    wanted = () if kind is Kind.TAINTS and goal.unlisted(kind) else desired.of(kind)
    left = change.refused | change.kept | goal.refused.get(kind, _NONE)
    left |= goal.contested.get(kind, _NONE) - earlier.keys()
    kept = {key: earlier[key] for key in change.kept if key in earlier}
    return {key: origins.get(key) for key in wanted if key not in left} | kept


def _spelt(actual: str, wanted: str | None) -> str:
    """The API server writes 1000 as 1k: an equal quantity counts as the desired text."""
    return wanted if wanted is not None and same_quantity(actual, wanted) else actual


def _removable_records(goal: Goal, before: Owned, node: Node) -> frozenset[str]:
    """The bookkeeping annotations that are removed if they are not needed.

    All instances share the list of taints. A master that may not set taints and manages none leaves the list of another
    instance, which could not remove its taints otherwise.
    """
    found = bookkeeping(goal.instance)
    if goal.purge:
        prefix = annotation("", goal.instance)
        found |= frozenset(key for key in node.annotations if key.startswith(prefix))
    if goal.policy.enable_taints or before.of(Kind.TAINTS):
        return found
    return found - {annotation(LISTS[Kind.TAINTS])}


def count_removals(planned: NodePlan, desired: Desired, *, silent: bool) -> Counter[tuple[str, str]]:
    """(kind, cause) → number of keys; kinds as in `Dropped`, causes as in the metric `node_keys_removed`.

    `silent`: the worker has been silent for too long.
    """
    found: Counter[tuple[str, str]] = Counter()
    if not any(change.remove for change in planned.changes.values()):
        return found
    forbidden = {(dropped.kind, dropped.key) for dropped in desired.dropped}
    for place, change in planned.changes.items():
        kind = place.one
        for key in change.remove:
            cause = "policy" if (kind, key) in forbidden else _cause(planned.before.of(place).get(key))
            found[kind, "silence" if silent and cause in ("scan", "unknown") else cause] += 1
    return found


def _cause(origin: Origin) -> str:
    if origin is None:
        return "scan"  # by a worker that names no sources, as NFD's
    if origin == CLAIMED:
        return "unknown"
    return "rule" if origin.startswith(RULE_ORIGIN) else "object" if origin.startswith(OBJECT_ORIGIN) else "scan"
