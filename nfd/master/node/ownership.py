"""Ownership: which keys of a Node are managed, and the origin of each, as annotations of the Node.

The lists are NFD's own (NFD documentation, "Node annotations"), so that either product takes over from the other: keys
in order, without the default namespace; taints as `KEY=VALUE:EFFECT`, in the order of their rules. The rest is JSON in
`nfd.node.kubernetes.io/origins`: `boot`, the boot id of the report; `lists`, a digest of the lists; `proof`, that this
master wrote it for these lists on this Node; `alone`, if the node never had a worker, only objects of third parties;
and per kind the keys of each origin. Keys whose name implies the origin are left out (`cpu-…` comes from source `cpu`).
`NAMESPACE/*` stands for a namespace with a single origin, `*` for all keys that are not listed.
All instances share the list of taints, as in NFD. A record without taints does not cover it: the list may be that of
another instance.
`at` is the order within that boot, `[STARTED, SEQUENCE]`, of the report that the lists were written for; a newer report
alone is no reason to write.

Anyone who may annotate a Node may write all of that. So without a valid proof, `origins` is ignored, and every key of
the lists is CLAIMED: it may be managed, and its origin is unknown.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from nfd import names
from nfd.master.node.proof import UNPROVEN, Proof
from nfd.store.base import Kind

Origin = str | None
"""A source's name, `rule:OBJECT/RULE`, `object:NAMESPACE/NAME`; None for keys from a reporter that names no source."""
CLAIMED = "?"
"""Origin of keys that are in a list without a valid proof. It stays until they are desired or gone."""

LISTS = {
    Kind.LABELS: "feature-labels",
    Kind.ANNOTATIONS: "feature-annotations",
    Kind.RESOURCES: "extended-resources",
    Kind.TAINTS: "taints",
}
ORIGINS = "origins"
LEGACY = ("master.version", "worker.version")
"""Written by NFD up to 0.14; it is only removed."""

CACHED_LISTS = 256
"""Parsed lists that are cached: thousands of nodes have equal ones."""
LONGEST = 32 * 1024
"""Letters of the longest list that is cached. A list of 61 labels has 2,000; a forged one may fill the annotations."""

_DEFAULT = names.FEATURE_NS + "/"
_NAMELESS = "-"
_ALL = "*"
UNSIGNED = "the lists of managed keys on the Node have no proof that this master wrote them"
FOREIGN = "another writer changed the lists of managed keys on the Node after this master"
OTHER_KEY = "the proof on the Node was made with another key, or for another Node"


@dataclass(frozen=True, slots=True)
class Owned:
    """The managed keys of each kind, each with its origin; `taints` has the values from the list annotation.

    `alone`: the node never had a worker; all keys come from objects of third parties. `doubt` is the reason why
    existing lists are not proven. `hint`: an unproven record matches its lists and names a boot id, which is a reason
    to wait, but not to change anything. `at` is the order, within the boot, of the report for which the lists were
    written.
    """

    keys: Mapping[Kind, Mapping[str, Origin]] = field(default_factory=dict)
    taints: Mapping[str, str] = field(default_factory=dict)
    boot_id: str = ""
    alone: bool = False
    doubt: str = ""
    hint: bool = False
    at: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return bool(self.boot_id or any(self.keys.values()))

    def of(self, kind: Kind) -> Mapping[str, Origin]:
        return self.keys.get(kind, {})


def annotation(name: str, instance: str = "") -> str:
    """The key of a bookkeeping annotation; `--instance` is its prefix, except for taints, as in NFD."""
    prefix = f"{instance}." if instance and name != LISTS[Kind.TAINTS] else ""
    return f"{prefix}{names.NFD_NS}/{name}"


def bookkeeping(instance: str = "") -> frozenset[str]:
    """The bookkeeping annotations, including those of older releases."""
    return frozenset(annotation(name, instance) for name in (*LISTS.values(), ORIGINS, *LEGACY))


def instances(annotations: Iterable[str]) -> list[str]:
    """The instances of the masters that have written annotations of a Node, "" for one without `--instance`."""
    return sorted({found for key in annotations if (found := names.instance_of(key)) is not None})


