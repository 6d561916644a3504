"""What `nfd plan` starts from: each Node with its report as it would be after the change, and what rules it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nfd.cli.config import layers_of
from nfd.cli.rulefiles import read_rules
from nfd.config.load import load
from nfd.config.overlay import Layer, Origin
from nfd.errors import ConfigError
from nfd.master.config import Config as MasterConfig
from nfd.master.desired import RULE as RULED
from nfd.master.desired import name_origin
from nfd.master.forecast import Situation, forecast
from nfd.master.plan import NodePlan
from nfd.master.reveal import Standing
from nfd.master.rulebook import compile_sheet
from nfd.master.verdicts import Rulebook, bind
from nfd.rules.overwritten import Overwrite
from nfd.rules.policy import Dropped
from nfd.worker.config import WorkerConfig, model

Json = Mapping[str, Any]
Rules = Mapping[str, Json]
"""NodeFeatureRule objects by name."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a change; of several configurations of a program the last one counts."""

    worker: str | None = None
    master: str | None = None
    rules: Rules | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """`situations` have the reports as they would be after the change; so do `rules` and `standing`."""

    situations: Sequence[Situation]
    rules: Rules
    standing: Standing
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What would happen to one Node; `dropped` is asked for and not allowed, `overwrites` are lost to a later rule."""

    planned: NodePlan
    dropped: tuple[Dropped, ...] = field(default=())
    overwrites: Sequence[Overwrite] = ()


def foresee(scene: Scene) -> Iterator[Outcome]:
    """One pass over each node."""
    book = book_of(scene.rules, scene.standing)
    for situation in scene.situations:
        found = forecast(situation, book, scene.standing)
        failed = (Dropped("rule", origin.removeprefix(RULED), reason) for origin, reason in found.failed.items())
        yield Outcome(found.planned, (*found.desired.dropped, *failed), found.overwrites)


def overwritten_by(new: Rules | None, outcomes: Iterable[Outcome]) -> list[str]:
    """Keys that are in new rules, and of which one value is lost, with the number of nodes."""
    beginnings = tuple(f"{RULED}{name}/" for name in new or {})
    nodes: Counter[str] = Counter()
    for outcome in outcomes:
        nodes.update({_lost(one) for one in outcome.overwrites if _concerns(one, beginnings)})
    return [f"{text}, on {count} node{'' if count == 1 else 's'}" for text, count in sorted(nodes.items())]


def _concerns(one: Overwrite, beginnings: tuple[str, ...]) -> bool:
    return one.later.startswith(beginnings) or one.earlier.startswith(beginnings)


def _lost(one: Overwrite) -> str:
    return f"{one.kind} {one.key}: {name_origin(one.later)} overwrites the value of {name_origin(one.earlier)}"


def mistakes_of(new: Rules | None, standing: Standing) -> list[str]:
    """What is wrong with new rules, wherever they hold."""
    sheets = [compile_sheet(item, standing.policy) for item in (new or {}).values()]
    found = [f"NodeFeatureRule {sheet.name}: {reason}" for sheet in sheets for reason in sheet.mistakes]
    return found + [
        f"rule {rule.name!r} of NodeFeatureRule {sheet.name}: {reason}"
        for sheet in sheets
        for rule in sheet.rules
        for reason in rule.mistakes
    ]


def book_of(rules: Rules, standing: Standing) -> Rulebook:
    return bind((compile_sheet(item, standing.policy) for item in rules.values()), ())


def rules_of(paths: Iterable[str]) -> dict[str, Json]:
    """NodeFeatureRules of files; groups are passed over. Raises: ConfigError naming file and line."""
    found = (one for path in paths for one in read_rules(path))
    return {parsed.name: item for parsed, item in found if not parsed.is_group}


def files_of(configs: Iterable[str], program: str | None, rules: Sequence[str]) -> Files:
    """Sort `--config` by program: the master's if the name says so."""
    found: dict[str, str] = {}
    for path in configs:
        found[program or ("master" if "master" in Path(path).name else "worker")] = path
    return Files(found.get("worker"), found.get("master"), rules_of(rules) if rules else None)


def worker_config(path: str | None) -> WorkerConfig:
    """That of a file, or the defaults. Raises: ConfigError."""
    return load(model(), layers_of(path) if path else []).config


def with_master(standing: Standing, path: str | None) -> Standing:
    """The same master with another configuration file; its flags go before. Raises: ConfigError."""
    if path is None:
        return standing
    fixed = [Layer(name, data, Origin(origin)) for name, data, origin in standing.fixed]
    config = load(MasterConfig, [*layers_of(path), *fixed]).config
    return replace(
        standing,
        policy=config.policy(auto_prefix=standing.gate),
        overwrite=config.restrictions.allow_overwrite,
        deny_labels=config.restrictions.deny_node_feature_labels,
        namespace_selector=config.restrictions.node_feature_namespace_selector,
        publish=not config.no_publish,
    )


def with_rules(present: Rules, new: Rules | None, gone: Iterable[str]) -> Rules:
    """Objects of the same name are replaced, as `kubectl apply` does. Raises: ConfigError for one that is not there."""
    found = {**present, **(new or {})}
    for name in gone:
        if name not in found:
            raise ConfigError(f"--delete-rules {name}: there is no such NodeFeatureRule")
        del found[name]
    return found
