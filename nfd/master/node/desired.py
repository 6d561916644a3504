"""The desired state of a Node: report, rules and policy → keys, values and their origins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from nfd.features import Features, sources_of
from nfd.fleet.gpu_labels import disproved_labels
from nfd.master.node.ownership import CLAIMED, Origin
from nfd.report import Report, State
from nfd.rules import policy as policies
from nfd.rules.match_features import MATCHED
from nfd.rules.model import Taint
from nfd.rules.output_keys import (
    REPORT,
    TAINT,
    VAR,
    Ledger,
    Overwrite,
    are_disjoint,
    is_loss,
    rule_named,
)
from nfd.rules.policy import ANNOTATION, EXTENDED_RESOURCE, LABEL, Dropped, Lookup, Policy
from nfd.store.base import Kind

FEATURELESS = frozenset(("custom",))
"""Sources without features: if one fails, the rules of the cluster see all features nevertheless."""
GIVEN = MATCHED.partition(".")[0]
"""Stands for rules among sources: a failed rule may have set what a reference to `rule.matched` does not find."""
RULE_ORIGIN = "rule:"
OBJECT_ORIGIN = "object:"


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one rule, or one third-party object, sets on the Node. Keys have prefixes. References and policy are not
    applied yet.

    `origin` is `rule:OBJECT/RULE` or `object:NAMESPACE/NAME`.
    """

    origin: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    extended_resources: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    vars: Mapping[str, str] = field(default_factory=dict)
    """For later rules only; not for the Node."""

    @property
    def refers(self) -> bool:
        """Whether a value may refer to a feature, so that nodes with the same contributions may get different
        values."""
        return policies.refers(self.labels, self.annotations, self.extended_resources)


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired keys and values of each kind, and the origin of each key. A taint is `KEY:EFFECT` → value."""

    values: Mapping[Kind, Mapping[str, str]] = field(default_factory=dict)
    origins: Mapping[Kind, Mapping[str, Origin]] = field(default_factory=dict)
    boot_id: str = ""
    dropped: tuple[Dropped, ...] = ()
    at: tuple[int, int] | None = None
    """The order of the report within that boot: start of the worker, sequence number."""
    disproved: Mapping[str, str] = field(default_factory=dict)
    """Labels of a source that another origin disproves, and which. They are removed even if the source failed."""

    def of(self, kind: Kind) -> Mapping[str, str]:
        return self.values.get(kind, {})

    def unknown(self, kind: Kind, fresh: Freshness) -> set[str]:
        """Keys whose values refer to features that may be missing. A resource may be written as a label."""
        kinds = (kind.one, LABEL) if kind is Kind.RESOURCES else (kind.one,)
        return {one.key for one in self.dropped if one.feature and one.kind in kinds and fresh.may_lack(one.feature)}

    def origin(self, kind: Kind, key: str) -> Origin:
        return self.origins.get(kind, {}).get(key)


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a key's absence from the desired state proves.

    `rules_synced` and `objects_synced`: the list was complete once. A kind that the server does not know has no list,
    and its keys stay. `settled`: both lists were complete, or have been missing for so long that they are taken as
    empty. Only then are keys of unknown origin removed.

    `sources` are the worker's sources, True for those that were scanned successfully or are disabled on purpose; None
    for a report that is complete by definition (NFD 0.16 and older). `blind`: a source failed and left no features, so
    rules do not see all, or the rules are not evaluated on the current features yet. `rules` are the origins of all
    rules that exist, None if unknown. `reported` is False until the worker reports. `alone`: there is no worker, only
    objects of third parties. `uncertain` are origins whose keys stay because their result is not known: invalid objects
    (`object:NAMESPACE/NAME`, and `rule:OBJECT` for all rules of one), and rules and objects that failed on the node, or
    that use features of a failed source, or that depend on such a rule (`rule:OBJECT/RULE`). `partial` are the sources
    of which features may be missing, and `rule` if that is so for `rule.matched`: a key whose value refers to a missing
    one stays.
    `adds_only`: there may be a newer report, so the keys that are on the node stay as they are, apart from those of
    rules and objects that no longer exist. `evaluated`: the rules were evaluated on the current report.
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
    uncertain: AbstractSet[str] = frozenset()
    partial: AbstractSet[str] = frozenset()
    adds_only: bool = False
    evaluated: bool = True

    def for_inherited(self) -> Freshness:
        """The same for a report that may be old, so that the absence of a key proves nothing."""
        return replace(self, sources={}, blind=True, reported=False, adds_only=True)

    def without_objects(self, origins: frozenset[str]) -> Freshness:
        """The same where objects of these origins exist and are not used."""
        return replace(self, blind=True, uncertain=self.uncertain | origins) if origins else self

    @property
    def failed(self) -> AbstractSet[str]:
        """Sources that failed: their features may be incomplete or outdated."""
        return {name for name, complete in (self.sources or {}).items() if not complete}

    def may_lack(self, feature: str) -> bool:
        """Whether some of a feature may be missing: a source that may give it failed.

        A feature of no reported source may be one of a plug-in under another name, so any failed source counts.
        """
        if not self.partial:
            return False
        known = {GIVEN} if feature.partition(".")[0] == GIVEN else sources_of(feature, self.sources or ())
        return bool(self.partial & known) if known else bool(self.partial - FEATURELESS - {GIVEN})

    def proves_absent(self, origin: Origin) -> bool:
        """Whether a key of that origin that is not desired is known to be gone."""
        if origin is None or origin == CLAIMED:  # any source or rule may have set it
            certain = self.reported and self.settled and not self.blind and all((self.sources or {}).values())
            return certain and not any(one.startswith(RULE_ORIGIN) for one in self.uncertain)
        if self.uncertain and (origin in self.uncertain or origin.partition("/")[0] in self.uncertain):
            return False
        if origin.startswith(RULE_ORIGIN):
            exists = self.rules is None or origin in self.rules
            return self.rules_synced and not (exists and (self.blind or not self.objects_settled))
        if origin.startswith(OBJECT_ORIGIN):
            return self.objects_synced
        return self.sources is None or self.sources.get(origin, False)


ALL_FRESH = Freshness()


def derive_desired(
    report: Report,
    policy: Policy,
    contributions: Sequence[Contribution] = (),
    matched: Mapping[str, str] | None = None,
) -> Desired:
    """Merge the report and the contributions (later ones win), and apply the policy.

    `matched` is `rule.matched` after all rules, for references to it.
    """
    by_source, label_origins = policies.allow_sources(LABEL, report.labels, report.origins, policy)
    noted_by_source, note_origins = policies.allow_sources(ANNOTATION, report.annotations, report.origins, policy)
    origins = {Kind.LABELS: label_origins, Kind.ANNOTATIONS: note_origins, Kind.RESOURCES: {}, Kind.TAINTS: {}}
    labels, annotations = dict(by_source.values), dict(noted_by_source.values)
    resources: dict[str, str] = {}
    taints: list[Taint] = []
    for one in contributions:
        labels |= one.labels
        annotations |= one.annotations
        resources |= one.extended_resources
        taints += one.taints
        _credit(one, origins)
    disproved = disproved_labels(labels, origins[Kind.LABELS])
    labels = {key: value for key, value in labels.items() if key not in disproved} if disproved else labels
    lookup = lookup_in(report.features, matched)
    allowed = policies.allow(LABEL, labels, lookup, policy)
    moved = policies.split_resource_labels(allowed.values, policy)
    origins[Kind.RESOURCES] = {key: label_origins.get(key) for key in moved.values} | origins[Kind.RESOURCES]
    allowed_annotations = policies.allow(ANNOTATION, annotations, lookup, policy)
    allowed_resources = policies.allow(EXTENDED_RESOURCE, {**moved.values, **resources}, lookup, policy)
    allowed_taints, bad_taints = policies.allow_taints(taints, policy)
    order = report.order
    return Desired(
        {
            Kind.LABELS: {key: value for key, value in allowed.values.items() if key not in moved.values},
            Kind.ANNOTATIONS: allowed_annotations.values,
            Kind.RESOURCES: allowed_resources.values,
            Kind.TAINTS: {_taint_key(taint): taint.value or "" for taint in allowed_taints},
        },
        origins,
        order.boot_id if order is not None else "",
        (
            *by_source.dropped,
            *noted_by_source.dropped,
            *allowed.dropped,
            *moved.dropped,
            *allowed_annotations.dropped,
            *allowed_resources.dropped,
            *bad_taints,
        ),
        (order.started, order.sequence) if order is not None else None,
        disproved,
    )


def find_overwrites(
    report: Report, policy: Policy, contributions: Sequence[Contribution], *, with_vars: bool = False
) -> list[Overwrite]:
    """Keys of the report and of rules that a later rule sets to another value.

    Origins name both sides. Vars are not keys of a node; they are for commands that try out rules.
    """
    asked = [one.labels for one in contributions]
    names = set().union(*asked)
    reported = {key: value for key, value in policies.prefix_keys(report.labels, policy).items() if key in names}
    kinds = (
        (LABEL, [*asked, reported]),
        (ANNOTATION, [one.annotations for one in contributions]),
        (EXTENDED_RESOURCE, [one.extended_resources for one in contributions]),
        (VAR, [one.vars if with_vars else {} for one in contributions]),
        (TAINT, [policies.taint_values(one.taints) for one in contributions]),
    )
    if all(are_disjoint(parts) for _, parts in kinds):
        return []
    ledger = Ledger()
    for key, value in reported.items():
        ledger.add(policies.origin_of(key, report.labels, report.origins) or "", LABEL, {key: value})
    for index, one in enumerate(contributions):
        for kind, parts in kinds:
            ledger.add(one.origin, kind, parts[index])
    return [one for one in ledger.overwrites if is_loss(one, policy)]


def name_origin(origin: str) -> str:
    """The origin of a key as messages name it."""
    if origin.startswith(RULE_ORIGIN):
        name, slash, rule = origin.removeprefix(RULE_ORIGIN).partition("/")
        return f"rule {rule!r} of NodeFeatureRule {name}" if slash else rule_named(name)
    if origin.startswith(OBJECT_ORIGIN):
        return f"NodeFeature {origin.removeprefix(OBJECT_ORIGIN)}"
    return f"source {origin}" if origin else REPORT


def derive_freshness(report: Report, *, rules_synced: bool = True, objects_synced: bool = True) -> Freshness:
    """The freshness of a report without objects."""
    if not report.sources:
        return Freshness(None, rules_synced, objects_synced)
    failed = {name for name, source in report.sources.items() if source.state is State.FAILED}
    unseen = failed - FEATURELESS
    if unseen:
        unseen -= {source for name in report.features.names() for source in sources_of(name, report.sources)}
    sources = {name: name not in failed for name in report.sources}
    return Freshness(sources, rules_synced, objects_synced, blind=bool(unseen), partial=failed)


def _credit(one: Contribution, origins: dict[Kind, dict[str, Origin]]) -> None:
    origins[Kind.LABELS] |= dict.fromkeys(one.labels, one.origin)
    origins[Kind.ANNOTATIONS] |= dict.fromkeys(one.annotations, one.origin)
    origins[Kind.RESOURCES] |= dict.fromkeys(one.extended_resources, one.origin)
    origins[Kind.TAINTS] |= dict.fromkeys(map(_taint_key, one.taints), one.origin)


def _taint_key(taint: Taint) -> str:
    return f"{taint.key}:{taint.effect}"


def lookup_in(features: Features, matched: Mapping[str, str] | None) -> Lookup:
    """Returns a function that resolves `@domain.feature.element`."""

    def find(feature: str, element: str) -> str | None:
        if feature == MATCHED and matched is not None:
            return matched.get(element)
        return features.attributes.get(feature, {}).get(element)

    return find
