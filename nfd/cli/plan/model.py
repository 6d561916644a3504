"""The input of `nfd plan`: each Node with its report after the change, and the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nfd.cli.config import layers_of
from nfd.cli.rule_files import read_rules
from nfd.config.load import load
from nfd.config.overlay import Layer, Origin
from nfd.errors import ConfigError
from nfd.kube.check_responses import specification
from nfd.master.config import Config as MasterConfig
from nfd.master.http.reports_api import MasterState
from nfd.master.node.annotation_budget import fitting_plan
from nfd.master.node.desired import ALL_FRESH, Freshness, name_origin
from nfd.master.node.desired import RULE_ORIGIN as RULED
from nfd.master.node.known_rejections import Unwritten
from nfd.master.node.outcome import Known, evaluate_node
from nfd.master.node.plan import Act, Goal, NodePlan
from nfd.master.rules.nodefeatures import FeatureObject
from nfd.master.rules.ruleset import RuleSet, bind, compile_object
from nfd.report import Report
from nfd.rules.output_keys import Overwrite
from nfd.rules.policy import Dropped, Policy
from nfd.store.base import Node
from nfd.worker.config import WorkerConfig, model

Json = Mapping[str, Any]
Rules = Mapping[str, Json]
"""NodeFeatureRule objects by name."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a change; of several configurations of a program the last one is used."""

    worker: str | None = None
    master: str | None = None
    rules: Rules | None = None


@dataclass(frozen=True, slots=True)
class NodeInput:
    """A Node, its worker's report (None: none yet), and the selected NodeFeature objects for it.

    `lists` says which objects are invalid.
    """

    node: Node
    report: Report | None = None
    objects: Sequence[FeatureObject] = ()
    lists: Freshness = ALL_FRESH


@dataclass(frozen=True, slots=True)
class PlanInput:
    """`nodes` have their reports after the change; `rules` and `state` are those after the change, too."""

    nodes: Sequence[NodeInput]
    rules: Rules
    state: MasterState
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """The plan of one Node; `dropped` keys are rejected, `overwrites` are overwritten by a later rule."""

    planned: NodePlan
    dropped: tuple[Dropped, ...] = field(default=())
    overwrites: Sequence[Overwrite] = ()


def plan_nodes(given: PlanInput) -> Iterator[PlannedNode]:
    """The plan of each node."""
    rules, invalid = rules_in_force(given.rules, given.state.policy)
    for one_node in given.nodes:
        lists = replace(one_node.lists, uncertain=one_node.lists.uncertain | invalid)
        yield plan_node_of(replace(one_node, lists=lists), rules, given.state)


def plan_node_of(one_node: NodeInput, rules: RuleSet, state: MasterState) -> PlannedNode:
    """The plan of a node."""
    node, known = one_node.node, Known(one_node.lists, state.instance)
    outcome = evaluate_node(node, one_node.report, rules, one_node.objects, state.joining, known)
    desired, policy = outcome.derive_desired(), state.policy
    goal = Goal(desired, outcome.fresh, state.overwrite, state.instance, policy=policy, proof=known.proof)
    planned, goal = fitting_plan(goal, node)
    rejected = [(one, acts) for one in state.unwritten if (acts := _acts_of(one, planned))]
    if rejected:
        planned, goal = fitting_plan(goal.without(act for _, acts in rejected for act in acts), node)
    if not state.publish or any(one.key == "*" for one, _ in rejected):
        planned = _unwritten(planned)
    dropped = [Dropped(*_rejection(one)) for one, _ in rejected]
    failed = [Dropped("rule", rule.origin.removeprefix(RULED), reason) for rule, reason in outcome.failed(rules)]
    return PlannedNode(planned, (*goal.desired.dropped, *dropped, *failed), outcome.overwrites())


def _acts_of(one: Unwritten, planned: NodePlan) -> list[Act]:
    """The acts of a plan that the API server rejects at present."""
    acts = planned.acts() if planned.node.name in one.nodes else {}
    if one.key == "*":
        return list(acts)
    return [act for act in acts if (act[0].one, act[1], act[2]) == (one.kind, one.key, one.removal)]


