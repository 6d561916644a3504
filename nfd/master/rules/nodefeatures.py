"""NodeFeature objects of third parties, and how they join what the worker of a node reports (pure).

As NFD merges them (NFD documentation, "Customization guide", NodeFeature custom resource): objects of the master's own
namespace first, then by name, then by namespace; later ones win, labels as well as attributes. A worker's report stands
where the object of an NFD worker would, in our namespace under the name of the node.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from nfd.features import Features, Instance, from_json, merge
from nfd.kube.responses import specification
from nfd.master.node.desired import OBJECT
from nfd.master.node.ownership import Origin, Owned
from nfd.names import NFD_NS
from nfd.report import Report
from nfd.rules.policy import Policy, prefix_keys
from nfd.runtime import log
from nfd.runtime.cache import LruCache

ROOM = 32 * 1024
"""Letters that the labels of one object may have; a Node's bookkeeping has room for some 250,000 in all."""

NODE_NAME = f"{NFD_NS}/node-name"
"""The label of a NodeFeature that names its node."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FeatureObject:
    """A NodeFeature; `node` is empty if it names none.

    `kept` tells that it has an owner, as those of NFD's workers have: the API server removes it after that one.
    """

    namespace: str
    name: str
    node: str
    labels: Mapping[str, str] = field(default_factory=dict)
    features: Features = field(default_factory=Features)
    kept: bool = False

    @property
    def origin(self) -> str:
        return f"{OBJECT}{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Joining:
    """What the configuration says about it; `namespace` is the master's own."""

    policy: Policy = field(default_factory=Policy)
    namespace: str = ""
    deny_labels: bool = False

    def is_workers(self, one: FeatureObject) -> bool:
        """Whether NFD would take it for that of its own worker."""
        return one.namespace == self.namespace and one.name == one.node

    def place(self, namespace: str, name: str) -> tuple[bool, str, str]:
        """Where an object stands in the order."""
        return namespace != self.namespace, name, namespace


class FeatureInterner:
    """Values that many nodes have alike, such as the kernel's configuration, kept once: the latest ones."""

    def __init__(self, limit: int = 512) -> None:
        self._values = LruCache[Any, Any](limit)

    def share(self, features: Features) -> Features:
        """The same features, with values that are known already in place of equal ones."""
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
    """The node that an object is for by its metadata, whatever else is wrong with it; "" if none."""
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    node = labels.get(NODE_NAME) if isinstance(labels, Mapping) else None
    return node if isinstance(node, str) else ""


def parse_feature_object(item: Mapping[str, Any]) -> FeatureObject:
    """A NodeFeature as JSON gives it. Raises: ValueError naming the place that does not fit."""
    metadata, spec = _mapping(item.get("metadata"), "metadata"), specification(item)
    labels = _texts(spec.get("labels"), "spec.labels")
    if (size := sum(len(key) + len(value) for key, value in labels.items())) > ROOM:
        raise ValueError(f"spec.labels: {size} letters, at most {ROOM} are taken")
    node = _texts(metadata.get("labels"), "metadata.labels").get(NODE_NAME, "")
    name = _texts({key: metadata.get(key) or "" for key in ("namespace", "name")}, "metadata")
    features = from_json(_mapping(spec.get("features"), "spec.features"))
    kept = bool(metadata.get("ownerReferences"))
    return FeatureObject(name["namespace"], name["name"], sys.intern(node), labels, features, kept)


def report_of(one: FeatureObject) -> Report:
    """What NFD's own worker says in an object (NFD 0.17 and later): a whole, fresh report."""
    return Report(one.node, labels=one.labels, features=one.features)


def speak_alone(objects: Collection[FeatureObject], owned: Owned) -> bool:
    """Whether these objects of third parties are all that speaks for a node: no worker ever did, as far as is known.

    Once a worker has, its silence is no news, and what rules make of the objects alone is not what they make of all.
    """
    return owned.alone or bool(objects and not owned)


def join_objects(report: Report, objects: Iterable[FeatureObject], joining: Joining) -> Report:
    """The report with the features and labels of objects merged in; labels are prefixed, and their origins noted."""
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
    origins |= {key: _reported_origin(report, key) for key in reported}
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


def _reported_origin(report: Report, key: str) -> Origin:
    return report.origins.get(key if key in report.labels else key.rpartition("/")[2])


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
            raise ValueError(f"{where}: {str(key)[:80]!r}: {str(text)[:80]!r} is not text")
    return found


REPORTED = "the node's own worker reports to this master"
SPOKEN = "nfd-worker has reported for this node before, and its next report is awaited"
WAITED = "a record on the node without a valid proof names an nfd-worker; the object is used once it changes"
UNSELECTED = "nodeFeatureNamespaceSelector leaves its namespace out"
UNLABELLED = "denyNodeFeatureLabels: its features count, its labels do not"

_log = log.get("master")


class Ignored:
    """By node the objects, as NAMESPACE/NAME, each with the reason."""

    def __init__(self) -> None:
        self._said: dict[str, Mapping[str, str]] = {}

    def tell(self, node: str, reasons: Mapping[str, str]) -> None:
        """Log those that are new, or have another reason than before."""
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
