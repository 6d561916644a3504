"""The master's configuration: NFD's nfd-master.conf (NFD documentation, "Master configuration reference")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from nfd.config.klog import Klog
from nfd.config.section import Duration, Flag, Inside, Pattern, Section, UnionOfFiles, parse_pattern
from nfd.errors import ConfigError
from nfd.master.http.fleet_metrics import chosen_problem
from nfd.master.node.startup_taints import parse_startup_taint
from nfd.rules.policy import Policy


class LeaderElection(Section):
    """Timing of the Lease; used only with --enable-leader-election."""

    lease_duration: Duration = 15.0
    """Validity of a lease after its last renewal."""
    renew_deadline: Duration = 10.0
    """How long the leader tries to renew before it stops writing."""
    retry_period: Duration = 2.0
    """Time between two attempts."""

    def check(self) -> None:
        """Raises: ConfigError for times that do not fit together."""
        if not self.lease_duration > self.renew_deadline > 1.2 * self.retry_period > 0:
            raise ConfigError("leaderElection: needs leaseDuration > renewDeadline > 1.2 * retryPeriod > 0")


class Requirement(Section):
    """One term of `matchExpressions` (Kubernetes documentation, "Labels and Selectors")."""

    key: str = ""
    """Label key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = "Exists"
    """Operator."""
    values: tuple[str, ...] = ()
    """Values for In and NotIn."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.key or (self.operator in ("In", "NotIn")) != bool(self.values):
            raise ValueError("needs a key, and values only with In and NotIn")
        return self

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels match; a missing label is in no list."""
        if self.operator in ("In", "NotIn"):
            return (labels.get(self.key) in self.values) == (self.operator == "In")
        return (self.key in labels) == (self.operator == "Exists")


class NamespaceSelector(Section):
    """A label selector; an empty one selects everything."""

    match_labels: Mapping[str, str] = Field(default_factory=dict)
    """Labels that a namespace must have."""
    match_expressions: tuple[Requirement, ...] = ()
    """Requirements for the labels of a namespace."""

    def __bool__(self) -> bool:
        return bool(self.match_labels or self.match_expressions)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a namespace with these labels is selected."""
        return self.match_labels.items() <= labels.items() and all(one.holds(labels) for one in self.match_expressions)


class Restrictions(Section):
    """What the master does not do, whatever reports and rules request."""

    former: ClassVar[Mapping[str, str]] = {
        "disableTaints": "has no effect, as in NFD: taints are written only with enableTaints"
    }

    disable_labels: bool = False
    """Publish no labels; those published earlier are removed."""
    disable_extended_resources: bool = False
    """Publish no extended resources; those published earlier are removed."""
    disable_annotations: bool = False
    """Publish no feature annotations; those published earlier are removed."""
    allow_overwrite: bool = True
    """Take over a label, annotation or extended resource that another manager has set to another value."""
    deny_node_feature_labels: bool = False
    """Ignore the labels (not the features) of third-party NodeFeature objects."""
    source_namespaces: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Namespaces in which a worker's source may write labels, such as `local: [vendor.io]`; `*` stands for other
    sources."""
    node_feature_namespace_selector: NamespaceSelector = NamespaceSelector()
    """Ignore NodeFeature objects in namespaces that this does not select."""


class Config(Section):
    """nfd-master.conf."""

    extra_label_ns: Annotated[tuple[str, ...], Flag("extra-label-ns", exact=True), UnionOfFiles()] = ()
    """Label namespaces that are allowed although they are denied by default."""
    deny_label_ns: Annotated[tuple[str, ...], Flag("deny-label-ns", exact=True), UnionOfFiles()] = ()
    """Label namespaces that are denied; a leading `*` makes an entry match by its end."""
    label_white_list: Annotated[Pattern, Flag("label-whitelist")] = Field(default_factory=lambda: parse_pattern(""))
    """Pattern that is searched in the part of a label key after the slash; labels without a match are denied."""
    auto_default_ns: bool = True
    """Put feature.node.kubernetes.io/ before label names without a namespace."""
    resource_labels: Annotated[tuple[str, ...], Flag("resource-labels", exact=True), UnionOfFiles()] = ()
    """Labels that become extended resources if their value is a whole number."""
    enable_taints: Annotated[bool, Flag("enable-taints")] = False
    """Allow rules to set taints; when it is disabled again, their taints are removed."""
    startup_taints: Annotated[tuple[str, ...], Flag("startup-taints")] = ()
    """Taints that are removed from a node once it is labelled, as `KEY=VALUE:EFFECT`; each once from a node."""
    node_conditions: Annotated[bool, Flag("node-conditions")] = False
    """Write node conditions: whether the features are reported, and whether the accelerators are usable."""
    no_publish: Annotated[bool, Flag("no-publish")] = False
    """Accept reports, but write nothing to any Node."""
    resync_period: Annotated[Duration, Flag("resync-period")] = 3600.0
    """Time between two passes over all nodes; 0 disables them."""
    nfd_api_parallelism: Annotated[int, Flag("nfd-api-parallelism"), Field(gt=0, le=1000)] = 10
    """How many nodes are written concurrently."""
    stale_after: Duration = 0.0
    """Time without a report after which the labels of a node are removed; 0, as in NFD, never removes them."""
    informer_page_size: Annotated[int, Flag("informer-page-size"), Field(ge=0)] = 200
    """Objects in one page of a list; 0 requests the whole list at once."""
    feature_info_labels: tuple[str, ...] = ()
    """Labels of Nodes that the metric `nfd_node_feature_info` has, at most ten. Without any there is no such metric."""
    leader_election: LeaderElection = LeaderElection()
    restrictions: Restrictions = Restrictions()
    klog: Klog = Klog()

    @field_validator("startup_taints")
    @classmethod
    def _check_startup_taints(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for index, text in enumerate(texts):
            try:
                parse_startup_taint(text)
            except ValueError as error:
                raise Inside((index,), str(error)) from error
        return texts

    @field_validator("feature_info_labels")
    @classmethod
    def _check_info_labels(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        if problem := chosen_problem(keys):
            raise ValueError(problem)
        return keys

    def policy(self, *, auto_prefix: bool = True) -> Policy:
        """The policy for the keys of nodes."""
        limits = self.restrictions
        return Policy(
            extra_label_ns=frozenset(self.extra_label_ns),
            deny_label_ns=frozenset(self.deny_label_ns),
            label_whitelist=self.label_white_list.pattern,
            resource_labels=frozenset(self.resource_labels),
            auto_prefix=auto_prefix and self.auto_default_ns,
            enable_taints=self.enable_taints,
            source_namespaces=limits.source_namespaces,
            disable_labels=limits.disable_labels,
            disable_annotations=limits.disable_annotations,
            disable_extended_resources=limits.disable_extended_resources,
        )
