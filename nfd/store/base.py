"""What the master knows of a Node, and what it asks of the place where Nodes are kept."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol

from nfd import names

FIELD_MANAGER = "nfd-gfd"
"""The field manager of nfd in `metadata.managedFields`."""

PREDECESSOR = "nfd-master"
"""The field manager of NFD; keys that it wrote stay managed."""

LONGEST_ANNOTATION = 1024
"""Bytes; NFD's limit for feature annotations. A longer one is managed by nfd only if it lists owned keys."""

_LONGEST_SHOWN = 80
"""Characters of a value in a message."""


class Kind(StrEnum):
    """The four things a master sets on a Node."""

    LABELS = "labels"
    ANNOTATIONS = "annotations"
    RESOURCES = "extendedResources"
    TAINTS = "taints"

    one: str
    """One of them, as `Dropped` and metrics name it: `label`."""

    def __init__(self, kind: str) -> None:
        self.one = kind.removesuffix("s")


@dataclass(frozen=True, slots=True)
class Condition:
    """A Node condition; `status` is True, False or Unknown."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Node:
    """A v1 Node, trimmed to what is planned with.

    `version` is the resourceVersion; `resources` are the extended resources of `status.capacity`; `taints` are whole.
    `writer` is who last wrote anything but the status, from `metadata.managedFields`; "" if unknown. `writers` are the
    managers of labels that were set neither by this product nor by NFD, without those of Kubernetes itself. `spec`
    changes with the rest of the spec. `allocatable` has the same resources of `status.allocatable`; nothing is planned
    with it. `conditions` are those of nfd, by type. `cut` is the number of bytes by which annotations were shortened.
    """

    name: str
    uid: str
    version: str
    boot_id: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    resources: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    writer: str = ""
    writers: Mapping[str, str] = field(default_factory=dict)
    spec: int = 0
    allocatable: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    cut: int = 0

    @classmethod
    def bare(cls, name: str, uid: str = "") -> Node:
        """One with nothing on it."""
        return cls(name, uid, "", "", {}, {}, {}, ())

    def actual(self, kind: Kind) -> Mapping[str, str]:
        """The present values of one kind; a taint is `KEY:EFFECT` → value."""
        if kind is Kind.TAINTS:
            return {taint_id(taint): taint.get("value", "") for taint in self.taints}
        found: Mapping[str, str] = getattr(self, "resources" if kind is Kind.RESOURCES else kind.value)
        return found

    def same_content(self, other: Node) -> bool:
        """Whether a plan made for one holds for the other: all but version, last writer and `cut`."""
        return self is other or all(getattr(self, name) == getattr(other, name) for name in _CONTENT)

    def same_but_status(self, other: Node) -> bool:
        """Whether the API server's admission sees the same Node, but for what kubelets write into its status."""
        return all(getattr(self, name) == getattr(other, name) for name in _DECLARED)


_DECLARED = ("uid", "labels", "annotations", "taints", "spec")
_CONTENT = (*_DECLARED, "boot_id", "resources", "writers", "conditions")


