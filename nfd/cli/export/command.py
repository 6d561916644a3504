"""Print features or labels of this machine as JSON, in the form of NFD's `nfd export`; or what a group of nodes has in
common, in the form of an autoscaler or a queue; or a snapshot of the cluster for `nfd plan`, in which names of hosts,
addresses, serial numbers and UUIDs are replaced. For features and labels, all sources except `fake` run with the
default configuration. If one of them fails, there is no output and the exit status is 1."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from nfd.cli.export import fleet, nodes_template
from nfd.cli.machine import add_machine_flags, scan_with_defaults
from nfd.cli.parsers import path
from nfd.errors import NfdError
from nfd.features import to_json
from nfd.message_text import visible

EXAMPLES = (
    ("export features", "raw features, as in a NodeFeature's spec.features"),
    ("export labels --path labels.json", "labels with their full keys, to a file"),
    *nodes_template.EXAMPLES,
    *fleet.EXAMPLES,
)


def add_flags(parser: ArgumentParser) -> None:
    jobs = parser.add_subparsers(dest="job", required=True, metavar="features|labels|nodes-template|fleet")
    for name, about in (("features", "raw features"), ("labels", "labels as a default master writes them")):
        job = jobs.add_parser(name, help=about, allow_abbrev=False)
        job.add_argument("-p", "--path", metavar="FILE", type=path, help="write to this file, without a final newline")
        add_machine_flags(job)
    about = "what all nodes of a group have: labels, taints and extended resources, for a planner"
    nodes_template.add_flags(jobs.add_parser("nodes-template", help=about, allow_abbrev=False))
    about = "what nfd plan needs of a cluster, without names, addresses and serial numbers"
    fleet.add_flags(jobs.add_parser("fleet", help=about, allow_abbrev=False))


def run(args: Namespace) -> int:
    if args.job == "nodes-template":
        return nodes_template.run(args)
    if args.job == "fleet":
        return fleet.run(args)
    seen, failed = scan_with_defaults(args)
    if failed:
        raise NfdError("; ".join(failed))
    for name, reason in seen.discovery.label_errors.items():
        sys.stderr.write(f"labels of source {name} failed: {visible(reason)}\n")
    value = to_json(seen.discovery.features) if args.job == "features" else dict(sorted(seen.labels.items()))
    text = json.dumps(value, indent=4, ensure_ascii=False)
    if not args.path:
        sys.stdout.write(f"{text}\n")
        return 0
    try:
        Path(args.path).write_text(text)
    except OSError as error:
        raise NfdError(f"--path {args.path}: {error.strerror}") from error
    return 0
