"""Write a bundle for a bug report: the Node and nfd's bookkeeping on it, versions, configuration, rules, NodeFeature
objects, features if the master serves them, and the last log lines of its worker and the masters. Serial numbers, MAC
and IP addresses, UUIDs, ids of cloud instances, secrets and other generated values are replaced, equal values by equal
texts; with --names, the names of nodes and hosts, too."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from nfd.cli.cluster import add_cluster_flags, add_master_flags
from nfd.cli.parsers import node_name, path
from nfd.errors import ConfigError

EXAMPLES = (
    ("report gpu-01", "write nfd-report-gpu-01.tar.gz"),
    ("report gpu-01 --names -O bug.tar.gz", "also replace names of nodes; another file"),
    ("report gpu-01 --master http://localhost:8081", "with the features that its worker reported"),
)


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser, selector=False)
    parser.add_argument("node", metavar="NODE", type=node_name, help="the node with the problem")
    parser.add_argument("-O", "--output-file", metavar="FILE", type=path, help="default: nfd-report-NODE.tar.gz")
    parser.add_argument("--names", action="store_true", help="replace the names of nodes and hosts, too")
    add_master_flags(parser, "HTTP address of the master, for features (see nfd plan)", default="")


def run(args: Namespace) -> int:
    from nfd.cli.report.bundle import Cleaner, render, write_bundle
    from nfd.cli.report.collect import gather

    bundle = Path(args.output_file or f"nfd-report-{args.node}.tar.gz")
    if bundle.exists():
        raise ConfigError(f"--output-file {bundle}: already exists")
    found = gather(args)
    cleaner = Cleaner(found.names if args.names else None)
    files = {cleaner.text(name): render(name, cleaner.value(one)) for name, one in found.files.items()}
    count = write_bundle(bundle, files)
    missing = "".join(f"  without {what}\n" for what in found.missing)
    sys.stdout.write(f"{bundle}: {count} files; check them before you share them\n{missing}")
    return 0
