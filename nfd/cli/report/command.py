"""A bundle for a bug report: what a Node carries, what nfd records of it, versions, configuration, rules, NodeFeature
objects, features where the master tells them, and the last lines that its worker and the masters logged. Serial
numbers, MAC and IP addresses, UUIDs, ids of cloud instances, secrets and whatever looks made up by a machine are
replaced, the same value by the same text; with --names the names of nodes and hosts, too."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from nfd.cli.cluster import add_cluster_flags
from nfd.cli.parsers import path
from nfd.errors import ConfigError

EXAMPLES = (
    ("report gpu-01", "writes nfd-report-gpu-01.tar.gz"),
    ("report gpu-01 --names -O bug.tar.gz", "names of nodes replaced too, another file"),
    ("report gpu-01 --master http://localhost:8081", "with the features that its worker reported"),
)


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser, selector=False)
    parser.add_argument("node", metavar="NODE", help="the node that behaves oddly")
    parser.add_argument("-O", "--output-file", metavar="FILE", type=path, help="else nfd-report-NODE.tar.gz")
    parser.add_argument("--names", action="store_true", help="replace the names of nodes and hosts, too")
    parser.add_argument("--namespace", metavar="NAME", default="", help="where nfd runs; else it is looked for")
    parser.add_argument("--master", metavar="URL", default="", help="HTTP port of the master, for features (nfd plan)")
    parser.add_argument("--token-file", metavar="FILE", type=path, help="token for --master; else the kubeconfig's")


def run(args: Namespace) -> int:
    from nfd.cli.report.bundle import Cleaner, render, write_bundle
    from nfd.cli.report.collect import gather

    bundle = Path(args.output_file or f"nfd-report-{args.node}.tar.gz")
    if bundle.exists():
        raise ConfigError(f"--output-file {bundle}: is there already")
    found = gather(args)
    cleaner = Cleaner(found.names if args.names else None)
    files = {cleaner.text(name): render(name, cleaner.value(one)) for name, one in found.files.items()}
    count = write_bundle(bundle, files)
    missing = "".join(f"  without {what}\n" for what in found.missing)
    sys.stdout.write(f"{bundle}: {count} files; look through them before you pass them on\n{missing}")
    return 0
