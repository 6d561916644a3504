"""NodeFeature objects of third parties, and how they are merged with the report of a node's worker (pure).

As NFD merges them (NFD documentation, "Customization guide", NodeFeature custom resource): objects of the master's
namespace first, then by name, then by namespace. Later ones win, for labels and attributes. A worker's report has the
place of an NFD worker's object: in the master's namespace, with the name of the node.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any, NamedTuple, TypeVar

from nfd.features import Features, Instance, from_json, merge
from nfd.kube.check_responses import specification
from nfd.master.node.desired import OBJECT_ORIGIN
from nfd.master.node.ownership import Origin, Owned
from nfd.names import NFD_NS
from nfd.report import Report
from nfd.rules.policy import Policy, origin_of, prefix_keys
from nfd.runtime import log
from nfd.runtime.cache import LruCache

MAX_LETTERS = 32 * 1024
"""The most letters of the labels of one object; the bookkeeping of a Node can list about 250,000 in all."""

MOST_NAMES = 10
"""The most objects that one log line names."""

NODE_NAME = f"{NFD_NS}/node-name"
"""The label of a NodeFeature that names its node."""


_CREATED = "creationTimestamp"

T = TypeVar("T")


class Size(NamedTuple):
    """What objects ask of a pass over their node: their number, their labels and the letters of these, the elements of
    their features (names of flags, attributes, instances and the attributes of these)."""

    objects: int = 0
    labels: int = 0
    letters: int = 0
    elements: int = 0

    def plus(self, other: Size) -> Size:
        return Size(*(mine + more for mine, more in zip(self, other, strict=True)))

    def fits(self, limit: Size) -> bool:
        return all(mine <= most for mine, most in zip(self, limit, strict=True))


MOST = Size(objects=256, labels=4000, letters=128 * 1024, elements=50_000)
"""The most that the objects of one node may have together, in the master's namespace, and in all other namespaces."""


@dataclass(frozen=True, slots=True)
class FeatureObject:
    """A NodeFeature; `node` is "" if it names none.

    `kept`: it has an owner, as the objects of NFD's workers have, so the API server deletes it after its owner.
    `created` is the creationTimestamp, which the API server sets: RFC 3339 in UTC, so it sorts by time.
    """

    namespace: str
    name: str
    node: str
    labels: Mapping[str, str] = field(default_factory=dict)
    features: Features = field(default_factory=Features)
    kept: bool = False
    created: str = ""
    size: Size = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _size_of(self.labels, self.features))

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


def _size_of(labels: Mapping[str, str], features: Features) -> Size:
    elements = sum(map(len, features.flags.values())) + sum(map(len, features.attributes.values()))
    elements += sum(len(found) + sum(map(len, found)) for found in features.instances.values())
    return Size(1, len(labels), sum(len(key) + len(value) for key, value in labels.items()), elements)


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
    node = _texts(metadata.get("labels"), "metadata.labels").get(NODE_NAME, "")
    name = _texts({key: metadata.get(key) or "" for key in ("namespace", "name", _CREATED)}, "metadata")
    features = from_json(_mapping(spec.get("features"), "spec.features"))
    kept = bool(metadata.get("ownerReferences"))
    one = FeatureObject(name["namespace"], name["name"], sys.intern(node), labels, features, kept, name[_CREATED])
    if one.size.letters > MAX_LETTERS:
        raise ValueError(f"spec.labels: {one.size.letters} letters, at most {MAX_LETTERS} are allowed")
    return one


def report_of(one: FeatureObject) -> Report:
    """The report in an object of NFD's own worker (NFD 0.17 and later), which is complete and fresh."""
    return Report(one.node, labels=one.labels, features=one.features)


