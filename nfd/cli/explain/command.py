"""Print why a node has a label, or why not: the source or rule that set it and the features it is made from, or what
prevents it. NODE is - for the machine of --host-root or --replay; rule files are evaluated as the master would. Any
other NODE is one of the cluster of the kubeconfig, with its labels, rules and NodeFeature objects. Without LABEL: which
startup taints the Node has, and why they are not removed yet; which conditions of nfd it has, since when, and what the
master would set."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nfd.cli.cluster import add_cluster_flags, add_master_flags
from nfd.cli.explain import feature_files
from nfd.cli.explain.local import MOST_SHOWN, Case, Make, evidence, reasons
from nfd.cli.machine import POLICY, add_machine_flags, add_scan_flags, host_of, plan_of, scan
from nfd.cli.parsers import node_name, path
from nfd.cli.rule_check import compile_files, name_of
from nfd.cli.terminal_tables import style_of
from nfd.errors import ConfigError
from nfd.master.node.desired import RULE_ORIGIN
from nfd.message_text import visible
from nfd.names import FEATURE_NS, NVIDIA_NS, full_key
from nfd.rules.evaluate import Given

EXAMPLES = (
    ("explain gpu-01 nvidia.com/gpu.replicas", "who set the label, from the cluster"),
    (
        "explain gpu-01 big-gpus --master http://localhost:8081",
        "with the features it is made from, or the term that does not match",
    ),
    ("explain gpu-01 --master http://localhost:8081", "why the Node has its startup taints and conditions"),
    ("explain --replay recordings/gpu-01 - cpu-cpuid.AVX512F", "on a recorded machine; this one without --replay"),
    ("explain - features.d", "what each line of this machine's feature files became"),
)
HERE = "-"
_OF_GPUS = re.compile(r"(cuda|gfd|gpu|mig|mps|vgpu)[.-][^/]*$")
"""Names without a prefix that are those of labels of GPU feature discovery."""


def add_flags(parser: ArgumentParser) -> None:
    add_machine_flags(parser)
    add_scan_flags(parser)
    parser.add_argument("--rules", metavar="FILE", type=path, action="append", default=[], help="NodeFeatureRules")
    add_cluster_flags(parser, selector=False)
    add_master_flags(parser, "for a NODE of a cluster: HTTP address of the master (see nfd plan)", default="")
    about = "a node of the cluster, or - for the machine of --host-root or --replay"
    parser.add_argument("node", metavar="NODE", type=node_name, help=about)
    about = (
        f"label key; {FEATURE_NS}/ is added to a key without a prefix. Without LABEL: the startup taints and"
        f" conditions of NODE. {feature_files.NAME}: all feature files of NODE -"
    )
    parser.add_argument("label", metavar="LABEL", nargs="?", default="", help=about)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")


def run(args: Namespace) -> int:
    if args.node != HERE:
        return show(*_explain_on_cluster(args), args.output) if args.label else _show_node(args)
    if not args.label:
        raise ConfigError(f"LABEL: needed for NODE {HERE}, whose taints are in no file")
    plan, problems = plan_of(args)
    host = host_of(args)
    rules = compile_files(args.rules, POLICY)
    seen = scan(host, plan, problems, rules)
    if args.label == feature_files.NAME:
        found = list(feature_files.explain_files(host, seen))
        if args.output == "json":
            return _show_json({"lines": found})
        sys.stdout.writelines(f"{visible(line)}\n" for line in found)
        return 0
    key, remark = elsewhere(args.label, seen.labels)
    case = Case(key, host, plan, rules, seen)
    value = case.seen.labels.get(key)
    lines = reasons(case) if value is None else present(case)
    also = nvidia_key(args.label) if value is None else ""
    other = reasons(replace(case, key=also)) if also else ()
    return show(key, value, [*remark, *lines, *(f"{also} is missing, too: {line}" for line in other)], args.output)


def nvidia_key(written: str) -> str:
    """The label of that name in NVIDIA's namespace, if a key without a prefix may mean it."""
    return f"{NVIDIA_NS}/{written}" if _OF_GPUS.match(written) else ""


def elsewhere(written: str, labels: Iterable[str]) -> tuple[str, list[str]]:
    """The key that a user means, with a remark if it is in another namespace than the default one.

    A key without a prefix may also be a label of that name without one, or in the namespace of a vendor.
    """
    key, have = full_key(written), set(labels)
    same = sorted(one for one in have if one.rpartition("/")[2] == written)
    if key in have or not same:
        return key, []
    more = f"; also {', '.join(same[1:])}" if same[1:] else ""
    return same[0], [f"{key} is missing, this is the label of that name{more}"]


def show(key: str, value: str | None, lines: Iterable[str], output: str = "text") -> int:
    """Print a label with its reasons."""
    if output == "json":
        return _show_json({"label": key, "value": value, "reasons": list(lines)})
    style = style_of(sys.stdout)
    head = style.warn(f"{key} is missing") if value is None else f"{key}={style.value(visible(value))}"
    sys.stdout.write("\n  ".join([head, *map(visible, lines)]) + "\n")
    return 0


def _show_json(found: Mapping[str, Any]) -> int:
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0


def _show_node(args: Namespace) -> int:
    from nfd.cli.explain.node import explain_node

    found = explain_node(args)
    if args.output == "json":
        return _show_json(found.to_json())
    sys.stdout.write("\n  ".join(map(visible, [found.heading, *found.lines()])) + "\n")
    return 0


def _explain_on_cluster(args: Namespace) -> tuple[str, str | None, list[str]]:
    if args.rules:
        raise ConfigError("--rules needs NODE -; on a cluster, its own rules are used")
    from nfd.cli.explain.cluster import explain_on_node

    key, value, lines = explain_on_node(args)
    if args.master:
        from nfd.cli.explain.master import explain_by_report

        lines += explain_by_report(args, key, value)
    elif value is None:
        lines.append("use --master URL to see whether an admission policy or webhook rejects it")
    return key, value, lines


def present(case: Case) -> Iterator[str]:
    """Who set the label, from which features, and who else would."""
    origin = case.seen.origins.get(case.key, "")
    makers: dict[str, Make] = {source.name: case.maker(source) for source in case.plan.label_sources}
    if origin.startswith(RULE_ORIGIN):
        yield f"set by {name_of(case.rules, origin)}"
        yield from evidence(case, case.labels_of_rules)
    else:
        yield f"set by source {origin}"
        giving = [
            (where.partition(", ")[2], given.labels[case.name])
            for where, _, given in case.all_rules()
            if isinstance(given, Given) and where.startswith(f"source {origin},") and case.name in given.labels
        ]
        yield from (f"by {rule}" for rule, _ in giving[-1:])
        yield from (_overridden(rule, value) for rule, value in giving[:-1])
        yield from evidence(case, makers[origin])
        said = [one for one in case.seen.problems if one.source == origin]
        yield from (f"the scan reports: {one.subject}: {one.reason}" for one in said[:MOST_SHOWN])
    yield from overridden_rules(case)
    for name, make in makers.items():
        other = make(case.features).get(case.key) if name != origin else None
        if other is not None:
            yield _overridden(f"source {name}", other)


def overridden_rules(case: Case) -> Iterator[str]:
    """Matching rules that also set the label and are overridden by a later one."""
    asked = case.outcome_of_rules(case.features).evaluation.contributions
    for one in [one for one in asked if case.key in one.labels][:-1]:
        yield _overridden(name_of(case.rules, one.origin), one.labels[case.key])


def _overridden(who: str, value: str) -> str:
    return f"{who} sets it to {value!r}, and is overridden"
