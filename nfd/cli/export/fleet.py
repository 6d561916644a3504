"""`nfd export fleet`: what `nfd plan` needs of a cluster, in one file without names, addresses and serial numbers."""

from __future__ import annotations

import gzip
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from nfd.cli.cluster import add_cluster_flags, add_master_flags
from nfd.cli.parsers import path
from nfd.errors import NfdError
from nfd.message_text import visible
from nfd.runtime.files import replace_file

EXAMPLES = (("export fleet --path fleet.jsonl.gz", "a snapshot of the cluster for nfd plan --cluster-snapshot"),)


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser)
    add_master_flags(parser)
    parser.add_argument(
        "-p", "--path", metavar="FILE", type=path, help="write to this file, packed with gzip if its name ends in .gz"
    )


def run(args: Namespace) -> int:
    """Write the snapshot, and on standard error how much of it was replaced."""
    from nfd.cli.export.anonymous import Anonymizer
    from nfd.cli.plan.cluster import documents_of
    from nfd.cli.plan.snapshot import render_snapshot

    cleaned = Anonymizer(documents_of(args, namespaces=True, worker=True)).documents()
    text = "".join(render_snapshot(cleaned.documents))
    if args.path:
        data = text.encode()
        try:
            replace_file(Path(args.path), gzip.compress(data, mtime=0) if args.path.endswith(".gz") else data, 0o644)
        except OSError as error:
            raise NfdError(f"--path {args.path}: {error.strerror}") from error
    else:
        sys.stdout.write(text)
    count = len(cleaned.documents.nodes)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    sys.stderr.write(
        f"{nodes}, {cleaned.count} names, addresses and ids replaced; check the file before you share it\n"
    )
    for name in cleaned.renamed:
        sys.stderr.write(
            f"NodeFeatureRule {visible(name)} has another name in the file: its name contains an identifier\n"
        )
    return 0