def parse_owned(annotations: Mapping[str, str], instance: str = "", uid: str = "", proof: Proof = UNPROVEN) -> Owned:
    """Parse the bookkeeping of the Node with that uid; invalid parts are ignored."""
    lists = {kind: annotations.get(annotation(name, instance), "") for kind, name in LISTS.items()}
    record = _parse_origins(annotations.get(annotation(ORIGINS, instance), ""))
    signed = lists if Kind.TAINTS.value in record else {**lists, Kind.TAINTS: ""}
    fits = record.get("lists") == _digest(signed.values())
    known = fits and _is_proven(record, signed.values(), instance, uid, proof)
    parse = _parse_keys if sum(map(len, annotations.values())) <= LONGEST else _parse_keys.__wrapped__
    proven = [kind for kind, text in lists.items() if known and text == signed[kind]]
    explicit = {kind: _explicit(record.get(kind.value)) for kind in proven}
    keys = {kind: parse(text, kind is Kind.TAINTS, explicit.get(kind)) for kind, text in lists.items()}
    taints, boot_id = dict(_parse_taints(lists[Kind.TAINTS])), record.get("boot", "")
    if not known:
        return Owned(keys, taints, doubt=_doubt(record, lists.values(), fits), hint=fits and bool(boot_id))
    boot_id = boot_id if isinstance(boot_id, str) else ""
    return Owned(keys, taints, boot_id, record.get("alone") is True, at=_parse_at(record.get("at")))


def _is_proven(record: Mapping[str, Any], lists: Iterable[str], instance: str, uid: str, proof: Proof) -> bool:
    signed = {key: value for key, value in record.items() if key != "proof"}
    try:
        return proof.holds(uid, instance, signed, lists, record.get("proof"))
    except (ValueError, RecursionError):
        return False


def _doubt(record: Mapping[str, Any], lists: Iterable[str], fits: bool) -> str:
    if not any(lists):
        return ""
    if "lists" in record and not fits:
        return FOREIGN
    return OTHER_KEY if "proof" in record else UNSIGNED


def render_owned(owned: Owned, instance: str = "", uid: str = "", proof: Proof = UNPROVEN) -> dict[str, str]:
    """The bookkeeping annotations for the Node with that uid; those with an empty list are left out."""
    letters = sum(len(key) for keys in owned.keys.values() for key in keys)
    render = _render_keys if letters <= LONGEST else _render_keys.__wrapped__
    found = {kind: render(frozenset(owned.of(kind).items())) for kind in LISTS}
    lists = {kind: text for kind, (text, _) in found.items()}
    lists[Kind.TAINTS] = ",".join(_taint(key, owned.taints.get(key, "")) for key in owned.of(Kind.TAINTS))
    rendered = {annotation(LISTS[kind], instance): text for kind, text in lists.items() if text}
    if not rendered:
        return {}
    record: dict[str, Any] = {"boot": owned.boot_id} if owned.boot_id else {}
    record |= {"at": list(owned.at)} if owned.boot_id and owned.at else {}
    record |= {"alone": True} if owned.alone else {}
    known = any(origin not in (None, CLAIMED) for keys in owned.keys.values() for origin in keys.values())
    if known or proof.lasting or (proof and record):
        record["lists"] = _digest(lists.values())
        record |= {kind.value: groups for kind, (_, groups) in found.items() if groups}
        if proof:
            record["proof"] = proof.make(uid, instance, record, lists.values())
    if record:
        rendered[annotation(ORIGINS, instance)] = json.dumps(record, separators=(",", ":"), sort_keys=True)
    return rendered


def are_equivalent(one: str, other: str) -> bool:
    """Whether two records are equal apart from their proofs and the report that they were written for."""
    first, second = ({**_parse_origins(text), "proof": "", "at": ""} for text in (one, other))
    return bool(one and other) and first == second


def lasting_part(record: str) -> str:
    """One of this master's records without its proof and the report that it was written for, to compare it."""
    return json.dumps({**_parse_origins(record), "proof": "", "at": ""}, sort_keys=True)


