"""Objects of one custom resource, as the API server tells of them: parsed, by namespace and name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from nfd import log
from nfd.kube.watch import identity

API = "/apis/nfd.k8s-sigs.io/v1alpha1"
NODE_FEATURES = f"{API}/nodefeatures"
RULES = f"{API}/nodefeaturerules"
GROUPS = f"{API}/nodefeaturegroups"
NAMESPACES = "/api/v1/namespaces"

T = TypeVar("T")
Key = tuple[str, str]

_log = log.get("master")


def spec_version(item: Mapping[str, Any]) -> object:
    """Changes with the specification, not with the status."""
    metadata = item.get("metadata") or {}
    return metadata.get("uid"), metadata.get("generation")


def labels_of(item: Mapping[str, Any]) -> Mapping[str, str]:
    """Those in its metadata."""
    return dict((item.get("metadata") or {}).get("labels") or {})


def specification(item: Mapping[str, Any], *fields: str) -> Mapping[str, Any]:
    """That of a custom resource of ours, with lists in these fields. Raises: ValueError: none is not an empty one."""
    spec = item.get("spec")
    if not isinstance(spec, Mapping):
        raise ValueError(f"spec: {'is missing' if spec is None else 'is no mapping'}")
    for field in fields:
        if not isinstance(spec.get(field), list):
            raise ValueError(f"spec.{field}: is no list")
    return spec


class Mirrored(Generic[T]):
    """A Mirror. An object that cannot be parsed spoils only itself: what was known of it stays.

    `changed(before, now)` tells of each object that came, changed or went (then `now` is None; both are, if nothing was
    known of it). Objects of the same `version` are not parsed again, if one is given.
    """

    def __init__(
        self,
        parse: Callable[[Mapping[str, Any]], T],
        changed: Callable[[T | None, T | None], None],
        version: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        self.items: dict[Key, T] = {}
        self.statuses: dict[Key, Mapping[str, Any]] = {}
        self.malformed: dict[Key, str] = {}
        self.lost: dict[Key, object] = {}
        """Metadata of objects that exist, but make no sense, and of which nothing is known from before."""
        self.losses = 0
        """Counts the changes of `lost`."""
        self._parse = parse
        self._changed = changed
        self._version = version
        self._versions: dict[Key, object] = {}

    def put(self, item: Mapping[str, Any]) -> None:
        key = identity(item)
        status = item.get("status")
        self.statuses[key] = status if isinstance(status, Mapping) else {}
        version = self._version(item) if self._version is not None else None
        before = self.items.get(key)
        if before is not None and version is not None and self._versions.get(key) == version:
            return
        try:
            now = self._parse(item)
        except Exception as error:  # whatever it is, it is this object's alone
            self._refuse(item, key, str(error) or type(error).__name__)
            return
        self.malformed.pop(key, None)
        self._regained(key)
        self.items[key] = now
        self._versions[key] = version
        if before != now:
            self._changed(before, now)

    def drop(self, item: Mapping[str, Any]) -> None:
        self._forget(identity(item))

    def listed(self, seen: frozenset[Key]) -> None:
        for key in [key for key in self.statuses if key not in seen]:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        for memory in (self.statuses, self.malformed, self._versions):
            memory.pop(key, None)
        before = self.items.pop(key, None)
        if self._regained(key) or before is not None:
            self._changed(before, None)

    def _regained(self, key: Key) -> bool:
        """Whether it was lost until now."""
        if key not in self.lost:
            return False
        del self.lost[key]
        self.losses += 1
        return True

    def _refuse(self, item: Mapping[str, Any], key: Key, reason: str) -> None:
        if self.malformed.get(key) != reason:
            _log.warning("object makes no sense", path="/".join(key), kind=item.get("kind"), error=reason)
        self.malformed[key] = reason
        if key not in self.items:
            self.lost[key] = item.get("metadata")
            self.losses += 1
