"""The machine that a command scans, and how: `--host-root`, `--replay`, `--config`, `--sources`."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass

from nfd.cli.parsers import path
from nfd.config.option_values import split_items
from nfd.config.reload import FilesInUse, reload_files
from nfd.discovery import Discovery, Plan, discover, make_plan
from nfd.errors import ConfigError
from nfd.features import Problem
from nfd.host import Host
from nfd.host.replay import open_host
from nfd.master.node.outcome import NO_RULES, evaluate_report
from nfd.master.rules.ruleset import RuleSet
from nfd.report import Report
from nfd.rules.policy import Policy
from nfd.sources import known
from nfd.store.base import Kind
from nfd.worker.config import WorkerConfig, model

POLICY = Policy()
"""The policy of a master with default settings."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A scan, and the labels that a master with default settings would write."""

    discovery: Discovery
    labels: dict[str, str]
    origins: dict[str, str]
    problems: tuple[Problem, ...]


def add_machine_flags(parser: ArgumentParser) -> None:
    """`--host-root` and `--replay`."""
    root = os.environ.get("NFD_HOST_ROOT") or "/"
    about = f"where the root file system of this machine is mounted ({root})"
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--host-root", metavar="DIR", type=path, default=root, help=about)
    about = "a recorded machine instead of this one"
    which.add_argument("--replay", metavar="DIR", type=path, help=about)


def add_scan_flags(parser: ArgumentParser) -> None:
    """`--config` and `--sources`."""
    parser.add_argument("--config", metavar="FILE", type=path, help="a worker's configuration file")
    parser.add_argument("--sources", metavar="LIST", help="sources to run, such as cpu,pci or all,-kernel")


def host_of(args: Namespace) -> Host:
    return open_host(args.host_root, args.replay or "", os.environ)


def plan_of(args: Namespace) -> tuple[Plan, tuple[Problem, ...]]:
    """The plan for a scan, and problems of the configuration."""
    config, problems = config_of(args)
    return plan_with(config, args.sources), problems


def plan_with(config: WorkerConfig, sources: str | None = None) -> Plan:
    """The plan for a scan with this configuration; `sources`, as in --sources, override it. Raises: ConfigError."""
    core, wanted = config.core, None if sources is None else _sources(sources)
    return make_plan(
        core.feature_sources if wanted is None else wanted,
        core.label_sources if wanted is None else wanted,
        config.sources,
        core.label_white_list,
    )


def _sources(text: str) -> tuple[str, ...]:
    """The items of `--sources`. Raises: ConfigError for an unknown one."""
    items, names = tuple(split_items(text)), ("all", *(source.name for source in known()))
    for item in items:
        if item.removeprefix("-") not in names:
            raise ConfigError(f"--sources: unknown source {item!r}; known are {', '.join(names)}")
    return items


def config_of(args: Namespace, in_use: FilesInUse | None = None) -> tuple[WorkerConfig, tuple[Problem, ...]]:
    """The configuration, and its problems; `in_use` is the configuration in use, at a reload."""
    in_use = in_use or FilesInUse()
    required = not in_use.loaded
    (config, findings), _ = reload_files(model(), in_use, args.config or "", required=required, pipes=True)
    return config, tuple(Problem("config", f"{one.place}: {one.key}", one.reason) for one in findings)


def scan(host: Host, plan: Plan, problems: tuple[Problem, ...] = (), rules: RuleSet = NO_RULES) -> Seen:
    """One scan, with the labels that the Node would have, including those of the rules."""
    discovery = discover(host, plan)
    report = Report("", labels=discovery.labels, origins=discovery.origins, features=discovery.features)
    desired = evaluate_report(report, rules, POLICY).derive_desired()
    origins = {key: desired.origin(Kind.LABELS, key) or "" for key in desired.of(Kind.LABELS)}
    dropped = tuple(Problem("master", one.key, f"dropped: {one.reason}") for one in desired.dropped)
    return Seen(discovery, dict(desired.of(Kind.LABELS)), origins, (*problems, *discovery.problems, *dropped))


def scan_with_defaults(args: Namespace) -> tuple[Seen, list[str]]:
    """One scan with the default configuration, and which sources failed, wholly or in part of their features."""
    plan, _ = plan_of(Namespace(config=None, sources=None))
    seen = scan(host_of(args), plan)
    scans = seen.discovery.scans.items()
    return seen, [f"source {name} failed: {one.error}" for name, one in scans if one.error is not None]