def _parse_at(value: Any) -> tuple[int, int] | None:
    if isinstance(value, list) and len(value) == 2 and all(type(one) is int for one in value):
        return value[0], value[1]
    return None


def implied_origin(key: str) -> Origin:
    """The built-in source that a key of the default namespace implies by the part before its first dash; else None."""
    source, dash, _ = key.removeprefix(_DEFAULT).partition("-")
    return source if dash and key.startswith(_DEFAULT) else None


@lru_cache(CACHED_LISTS)
def _render_keys(owned: frozenset[tuple[str, Origin]]) -> tuple[str, Mapping[str, list[str]]]:
    """The list of the keys, and origin → short keys for all keys whose origin is not implied."""
    keys = dict(owned)
    uniform, rest = _uniform_namespaces(keys), _rest(keys)
    groups: dict[str, set[str]] = {}
    for key, origin in keys.items():
        if origin == implied_origin(key) and origin is not None:
            continue
        namespace, group = names.namespace_of(key), _NAMELESS if origin is None else origin
        item = _ALL if group == rest else f"{namespace}/*" if namespace in uniform else listed_name(key)
        groups.setdefault(group, set()).add(item)
    text = ",".join(sorted(map(listed_name, keys)))
    return text, {origin: sorted(items) for origin, items in sorted(groups.items())}


def _rest(keys: Mapping[str, Origin]) -> str:
    """The origin of all keys that are not listed, as it is written; NFD's workers name no origin for dozens of keys."""
    if any(origin is not None and origin == implied_origin(key) for key, origin in keys.items()):
        return ""
    return _NAMELESS if None in keys.values() else CLAIMED


def _uniform_namespaces(keys: Mapping[str, Origin]) -> frozenset[str]:
    """Namespaces other than the default whose keys all have one origin."""
    origins: dict[str, set[Origin]] = {}
    for key, origin in keys.items():
        origins.setdefault(names.namespace_of(key), set()).add(origin)
    return frozenset(name for name, found in origins.items() if len(found) == 1 and name not in ("", names.FEATURE_NS))


def _explicit(groups: Any) -> tuple[tuple[str, Origin], ...]:
    """Short keys and their explicit origins."""
    return tuple(
        (str(item), None if origin == _NAMELESS else str(origin))
        for origin, items in (groups.items() if isinstance(groups, Mapping) else ())
        for item in (items if isinstance(items, list) else ())
    )


@lru_cache(CACHED_LISTS)
def _parse_keys(text: str, are_taints: bool, explicit: tuple[tuple[str, Origin], ...] | None) -> Mapping[str, Origin]:
    """The keys of a list, each with its origin; without `explicit` all are CLAIMED."""
    keys = dict(_parse_taints(text)) if are_taints else [names.listed_key(item) for item in text.split(",") if item]
    if explicit is None:
        return MappingProxyType(dict.fromkeys(keys, CLAIMED))
    written = dict(explicit)
    found: dict[str, Origin] = {}
    for key in keys:
        wildcard = f"{names.namespace_of(key)}/*"
        rest = written[_ALL] if _ALL in written else implied_origin(key)
        found[key] = written.get(listed_name(key), written.get(wildcard, rest))
    return MappingProxyType(found)


def _parse_origins(text: str) -> Mapping[str, Any]:
    try:
        record = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, Mapping) else {}


def listed_name(key: str) -> str:
    """A key as a list has it: without the default namespace; a key without any namespace begins with a slash."""
    return key.removeprefix(_DEFAULT) if "/" in key else f"/{key}"


def _taint(key: str, value: str) -> str:
    name, _, effect = key.rpartition(":")
    return f"{name}={value}:{effect}" if value else key


def _parse_taints(text: str) -> Iterator[tuple[str, str]]:
    for item in text.split(","):
        rest, colon, effect = item.rpartition(":")
        if colon:
            key, _, value = rest.partition("=")
            yield f"{key}:{effect}", value


def _digest(lists: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(lists).encode(errors="replace"), digest_size=4).hexdigest()
