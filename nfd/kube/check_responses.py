"""What a Kubernetes API server answers with: lists, objects and watch events of the kind, version and name asked for.

A status of success is no proof of that: a proxy, a load balancer or a portal in between answers 200 with JSON of its
own. An answer that differs from the Kubernetes documentation, "Kubernetes API concepts", is an error: it never counts
as a change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from nfd.errors import Expired, Unavailable

KINDS = {
    "configmaps": "ConfigMap",
    "daemonsets": "DaemonSet",
    "deployments": "Deployment",
    "jobs": "Job",
    "leases": "Lease",
    "namespaces": "Namespace",
    "nodefeaturegroups": "NodeFeatureGroup",
    "nodefeaturerules": "NodeFeatureRule",
    "nodefeatures": "NodeFeature",
    "noderesourcetopologies": "NodeResourceTopology",
    "nodes": "Node",
    "pods": "Pod",
    "resourceclaims": "ResourceClaim",
    "resourceslices": "ResourceSlice",
    "secrets": "Secret",
    "subjectaccessreviews": "SubjectAccessReview",
    "tokenreviews": "TokenReview",
}
"""By the name that a path has."""
META = "meta.k8s.io/v1"
METADATA = "PartialObjectMetadata"
EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
_LONGEST_REASON = 500
"""Characters of what an error event says."""
_ADVICE = "is this a Kubernetes API server?"
_BEGINNING = re.compile(
    rb'\{"kind":"\w+","apiVersion":"[\w./]+",'
    rb'"metadata":\{"name":"([^"\\]+)","uid":"([^"\\]+)","resourceVersion":"(\w+)"'
)
"""Of an object without a namespace: the order of the fields in ObjectMeta (Kubernetes API reference)."""
Json = Mapping[str, Any]
Key = tuple[str, str]
"""Namespace, "" if there is none, and name of an object."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a path stands for: objects of a kind or, with a `name`, one of them."""

    path: str
    api_version: str
    kind: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of a list; `token` is for the next one, "" after the last."""

    items: list[Json]
    token: str
    version: str


@dataclass(frozen=True, slots=True)
class Event:
    """Of a watch: an object that came, changed or went, or (BOOKMARK) the version up to which all events were sent."""

    type: str
    item: Json
    version: str


def place_of(path: str, *, metadata_only: bool = False) -> Place:
    """Of a path of the API: `/api/v1/nodes`, `/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/status`."""
    first, *rest = path.strip("/").split("/")
    depth = 1 if first == "api" else 2
    version, parts = "/".join(rest[:depth]), rest[depth:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    version, kind = (META, METADATA) if metadata_only else (version, KINDS.get(parts[0], parts[0]))
    return Place(path, version, kind, unquote(parts[1]) if len(parts) > 1 else "")


def parse_page(answer: Any, place: Place) -> Page:
    """Raises: Unavailable for what is no list of that kind, with its version."""
    found = answer if isinstance(answer, Mapping) else {}
    metadata = found.get("metadata")
    version = _version_of(metadata)
    token = (metadata.get("continue") if isinstance(metadata, Mapping) else None) or ""
    items = found.get("items")
    if items is None and place.kind == METADATA and "items" in found:
        items = []  # so an empty list of metadata comes from a real server
    whole = (found.get("apiVersion"), found.get("kind")) == (place.api_version, f"{place.kind}List")
    if not (whole and version and isinstance(token, str) and isinstance(items, list)):
        raise _unavailable(f"GET {place.path}: the answer is not a {place.kind}List", answer)
    for item in items:
        if not _is_named(item) or not _is_of(item, place, listed=True):
            raise _unavailable(
                f"GET {place.path}: the answer is a list with an object that is not a {place.kind}", item
            )
    return Page(items, token, version)


def check_object(answer: Any, place: Place, method: str = "GET") -> Json:
    """An object of that kind and, if there is one, of that name. Raises: Unavailable."""
    if not isinstance(answer, Mapping) or not _is_of(answer, place) or not _is_named(answer):
        raise _unavailable(f"{method} {place.path}: the answer is not a {place.kind}", answer)
    if place.name and answer["metadata"]["name"] != place.name:
        raise _unavailable(f"{method} {place.path}: the answer is another {place.kind}", answer)
    return answer


def check_review(answer: Any, place: Place) -> Json:
    """The status of a review, which is no object of a name. Raises: Unavailable."""
    found = answer.get("status") if isinstance(answer, Mapping) and _is_of(answer, place) else None
    if not isinstance(found, Mapping):
        raise _unavailable(f"POST {place.path}: the answer is not a {place.kind}", answer)
    return found


def check_token_review(answer: Any, place: Place) -> Json:
    """Its status, in which `authenticated` is true or false and the user is one. Raises: Unavailable."""
    status = check_review(answer, place)
    user = _or(status.get("user"), {})
    extra = _or(user.get("extra"), {}) if isinstance(user, Mapping) else None
    whole = (
        isinstance(user, Mapping)
        and isinstance(_or(user.get("username"), ""), str)
        and isinstance(extra, Mapping)
        and all(_are_texts(values) for values in extra.values())
        and all(_are_texts(_or(one, [])) for one in (status.get("audiences"), user.get("groups")))
        and isinstance(_or(status.get("authenticated"), False), bool)
    )
    if not whole:
        raise _unavailable(f"POST {place.path}: the answer is not a {place.kind}", answer)
    return {**status, "user": {**user, "extra": extra}}


def parse_event(line: bytes, place: Place) -> Event:
    """Raises: Expired if the watch has to begin anew, Unavailable for another error, and for what is no event."""
    what = f"watch of {place.path}"
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Unavailable(f"{what}: invalid JSON:  {error}") from error
    kind = event.get("type") if isinstance(event, Mapping) else None
    item = event.get("object") if isinstance(event, Mapping) else None
    if kind == "ERROR" and isinstance(item, Mapping):
        said = " ".join(str(item.get("message") or item).split())[:_LONGEST_REASON]
        raise Expired(f"{what}: {said}") if item.get("code") == 410 else Unavailable(f"{what}: {said}")
    version = _version_of(item.get("metadata")) if isinstance(item, Mapping) else ""
    if kind not in EVENTS or not isinstance(item, Mapping) or not _is_of(item, place) or not version:
        raise _unavailable(f"{what}: not an event of a {place.kind}", event)
    if kind != "BOOKMARK" and not _is_named(item):
        raise _unavailable(f"{what}: not an event of a {place.kind}", event)
    return Event(kind, item, version)


def identified(answer: bytes) -> tuple[bytes, ...]:
    """Name, uid and version of an object that has no namespace, without parsing it; () for another beginning."""
    found = _BEGINNING.match(answer)
    return found.groups() if found is not None else ()


def identity(item: Json) -> Key:
    """Namespace ("" if there is none) and name."""
    metadata = item.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


def labels_of(item: Json) -> Mapping[str, str]:
    """Those in its metadata."""
    return dict((item.get("metadata") or {}).get("labels") or {})


def spec_version(item: Json) -> object:
    """Changes with the specification, not with the status (Kubernetes API conventions, "Metadata")."""
    metadata = item.get("metadata") or {}
    return metadata.get("uid"), metadata.get("generation")


def specification(item: Json, *fields: str) -> Json:
    """That of a custom resource, with lists in these fields. Raises: ValueError: none is not an empty one."""
    spec = item.get("spec")
    if not isinstance(spec, Mapping):
        raise ValueError(f"spec: {'is missing' if spec is None else 'is not a mapping'}")
    for field in fields:
        if not isinstance(spec.get(field), list):
            raise ValueError(f"spec.{field}: is not a list")
    return spec


def _version_of(metadata: object) -> str:
    """ "" if there is none."""
    version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    return version if isinstance(version, str) else ""


def _is_of(item: Json, place: Place, *, listed: bool = False) -> bool:
    """Objects in lists of built-in kinds do not say what they are."""
    said = item.get("apiVersion"), item.get("kind")
    return said == (place.api_version, place.kind) or (listed and said == (None, None))


def _is_named(item: object) -> bool:
    """Whether it has metadata with a name and, if any, a namespace."""
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    if not isinstance(metadata, Mapping) or not _is_text(metadata.get("name")):
        return False
    return isinstance(metadata.get("namespace") or "", str)


def _or(value: Any, default: Any) -> Any:
    """A field that Go leaves out, or writes as null, where it is empty."""
    return default if value is None else value


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(one, str) for one in values)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _unavailable(what: str, found: object) -> Unavailable:
    said = " ".join(str(found).split())
    return Unavailable(f"{what}; {_ADVICE} It says: {said[:_LONGEST_REASON]}")
