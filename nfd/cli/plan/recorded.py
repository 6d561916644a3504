"""`nfd plan` on recorded machines: each is scanned with the current and the new configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from nfd.cli.machine import plan_with
from nfd.cli.plan.model import (
    Files,
    NodeInput,
    PlanInput,
    Rules,
    plan_node_of,
    rules_in_force,
    with_master,
    with_rules,
    worker_config,
)
from nfd.discovery import Plan, discover
from nfd.errors import ConfigError
from nfd.host.replay import NOBODY, Replay, is_machine
from nfd.master.http.reports_api import MasterState
from nfd.master.node.plan import NodePlan
from nfd.report import Report, SourceState, State
from nfd.store.base import Kind, Node
from nfd.worker.config import WorkerConfig
from nfd.worker.report_content import derive_content

UNSELECTED = (
    "nodeFeatureNamespaceSelector is ignored: NodeFeature objects and the labels of namespaces are in a cluster, "
    "not with recorded machines"
)


def recorded_input(machines: Sequence[str], current: Files, new: Files, deleted: Iterable[str]) -> PlanInput:
    """Nodes in the state that the current files give them. Raises: ConfigError."""
    before, state = worker_config(current.worker), with_master(MasterState(), current.master)
    changed = worker_config(new.worker) if new.worker else before
    rules: Rules = current.rules or {}
    in_force, _ = rules_in_force(rules, state.policy)
    situations = []
    for folder in folders_of(machines):
        name = folder.name
        fresh = NodeInput(Node.bare(name, uid=name), scan(folder, before))
        node = after(plan_node_of(fresh, in_force, state).planned)
        situations.append(NodeInput(node, fresh.report if changed is before else scan(folder, changed)))
    then = with_master(state, new.master)
    selects = any(one.namespace_selector for one in (state, then))
    warnings = (UNSELECTED,) if selects else ()
    return PlanInput(situations, with_rules(rules, new.rules, deleted), then, warnings)


def after(planned: NodePlan) -> Node:
    """The Node after a plan."""
    node = planned.node
    values = {kind: dict(node.actual(kind)) for kind in Kind}
    for kind, change in planned.changes.items():
        values[kind] |= change.write
        for key in change.remove:
            values[kind].pop(key, None)
    annotations = values[Kind.ANNOTATIONS] | dict(planned.records)
    taints = ((*key.rpartition(":")[::2], value) for key, value in values[Kind.TAINTS].items())
    return replace(
        node,
        labels=values[Kind.LABELS],
        annotations={key: text for key, text in annotations.items() if key not in planned.forgotten},
        resources=values[Kind.RESOURCES],
        taints=tuple({"key": key, "effect": effect, "value": value} for key, effect, value in taints),
    )


def folders_of(machines: Iterable[str]) -> list[Path]:
    """Recorded machines, and those in folders, by name. Raises: ConfigError."""
    found: dict[str, Path] = {}
    for name in machines:
        folder = Path(name)
        try:
            inside = [] if is_machine(folder) else sorted(one for one in folder.iterdir() if is_machine(one))
        except OSError as error:
            raise ConfigError(f"--replay {name}: {error.strerror}") from error
        if not inside and not is_machine(folder):
            raise ConfigError(f"--replay {name}: {NOBODY}")
        for one in inside or [folder]:
            if inside and not one.resolve().is_relative_to(folder.resolve()):
                raise ConfigError(f"--replay {name}: {one.name} is a link to a place outside; give its target instead")
            if found.setdefault(one.resolve().name, one) is not one:
                raise ConfigError(f"--replay {name}: there is another machine named {one.resolve().name}")
    return [path.resolve() for _, path in sorted(found.items())]


def scan(folder: Path, config: WorkerConfig) -> Report:
    """What the machine's worker would report with that configuration."""
    own = {name: value for name, value in os.environ.items() if name.startswith("NFD_")}
    plan = plan_with(config)
    content = derive_content(plan, discover(Replay(folder, own), plan), config.core.no_publish_features)
    states = {name: SourceState(state) for name, state in content.states.items()}
    return Report(folder.name, "", "", None, content.labels, {}, content.origins, states, content.features)


def states_of(plan: Plan, report: Report) -> dict[str, SourceState]:
    """The states of sources after a change of configuration: disabled, or unchanged."""
    running = {source.name for source in (*plan.feature_sources, *plan.label_sources)}
    found = dict(report.sources)
    for name in plan.configs:
        if name not in running:
            found[name] = SourceState(State.OFF)
        elif name not in found or found[name].state is State.OFF:
            found[name] = SourceState(State.FRESH)
    return found