def _rejection(one: Unwritten) -> tuple[str, str, str]:
    """Kind, key and reason."""
    if one.key == "*":
        return "node", one.key, f"every change is rejected by {one.by}: {one.reason}"
    return one.kind, one.key, f"{'removal ' if one.removal else ''}rejected by {one.by}: {one.reason}"


def _unwritten(planned: NodePlan) -> NodePlan:
    """The plan of a master that writes nothing; keys of other managers are still named."""
    changes = {kind: replace(change, write={}, remove=frozenset()) for kind, change in planned.changes.items()}
    return replace(planned, changes=changes, records={}, forgotten=frozenset())


def overwritten_by(new: Rules | None, outcomes: Iterable[PlannedNode]) -> list[str]:
    """Keys of new rules with values that are overwritten, with the number of nodes."""
    beginnings = tuple(f"{RULED}{name}/" for name in new or {})
    nodes: Counter[str] = Counter()
    for outcome in outcomes:
        texts = {
            f"{one.kind} {one.key}: {name_origin(one.later)} overwrites the value of {name_origin(one.earlier)}"
            for one in outcome.overwrites
            if one.later.startswith(beginnings) or one.earlier.startswith(beginnings)
        }
        nodes.update(texts)
    return [f"{text}, on {count} node{'' if count == 1 else 's'}" for text, count in sorted(nodes.items())]


def mistakes_of(new: Rules | None, state: MasterState) -> list[str]:
    """The mistakes of new rules on any node."""
    compiled_objects = [compile_object(item, state.policy) for item in (new or {}).values()]
    found = [f"NodeFeatureRule {one.name}: {reason}" for one in compiled_objects for reason in one.mistakes]
    return found + [
        f"rule {rule.name!r} of NodeFeatureRule {one.name}: {reason}"
        for one in compiled_objects
        for rule in one.rules
        for reason in rule.mistakes
    ]


def rules_in_force(rules: Rules, policy: Policy) -> tuple[RuleSet, frozenset[str]]:
    """The rules of NodeFeatureRules, and the origins (`rule:OBJECT`) of invalid objects."""
    compiled_objects, invalid = [], set()
    for name, item in rules.items():
        try:
            specification(item, "rules")
            compiled_objects.append(compile_object(item, policy))
        except ValueError:
            invalid.add(f"{RULED}{name}")
    return bind(compiled_objects, ()), frozenset(invalid)


def rules_of(paths: Iterable[str]) -> dict[str, Json]:
    """NodeFeatureRules of files; groups are ignored. Raises: ConfigError with file and line."""
    found = (one for path in paths for one in read_rules(path))
    return {parsed.name: item for parsed, item in found if not parsed.is_group}


def files_of(configs: Iterable[str], program: str | None, rules: Sequence[str]) -> Files:
    """Sort `--config` by program: the master's if the name says so."""
    found: dict[str, str] = {}
    for path in configs:
        found[program or ("master" if "master" in Path(path).name else "worker")] = path
    return Files(found.get("worker"), found.get("master"), rules_of(rules) if rules else None)


def worker_config(path: str | None) -> WorkerConfig:
    """The configuration of a file, or the defaults. Raises: ConfigError."""
    return load(model(), layers_of(path) if path else []).config


def with_master(state: MasterState, path: str | None) -> MasterState:
    """The master's state with another configuration file; its flags override it. Raises: ConfigError."""
    if path is None:
        return state
    fixed = [Layer(name, data, Origin(origin)) for name, data, origin in state.fixed]
    config = load(MasterConfig, [*layers_of(path), *fixed]).config
    return replace(
        state,
        policy=config.policy(auto_prefix=state.gate),
        overwrite=config.restrictions.allow_overwrite,
        deny_labels=config.restrictions.deny_node_feature_labels,
        namespace_selector=config.restrictions.node_feature_namespace_selector,
        publish=not config.no_publish,
    )


def with_rules(present: Rules, new: Rules | None, deleted: Iterable[str]) -> Rules:
    """Replace objects of the same name, as `kubectl apply` does. Raises: ConfigError for a deleted one that does not
    exist."""
    found = {**present, **(new or {})}
    for name in deleted:
        if name not in found:
            raise ConfigError(f"--delete-rules {name}: no such NodeFeatureRule")
        del found[name]
    return found
