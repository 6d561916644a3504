"""What a Node should carry, and what speaks for it: report, rules and policy → desired state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from nfd.features import Features
from nfd.master.node.ownership import CLAIMED, Origin
from nfd.report import Report, State
from nfd.rules import policy as policies
from nfd.rules.keys import (
    EXTENDED_RESOURCE,
    LABEL,
    REPORT,
    TAINT,
    VAR,
    Ledger,
    Overwrite,
    are_disjoint,
    is_loss,
    rule_named,
)
from nfd.rules.model import Taint
from nfd.rules.policy import Dropped, Lookup, Policy
from nfd.rules.terms import MATCHED
from nfd.store.base import Kind

FEATURELESS = frozenset(("custom",))
"""Sources that give labels alone: rules of the cluster see no less where one of them fails."""
RULE = "rule:"
OBJECT = "object:"


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one rule, or one third-party object, asks of the Node: keys prefixed, nothing looked up or checked.

    `origin` is `rule:OBJECT/RULE` or `object:NAMESPACE/NAME`.
    """

    origin: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    extended_resources: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    vars: Mapping[str, str] = field(default_factory=dict)
    """For later rules alone, not for the Node."""

    @property
    def refers(self) -> bool:
        """Whether a value may stand for one of the node's own features, so that nodes alike may get another."""
        return policies.refers(self.labels, self.annotations, self.extended_resources)