def speak_alone(objects: Collection[FeatureObject], owned: Owned) -> bool:
    """Whether these objects of third parties are all that is known of a node: it never had a worker.

    Once it had one, a missing report proves nothing, and rules on the objects alone give other results than on all
    features.
    """
    return owned.alone or bool(objects and not owned)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The objects of a node that are used, and those that are too many: what these gave before is uncertain.

    `origins` are those of the surplus.
    """

    objects: tuple[FeatureObject, ...] = ()
    surplus: tuple[FeatureObject, ...] = ()
    origins: frozenset[str] = frozenset()


def admit_objects(objects: Collection[FeatureObject], joining: Joining, most: Size = MOST) -> Admitted:
    """The objects of one node that fit into the limits, so that a pass over it stays short.

    The master's namespace has the limits for itself. All other namespaces share them equally; what a namespace does not
    need is left to the others. In a namespace the objects count by name. Where a share is too small for any object of a
    namespace, one object is used of as many such namespaces as still fit, those with the oldest objects first: so new
    namespaces do not take the place of earlier ones. The object of NFD's worker is always used, for it takes the place
    of a report.
    """
    used = [one for one in objects if joining.is_workers(one)]
    own = [one for one in objects if one.namespace == joining.namespace and not joining.is_workers(one)]
    others = [one for one in objects if one.namespace != joining.namespace]
    surplus: list[FeatureObject] = []
    for pool in (own, others):
        fitting, rest = _share(pool, most)
        used += fitting
        surplus += rest
    origins = frozenset(one.origin for one in surplus)
    return Admitted(tuple(used) if surplus else tuple(objects), tuple(surplus), origins)


def _share(objects: Collection[FeatureObject], most: Size) -> tuple[Collection[FeatureObject], list[FeatureObject]]:
    """The objects within the limits, and the rest."""
    if _total(objects).fits(most):
        return objects, []
    ordered = sorted(objects, key=lambda one: (one.namespace, one.name))
    namespaces = [list(found) for _, found in groupby(ordered, key=lambda one: one.namespace)]
    asked = zip(*map(_total, namespaces), strict=True)
    share = Size(*(_equal_share(amounts, limit) for amounts, limit in zip(asked, most, strict=True)))
    fitting = [_first_within(share, found) for found in namespaces]
    used = list(chain.from_iterable(fitting))
    total = _total(used)
    unheard = [found for found, any_used in zip(namespaces, fitting, strict=True) if not any_used]
    for found in sorted(unheard, key=lambda found: min(one.created for one in found)):
        if first := next((one for one in found if total.plus(one.size).fits(most)), None):
            used.append(first)
            total = total.plus(first.size)
    chosen = {one.origin for one in used}
    return used, [one for one in ordered if one.origin not in chosen]


def _first_within(limit: Size, objects: Iterable[FeatureObject]) -> list[FeatureObject]:
    """Each object that fits beside those before it."""
    used, total = [], Size()
    for one in objects:
        if (more := total.plus(one.size)).fits(limit):
            used.append(one)
            total = more
    return used


def _total(objects: Collection[FeatureObject]) -> Size:
    return Size(*map(sum, zip(*(one.size for one in objects), strict=True))) if objects else Size()


def _equal_share(amounts: Iterable[int], limit: int) -> int:
    """The most that each may have, so that all together have at most the limit."""
    left, waiting = limit, sorted(amounts)
    for number, amount in enumerate(waiting):
        if amount > (share := left // (len(waiting) - number)):
            return share
        left -= amount
    return limit


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
AWAITED = "nfd-worker's record on the Node has no valid proof; the object is used only after it changes"
UNSELECTED = "nodeFeatureNamespaceSelector does not select its namespace"
UNKNOWN_NAMESPACE = "nodeFeatureNamespaceSelector is set, and the labels of its namespace are not known"
TOO_MANY = "they are too many or too large together; what they gave before stays"
UNLABELLED = "denyNodeFeatureLabels: its features are used, its labels are not"

_log = log.get("master")


class Ignored:
    """The ignored objects of each node, as NAMESPACE/NAME, with their reasons; each is logged once."""

    def __init__(self) -> None:
        self._logged: dict[str, Mapping[str, str]] = {}
        self._surplus: dict[str, frozenset[str]] = {}

    def log_new(self, node: str, reasons: Mapping[str, str]) -> None:
        """Log objects that are new or have a new reason."""
        before = self._logged.get(node, {})
        if reasons == before:
            return
        for path, reason in reasons.items():
            if before.get(path) != reason:
                _log.info("NodeFeature ignored", path=path, node=node, error=reason)
        if reasons:
            self._logged[node] = reasons
        else:
            del self._logged[node]

    def log_surplus(self, node: str, surplus: Collection[FeatureObject]) -> None:
        """Log the surplus objects of a node when their namespaces change."""
        namespaces = frozenset(one.namespace for one in surplus)
        if namespaces == self._surplus.get(node, frozenset()):
            return
        self._surplus[node] = namespaces
        if surplus:
            paths = sorted(f"{one.namespace}/{one.name}" for one in surplus)
            _log.warning(
                "NodeFeatures ignored",
                node=node,
                objects=len(paths),
                namespaces=sorted(namespaces)[:MOST_NAMES],
                paths=paths[:MOST_NAMES],
                error=TOO_MANY,
            )
        else:
            del self._surplus[node]
            _log.info("all NodeFeatures of the node are used again", node=node)

    def forget(self, node: str) -> None:
        """The Node is gone."""
        self._logged.pop(node, None)
        self._surplus.pop(node, None)
