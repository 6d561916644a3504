"""NodeFeature objects of third parties, and how they are merged with the report of a node's worker (pure).

As NFD merges them (NFD documentation, "Customization guide", NodeFeature custom resource): objects of the master's
namespace first, then by name, then by namespace. Later ones win, for labels and attributes. A worker's report has the
place of an NFD worker's object: in the master's namespace, with the name of the node.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from nfd.features import Features, Instance, from_json, merge
from nfd.kube.responses import specification
from nfd.master.node.desired import OBJECT_ORIGIN
from nfd.master.node.ownership import Origin, Owned
from nfd.names import NFD_NS
from nfd.report import Report
from nfd.rules.policy import Policy, origin_of, prefix_keys
from nfd.runtime import log
from nfd.runtime.cache import LruCache

MAX_LETTERS = 32 * 1024
"""The most letters of the labels of one object; the bookkeeping of a Node can list about 250,000 in all."""

NODE_NAME = f"{NFD_NS}/node-name"
"""The label of a NodeFeature that names its node."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FeatureObject:
    """A NodeFeature; `node` is "" if it names none.

    `kept`: it has an owner, as the objects of NFD's workers have, so the API server deletes it after its owner.
    """

    namespace: str
    name: str
    node: str
    labels: Mapping[str, str] = field(default_factory=dict)
    features: Features = field(default_factory=Features)
    kept: bool = False

    @property
    def origin(self) -> str:
        return f"{OBJECT_ORIGIN}{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Joining:
    """Options that concern the objects; `namespace` is the master's own."""

    policy: Policy = field(default_factory=Policy)
    namespace: str = ""
    deny_labels: bool = False

    def is_workers(self, one: FeatureObject) -> bool:
        """Whether NFD would treat it as the object of its own worker."""
        return one.namespace == self.namespace and one.name == one.node

    def place(self, namespace: str, name: str) -> tuple[bool, str, str]:
        """The sort key of an object."""
        return namespace != self.namespace, name, namespace


class FeatureInterner:
    """Replaces equal values by one object, such as the kernel configuration of many nodes; keeps the most recent."""

    def __init__(self, limit: int = 512) -> None:
        self._values = LruCache[Any, Any](limit)

    def share(self, features: Features) -> Features:
        """The features with known values in place of equal ones."""
        return Features(
            {name: self._known(("flags", elements), elements) for name, elements in features.flags.items()},
            {
                name: self._known(("attributes", frozenset(values.items())), values)
                for name, values in features.attributes.items()
            },
            {name: self._known(("instances", _key(found)), found) for name, found in features.instances.items()},
        )

    def _known(self, key: Any, value: T) -> T:
        known: T = self._values.get(key, value)
        self._values.put(key, known)
        return known


def _key(instances: tuple[Instance, ...]) -> Any:
    return tuple(frozenset(one.items()) for one in instances)


def node_of(metadata: object) -> str:
    """The node in an object's metadata, even if the rest is invalid; "" if none."""
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    node = labels.get(NODE_NAME) if isinstance(labels, Mapping) else None
    return node if isinstance(node, str) else ""


def parse_feature_object(item: Mapping[str, Any]) -> FeatureObject:
    """Parse a NodeFeature from JSON. Raises: ValueError with the invalid field."""
    metadata, spec = _mapping(item.get("metadata"), "metadata"), specification(item)
    labels = _texts(spec.get("labels"), "spec.labels")
    if (size := sum(len(key) + len(value) for key, value in labels.items())) > MAX_LETTERS:
        raise ValueError(f"spec.labels: {size} letters, at most {MAX_LETTERS} are allowed")
    node = _texts(metadata.get("labels"), "metadata.labels").get(NODE_NAME, "")
    name = _texts({key: metadata.get(key) or "" for key in ("namespace", "name")}, "metadata")
    features = from_json(_mapping(spec.get("features"), "spec.features"))
    kept = bool(metadata.get("ownerReferences"))
    return FeatureObject(name["namespace"], name["name"], sys.intern(node), labels, features, kept)


def report_of(one: FeatureObject) -> Report:
    """The report in an object of NFD's own worker (NFD 0.17 and later), which is complete and fresh."""
    return Report(one.node, labels=one.labels, features=one.features)


def speak_alone(objects: Collection[FeatureObject], owned: Owned) -> bool:
    """Whether these objects of third parties are all that is known of a node: it never had a worker.

    Once it had one, a missing report proves nothing, and rules on the objects alone give other results than on all
    features.
    """
    return owned.alone or bool(objects and not owned)


def join_objects(report: Report, objects: Iterable[FeatureObject], joining: Joining) -> Report:
    """The report merged with the features and labels of objects; labels get prefixes and origins."""
    ordered = sorted(objects, key=lambda one: joining.place(one.namespace, one.name))
    if not ordered:
        return report
    own = joining.place(joining.namespace, report.node)
    before = [one for one in ordered if joining.place(one.namespace, one.name) < own]
    after = ordered[len(before) :]
    labels: dict[str, str] = {}
    origins: dict[str, Origin] = {}
    for one in before:
        _add_labels(one, joining, labels, origins)
    reported = prefix_keys(report.labels, joining.policy)
    labels |= reported
    origins |= {key: origin_of(key, report.labels, report.origins) for key in reported}
    for one in after:
        _add_labels(one, joining, labels, origins)
    features = merge([*(one.features for one in before), report.features, *(one.features for one in after)])
    known = {key: origin for key, origin in origins.items() if origin is not None}
    annotations = {key: origin for key, origin in report.origins.items() if key in report.annotations}
    return replace(report, labels=labels, origins=annotations | known, features=features)


def _add_labels(one: FeatureObject, joining: Joining, labels: dict[str, str], origins: dict[str, Origin]) -> None:
    if joining.deny_labels and not joining.is_workers(one):
        return
    found = prefix_keys(one.labels, joining.policy)
    labels |= found
    origins |= dict.fromkeys(found, one.origin)


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: expected a mapping, found {type(value).__name__}")
    return value


def _texts(value: Any, where: str) -> Mapping[str, str]:
    found = _mapping(value, where)
    for key, text in found.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise ValueError(f"{where}: {str(key)[:80]!r}: {str(text)[:80]!r} is not a string")
    return found


REPORTED = "the node's worker reports to this master"
REPORTED_BEFORE = "nfd-worker reported for this node before; the master waits for its next report"
AWAITED = "the Node has a record of an nfd-worker without a valid proof; the object is used once it changes"
UNSELECTED = "nodeFeatureNamespaceSelector does not select its namespace"
UNLABELLED = "denyNodeFeatureLabels: its features are used, its labels are not"

_log = log.get("master")


class Ignored:
    """The ignored objects of each node, as NAMESPACE/NAME, with their reasons; each is logged once."""

    def __init__(self) -> None:
        self._said: dict[str, Mapping[str, str]] = {}

    def log_new(self, node: str, reasons: Mapping[str, str]) -> None:
        """Log objects that are new or have a new reason."""
        before = self._said.get(node, {})
        if reasons == before:
            return
        for path, reason in reasons.items():
            if before.get(path) != reason:
                _log.info("NodeFeature ignored", path=path, node=node, error=reason)
        if reasons:
            self._said[node] = reasons
        else:
            del self._said[node]

    def forget(self, node: str) -> None:
        """The Node is gone."""
        self._said.pop(node, None)
