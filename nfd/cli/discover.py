"""Scan a machine once and print the labels that a master with default settings would put on the Node, or all raw
features. The exit status is 1 if a source failed completely."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace

from nfd.cli.machine import Seen, add_machine_flags, add_scan_flags, host_of, plan_of, scan
from nfd.cli.terminal_tables import Style, problems, style_of, table
from nfd.config.yamltext import dump
from nfd.features import to_json

FORMATS = ("labels", "features", "json", "table")


def add_flags(parser: ArgumentParser) -> None:
    add_machine_flags(parser)
    add_scan_flags(parser)
    parser.add_argument("-o", "--output", choices=FORMATS, help="table on a terminal, otherwise labels")


def run(args: Namespace) -> int:
    start = time.perf_counter()
    plan, odd = plan_of(args)
    seen = scan(host_of(args), plan, odd)
    form = args.output or ("table" if sys.stdout.isatty() else "labels")
    sys.stdout.write(render(form, seen, time.perf_counter() - start))
    sys.stdout.flush()
    if form in ("labels", "features") and seen.problems:
        text = problems(seen.problems, style_of(sys.stderr))
        sys.stderr.write(f"{text}\n")
    return 1 if seen.discovery.lost else 0


def render(form: str, seen: Seen, seconds: float) -> str:
    """The scan in one of the FORMATS."""
    if form == "features":
        return dump({"features": to_json(seen.discovery.features)})  # as in the spec of a NodeFeature
    if form == "json":
        found = [{"source": one.source, "subject": one.subject, "reason": one.reason} for one in seen.problems]
        value = {"labels": seen.labels, "features": to_json(seen.discovery.features), "problems": found}
        return json.dumps(value, indent=2, sort_keys=True) + "\n"
    if form == "table":
        return as_table(seen, seconds, style_of(sys.stdout))
    return "".join(f"{key}={value}\n" for key, value in sorted(seen.labels.items()))


def as_table(seen: Seen, seconds: float, style: Style) -> str:
    """The table, the problems, and a summary."""
    parts = [table(seen.labels, seen.origins, style)]
    if seen.problems:
        parts.append(f"{style.warn('problems')}\n{problems(seen.problems, style)}")
    if seen.discovery.lost:
        parts.append(style.bad(f"failed: {', '.join(sorted(seen.discovery.lost))}"))
    count, sources = len(seen.labels), len(set(seen.origins.values()))
    parts.append(style.dim(f"{count} labels from {sources} sources in {seconds * 1000:.0f} ms"))
    return "\n\n".join(part for part in parts if part) + "\n"