def taint_id(taint: Mapping[str, str]) -> str:
    """The identity of a taint on a Node: key and effect."""
    return f"{taint.get('key', '')}:{taint.get('effect', '')}"


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch (RFC 7386) of one Node; `subresource` is "" or `status`.

    One with conditions is a strategic merge patch (Kubernetes documentation, "Update API Objects in Place Using kubectl
    patch"): a JSON merge patch would replace the conditions of all owners.
    """

    body: Mapping[str, Any]
    subresource: str = ""
    strategic: bool = False


class NodeStore(Protocol):
    """A place where Nodes are kept, with a cache of all of them that follows every change."""

    @property
    def selector(self) -> str:
        """The label selector of the Nodes that it reports; "" if of all. For it, others do not exist."""

    async def start(self, changed: Callable[[str], None]) -> None:
        """Fill the cache, then keep it filled; `changed(name)` is called for each Node that came, changed or went.

        Changes that a call returns are not reported again.

        Raises: Forbidden, ConfigError; an unreachable server is waited for.
        """

    @property
    def connected(self) -> bool:
        """Whether changes are being received."""

    def get(self, name: str) -> Node | None:
        """The last known state of the Node."""

    def names(self) -> Collection[str]:
        """The names of all Nodes, as a view: it follows changes, and its length is not counted anew."""

    async def read(self, name: str) -> Node:
        """The Node as it is now. Raises: NotFound and other KubeErrors."""

    async def ensure(self, name: str) -> Node | None:
        """The Node, created if this store creates its own Nodes; None if others have to create it."""

    async def patch(self, name: str, patch: Patch) -> Node:
        """Apply the patch and answer the Node after it.

        Raises: Conflict if `metadata.uid` or `metadata.resourceVersion` in the patch are not the Node's own, NotFound,
        Invalid, Forbidden, Unavailable.
        """

    async def close(self) -> None:
        """Stop following changes."""


def trim(node: Mapping[str, Any], version: str | None = None) -> Node:
    """A Node object as JSON gives it → what is planned with; equal strings of all nodes share their memory.

    Raises: ValueError naming the part that is not as a v1 Node has it.
    """
    metadata, status = _mapping(node, "metadata"), _mapping(node, "status")
    spec = _mapping(node, "spec")
    annotations, cut = trim_annotations(metadata)
    resources = _extended(_mapping(status, "capacity"))
    allocatable = _extended(_mapping(status, "allocatable"))
    return Node(
        name=_text(metadata.get("name"), "metadata.name"),
        uid=_text(metadata.get("uid"), "metadata.uid"),
        version=version if version is not None else _text(metadata.get("resourceVersion"), "metadata.resourceVersion"),
        boot_id=_text(_mapping(status, "nodeInfo").get("bootID"), "status.nodeInfo.bootID"),
        labels=texts(_mapping(metadata, "labels"), "metadata.labels"),
        annotations=annotations,
        resources=resources,
        taints=_taints(spec.get("taints")),
        writer=last_writer(metadata.get("managedFields")),
        writers=label_writers(metadata.get("managedFields")),
        conditions=_conditions(status.get("conditions")),
        spec=zlib.crc32(repr(sorted((key, spec[key]) for key in spec if key != "taints")).encode()) if spec else 0,
        allocatable=resources if allocatable == resources else allocatable,
        cut=cut,
    )


def _extended(amounts: Mapping[Any, Any]) -> Mapping[str, str]:
    """Extended resources, interned."""
    return {sys.intern(key): sys.intern(str(value)) for key, value in amounts.items() if "/" in str(key)}


def trim_annotations(metadata: Mapping[str, Any]) -> tuple[Mapping[str, str], int]:
    """The annotations, and by how many bytes they were shortened. Very long ones, which nfd never writes, are
    shortened; they still differ from any that nfd would write."""
    found = _mapping(metadata, "annotations")
    long = {
        key: value
        for key, value in found.items()
        if isinstance(value, str)
        and len(value) > LONGEST_ANNOTATION
        and not names.is_below(str(key).rpartition("/")[0], names.NFD_NS)
    }
    if not long:
        return texts(found, "metadata.annotations"), 0
    short = {key: value[: LONGEST_ANNOTATION + 1] for key, value in long.items()}
    return texts({**found, **short}, "metadata.annotations"), size(long.values()) - size(short.values())


def size(values: Iterable[str]) -> int:
    """The number of bytes of these texts, as the API server counts them."""
    return sum(len(value.encode(errors="replace")) for value in values)


def texts(values: Mapping[Any, Any], where: str) -> Mapping[str, str]:
    """A mapping of text to text, interned. Raises: ValueError."""
    try:
        return {sys.intern(key): sys.intern(value) for key, value in values.items()}
    except TypeError as error:
        key, value = next(pair for pair in values.items() if {*map(type, pair)} != {str})
        raise ValueError(f"{where}: {str(key)[:80]!r}: {_shown(value)} is not text; quote it") from error


def last_writer(managed: Any) -> str:
    """The manager with the latest time among those that did not write a subresource; others go before ourselves."""
    if not isinstance(managed, list):
        return ""
    candidates = [
        (str(entry.get("time", "")), entry.get("manager") != FIELD_MANAGER, str(entry.get("manager", "")))
        for entry in managed
        if isinstance(entry, Mapping) and not entry.get("subresource")
    ]
    return sys.intern(max(candidates, default=("", True, ""))[2])


def label_writers(managed: Any) -> Mapping[str, str]:
    """Label → manager, as far as `metadata.managedFields` names others (Kubernetes, "Server-Side Apply")."""
    found: dict[str, str] = {}
    ours: list[Mapping[Any, Any]] = []
    for manager, fields in _managed_labels(managed):
        if manager in (FIELD_MANAGER, PREDECESSOR):
            ours.append(fields)
            continue
        for key in fields:
            if (field := str(key)).startswith("f:") and not _is_kubernetes(field[2:]):
                found[sys.intern(field[2:])] = sys.intern(manager)
    if not found:
        return _NOBODY
    return {key: manager for key, manager in found.items() if not any(f"f:{key}" in fields for fields in ours)}


_NOBODY: Mapping[str, str] = {}
_NO_CONDITIONS: Mapping[str, Condition] = {}


@lru_cache(1024)
def _is_kubernetes(key: str) -> bool:
    """Labels of kubelets and cloud providers, of which every Node has a dozen."""
    namespace = names.namespace_of(key)
    if namespace == names.FEATURE_NS:
        return False
    return names.is_below(namespace, "kubernetes.io") or names.is_below(namespace, "k8s.io")


def _managed_labels(managed: Any) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Each manager with the labels that it manages, as `f:KEY` → anything."""
    for entry in managed if isinstance(managed, list) else ():
        part: Any = entry
        for name in ("fieldsV1", "f:metadata", "f:labels"):
            part = part.get(name) if isinstance(part, Mapping) else None
        if isinstance(part, Mapping):
            yield str(entry.get("manager", "")), part


def _conditions(value: Any) -> Mapping[str, Condition]:
    """Those of nfd; others are not looked at."""
    found = {
        sys.intern(name): Condition(*(sys.intern(str(one.get(part) or "")) for part in ("status", "reason", "message")))
        for one in (value if isinstance(value, list) else ())
        if isinstance(one, Mapping)
        and isinstance(name := one.get("type"), str)
        and names.is_below(names.namespace_of(name), names.NFD_NS)
    }
    return found or _NO_CONDITIONS


def _taints(value: Any) -> tuple[Mapping[str, str], ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(taint, Mapping) for taint in value):
        raise ValueError("spec.taints: not a list of mappings")
    return tuple(texts(taint, "spec.taints") for taint in value)


def _mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key) if isinstance(parent, Mapping) else parent
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{key}: expected a mapping, found {type(value).__name__}")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{where}: {_shown(value)} is not text; quote it")
    return sys.intern(value)
