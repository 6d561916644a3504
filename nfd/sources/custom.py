"""Labels from rules: two static ones, those of the configuration (`sources.custom`), and those of custom.d.

There is no feature of its own; the rules see the features of all other sources, and in `rule.matched` the labels and
vars of the rules before. (NFD documentation, "Customization guide", custom feature source.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar

from nfd.config.section import Section
from nfd.errors import HostError, reason_of
from nfd.features import Features, printable
from nfd.host import CUSTOM_D, NOT_NOW, Host
from nfd.rule_clock import metered
from nfd.rules.compile import CompiledRule, compile_rule
from nfd.rules.evaluate import CustomGiven, Watch, run_custom
from nfd.rules.parse import parse_custom, parse_custom_text
from nfd.rules.template import Clock
from nfd.source import Labelled, Source
from nfd.sources.feature_reader import FeatureReader

OPTION = "sources.custom"
RULE_SECONDS = 5.0
"""CPU time that a rule may take: nothing else waits for a worker's rules."""
_UNKNOWN = re.compile(r"unknown key (?!.*\.(?:matchExpressions|matchName)\.)")
"""A finding about a field outside of match expressions, inside of which NFD takes any."""

STATIC: tuple[dict[str, Any], ...] = (
    {
        "name": "RDMA capable static rule",
        "labels": {"rdma.capable": "true"},
        "matchFeatures": [{"feature": "pci.device", "matchExpressions": {"vendor": {"op": "In", "value": ["15b3"]}}}],
    },
    {
        "name": "RDMA available static rule",
        "labels": {"rdma.available": "true"},
        "matchFeatures": [{"feature": "kernel.loadedmodule", "matchExpressions": ["ib_uverbs", "rdma_ucm"]}],
    },
)


class Config(Section):
    """Rules in the worker's configuration."""

    bare: ClassVar[str] = "rules"

    rules: tuple[Any, ...] = ()
    """Rules that give labels: name, labels, labelsTemplate, vars, varsTemplate, matchFeatures, matchAny."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules in the order of their evaluation, and what was wrong with the texts they come from.

    `error` names a file that could not be read or used. Its rules are missing, unless `whole` says that they are those
    that it had when it could be used. `clock` is for templates.
    """

    rules: tuple[CompiledRule, ...]
    clock: Clock
    notes: tuple[tuple[str, str], ...] = ()
    error: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A file of custom.d; one that cannot be used gives no rules, and `rejected` says why."""

    rules: tuple[CompiledRule, ...] = ()
    notes: tuple[str, ...] = ()
    rejected: str = ""


def discover(host: Host, config: Config) -> Features:
    """Nothing: rules run when labels are made."""
    return Features()


def load(host: Host, config: Config) -> Rules:
    """The static rules, the configured ones, and those of custom.d.

    Reads: etc/kubernetes/node-feature-discovery/custom.d/{*,*/*}, files in the order of their names, hidden ones
    skipped, each a YAML list of rules
    Absent: no such directory is no rules.
    A file that cannot be used has the rules that it had before.
    """
    configured = parse_custom(config.rules)
    repaired = ((rule.name, one.reason) for rule in configured for one in rule.mistakes if one.soft)
    notes = [(f"{OPTION}: {name}", reason) for name, reason in repaired]
    rules = [*static_rules(), *map(compile_rule, configured)]
    reader, good = FeatureReader(host), host.good(CUSTOM_D)
    paths = tuple(rule_files(reader))
    listed, unknown = not reader.errors, False
    for path in good.keys() - set(paths) if listed else ():
        del good[path]
    errors = [reader.failure]
    for path in paths:
        file = read_rule_file(host, path)
        notes.extend((printable(path), note) for note in file.notes)
        if file.rejected:
            errors.append(file.rejected)
            older = good.get(path)
            file = older if isinstance(older, RuleFile) else RuleFile()
            unknown = unknown or older is None
        else:
            good[path] = file
        rules.extend(file.rules)
    error = "; ".join(filter(None, errors))
    whole = bool(error) and listed and not unknown
    return Rules(tuple(rules), lambda: datetime.fromtimestamp(host.now(), UTC), tuple(notes), error, whole)


@cache
def static_rules() -> tuple[CompiledRule, ...]:
    """STATIC, made ready once."""
    return tuple(map(compile_rule, parse_custom(STATIC)))


def rule_files(reader: FeatureReader) -> Iterator[str]:
    """Visible files of the folder and of its folders, hidden folders among them; in byte order of their names.

    Names that start with two dots are the kubelet's copies of a mounted ConfigMap, to which visible links lead.
    """
    looking = FeatureReader(reader.host)  # what is no folder is read as a file, and has the trouble then
    for name in reader.names(CUSTOM_D):
        if name.startswith(".."):
            continue
        path = f"{CUSTOM_D}/{name}"
        if looking.has_dir(path):
            inner = (name for name in reader.names(path) if not name.startswith("."))
            yield from (file for file in (f"{path}/{name}" for name in inner) if not looking.has_dir(file))
        elif not name.startswith("."):
            yield path


def read_rule_file(host: Host, path: str) -> RuleFile:
    """The rules of a file, or why it cannot be used; one that has gone since it was listed has none."""
    try:
        file = host.parsed(path, parse_file) or RuleFile()
    except HostError as error:
        return RuleFile(rejected="" if error.errno in NOT_NOW else str(error))
    return replace(file, rejected=f"{printable(path)}: {file.rejected}") if file.rejected else file


def parse_file(data: bytes) -> RuleFile:
    """The rules of a file; a mistake in one or an unknown field of it rejects the file as a whole."""
    try:
        parsed = parse_custom_text(data.decode("utf-8", "replace"))
        wrong = [finding for finding in parsed.findings if not finding.soft or _UNKNOWN.match(finding.reason)]
        if wrong:
            return RuleFile(notes=tuple(map(str, wrong)), rejected=str(wrong[0]))
        return RuleFile(tuple(map(compile_rule, parsed.rules)), tuple(map(str, parsed.findings)))
    except Exception as error:  # a file spoils only itself
        reason = f"cannot be read: {reason_of(error)}"
        return RuleFile(notes=(reason,), rejected=reason)


def run(rules: Rules, features: Features, watch: Watch | None = None) -> CustomGiven:
    """Run all rules over these features; `watch` sees the result of each."""
    meter = metered(seconds=RULE_SECONDS)
    return run_custom(rules.rules, features, clock=rules.clock, meter=meter, watch=watch)


def labels(features: Features, config: Rules) -> Labelled:
    """The labels of all rules that hold, later ones overwriting equal names.

    What a rule that fails gave before stays: the source counts as one of which labels are missing.

    Labels:
        rdma.capable = true: a Mellanox device is there
        rdma.available = true: the kernel modules ib_uverbs and rdma_ucm are loaded
        <key> = text: a label of a rule in the configuration or in `custom.d`
    """
    given = run(config, features)
    notes = [(f"rule {failure.rule!r}", failure.reason) for failure in given.errors]
    notes += [(one.key, str(one)) for one in given.overwrites]
    failed = [f"rule {failure.rule!r} failed: {failure.reason}" for failure in given.errors]
    error = "; ".join(filter(None, (config.error, *failed)))
    return Labelled(given.labels, (*config.notes, *notes), error, config.whole and not failed)


SOURCE = Source(
    "custom",
    Config,
    discover,
    labels,
    load=load,
    priority=10,
    verbatim=True,
    namespaced=True,
    cleaned=False,
    written=True,
    dependent=True,
    watches=(CUSTOM_D,),
)