@dataclass(frozen=True, slots=True)
class Desired:
    """Per kind the keys and values that are wanted, and where each key comes from. A taint is `KEY:EFFECT` → value."""

    values: Mapping[Kind, Mapping[str, str]] = field(default_factory=dict)
    origins: Mapping[Kind, Mapping[str, Origin]] = field(default_factory=dict)
    boot_id: str = ""
    dropped: tuple[Dropped, ...] = ()

    def of(self, kind: Kind) -> Mapping[str, str]:
        return self.values.get(kind, {})

    def origin(self, kind: Kind, key: str) -> Origin:
        return self.origins.get(kind, {}).get(key)


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a key's absence from the desired state is worth.

    The lists of rules and of objects are synced once they were complete; a kind that the server does not know has no
    list, and takes away nothing that is known to come from it. `settled` tells that both lists were complete or have
    been missing for so long that there is nothing in them: enough for keys that nobody knows the origin of.

    `sources` are the worker's sources, True for those that scanned well or were switched off on purpose; None when the
    report is whole by definition (NFD 0.16 and older). `blind` tells that a source failed and left no features, so that
    rules see less than there is, or that they have yet to be evaluated on what is known now. `rules` are the origins of
    all rules that exist, None if nobody says. `reported` is False while the worker has yet to speak. `alone` tells that
    there is none, only objects of third parties. `lost` are objects that exist but are invalid:
    `object:NAMESPACE/NAME`, and `rule:OBJECT` for all rules of one; and rules (`rule:OBJECT/RULE`) that failed on the
    node, look at features of a source that did, or depend on such a rule. So do rules and objects that refer to what
    such a source or rule gives.
    """

    sources: Mapping[str, bool] | None = None
    rules_synced: bool = True
    objects_synced: bool = True
    objects_settled: bool = True
    settled: bool = True
    blind: bool = False
    rules: AbstractSet[str] | None = None
    reported: bool = True
    alone: bool = False
    lost: AbstractSet[str] = frozenset()

    @property
    def failed(self) -> AbstractSet[str]:
        """Sources whose features may be less than there is, or of before."""
        return {name for name, told in (self.sources or {}).items() if not told}

    def tells_of(self, origin: Origin) -> bool:
        """Whether a key of that origin that is not wanted is really gone."""
        if origin is None or origin == CLAIMED:  # it may come from anywhere, a rule that is not evaluated yet included
            certain = self.reported and self.settled and not self.blind and all((self.sources or {}).values())
            return certain and not any(one.startswith(RULE) for one in self.lost)
        if self.lost and (origin in self.lost or origin.partition("/")[0] in self.lost):
            return False
        if origin.startswith(RULE):
            exists = self.rules is None or origin in self.rules
            return self.rules_synced and not (exists and (self.blind or not self.objects_settled))
        if origin.startswith(OBJECT):
            return self.objects_synced
        return self.sources is None or self.sources.get(origin, False)


ALL_FRESH = Freshness()
UNREPORTED = Freshness(sources={}, blind=True, reported=False)
"""Nothing has been heard of the node: what comes from its worker, and from rules that exist, stays as it is."""


def derive_desired(
    report: Report,
    policy: Policy,
    contributions: Sequence[Contribution] = (),
    matched: Mapping[str, str] | None = None,
) -> Desired:
    """Join the report with what rules ask for (later ones win) and keep what the policy allows.

    `matched` is `rule.matched` after all rules, for references to it.
    """
    origins: dict[Kind, dict[str, Origin]] = {kind: {} for kind in Kind}
    own_labels = _prefix(report.labels, report.origins, policy, origins[Kind.LABELS])
    own_annotations = _prefix(report.annotations, report.origins, policy, origins[Kind.ANNOTATIONS])
    by_source = policies.allow_sources("label", own_labels, origins[Kind.LABELS], policy)
    noted_by_source = policies.allow_sources("annotation", own_annotations, origins[Kind.ANNOTATIONS], policy)
    labels, annotations = dict(by_source.values), dict(noted_by_source.values)
    resources: dict[str, str] = {}
    taints: list[Taint] = []
    for one in contributions:
        labels |= one.labels
        annotations |= one.annotations
        resources |= one.extended_resources
        taints += one.taints
        _credit(one, origins)
    lookup = lookup_in(report.features, matched)
    allowed = policies.allow_labels(labels, lookup, policy)
    left, moved, split = policies.split_resource_labels(allowed.values, policy)
    origins[Kind.RESOURCES] = {key: origins[Kind.LABELS].get(key) for key in moved} | origins[Kind.RESOURCES]
    allowed_annotations = policies.allow_annotations(annotations, lookup, policy)
    allowed_resources = policies.allow_extended_resources({**moved, **resources}, lookup, policy)
    allowed_taints, bad_taints = policies.allow_taints(taints, policy)
    return Desired(
        {
            Kind.LABELS: left,
            Kind.ANNOTATIONS: allowed_annotations.values,
            Kind.RESOURCES: allowed_resources.values,
            Kind.TAINTS: {_taint_key(taint): taint.value or "" for taint in allowed_taints},
        },
        origins,
        report.order.boot_id if report.order else "",
        (
            *by_source.dropped,
            *noted_by_source.dropped,
            *allowed.dropped,
            *split.dropped,
            *allowed_annotations.dropped,
            *allowed_resources.dropped,
            *bad_taints,
        ),
    )


def find_overwrites(
    report: Report, policy: Policy, contributions: Sequence[Contribution], *, with_vars: bool = False
) -> list[Overwrite]:
    """Keys of the report, and of rules, that the node would get and a later rule gives another value.

    Origins say who gives them. Vars are not keys of a node: they are for commands that try rules.
    """
    asked = [one.labels for one in contributions]
    names = set().union(*asked)
    reported = {key: value for key, value in policies.prefix_keys(report.labels, policy).items() if key in names}
    kinds = (
        (LABEL, [*asked, reported]),
        (policies.ANNOTATION, [one.annotations for one in contributions]),
        (EXTENDED_RESOURCE, [one.extended_resources for one in contributions]),
        (VAR, [one.vars if with_vars else {} for one in contributions]),
        (TAINT, [policies.taint_values(one.taints) for one in contributions]),
    )
    if all(are_disjoint(parts) for _, parts in kinds):
        return []
    ledger = Ledger()
    for key, value in reported.items():
        origin = report.origins.get(key if key in report.labels else key.rpartition("/")[2]) or ""
        ledger.add(origin, LABEL, {key: value})
    for index, one in enumerate(contributions):
        for kind, parts in kinds:
            ledger.add(one.origin, kind, parts[index])
    return [one for one in ledger.overwrites if is_loss(one, policy)]


def name_origin(origin: str) -> str:
    """How the origin of a key is called in messages."""
    if origin.startswith(RULE):
        name, slash, rule = origin.removeprefix(RULE).partition("/")
        return f"rule {rule!r} of NodeFeatureRule {name}" if slash else rule_named(name)
    if origin.startswith(OBJECT):
        return f"NodeFeature {origin.removeprefix(OBJECT)}"
    return f"source {origin}" if origin else REPORT


def derive_freshness(report: Report, *, rules_synced: bool = True, objects_synced: bool = True) -> Freshness:
    """What this report, and the lists of the cluster, speak for."""
    if not report.sources:
        return Freshness(None, rules_synced, objects_synced)
    failed = {name for name, source in report.sources.items() if source.state is State.FAILED}
    seen = {name.partition(".")[0] for name in report.features.names()}
    sources = {name: name not in failed for name in report.sources}
    return Freshness(sources, rules_synced, objects_synced, blind=bool(failed - seen - FEATURELESS))


def _prefix(
    values: Mapping[str, str], told: Mapping[str, str], policy: Policy, origins: dict[str, Origin]
) -> dict[str, str]:
    """A report's values with prefixes, their origins noted; a key written in full wins over a bare one, as in NFD."""
    prefixed = policies.prefix_keys(values, policy)
    for key in prefixed:
        origins[key] = told.get(key if key in values else key.rpartition("/")[2])
    return prefixed


def _credit(one: Contribution, origins: dict[Kind, dict[str, Origin]]) -> None:
    origins[Kind.LABELS] |= dict.fromkeys(one.labels, one.origin)
    origins[Kind.ANNOTATIONS] |= dict.fromkeys(one.annotations, one.origin)
    origins[Kind.RESOURCES] |= dict.fromkeys(one.extended_resources, one.origin)
    origins[Kind.TAINTS] |= dict.fromkeys(map(_taint_key, one.taints), one.origin)


def _taint_key(taint: Taint) -> str:
    return f"{taint.key}:{taint.effect}"


def lookup_in(features: Features, matched: Mapping[str, str] | None) -> Lookup:
    """Finds what `@domain.feature.element` stands for."""

    def find(feature: str, element: str) -> str | None:
        if feature == MATCHED and matched is not None:
            return matched.get(element)
        return features.attributes.get(feature, {}).get(element)

    return find
