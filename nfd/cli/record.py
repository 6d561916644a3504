"""Write the files that a scan of this machine reads to a directory for `--replay`. Serial numbers, UUIDs, addresses and
secrets are replaced, and so is everything else in feature files that is not known to be harmless. The recording is
scanned at once, to check that it gives the same labels, apart from replaced ones."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from nfd.cli.machine import add_machine_flags, add_scan_flags, host_of, plan_of, scan
from nfd.cli.parsers import path
from nfd.host.record import Recorder, check_empty
from nfd.host.replay import Replay
from nfd.host.scrub_files import Scrubber
from nfd.message_text import visible


def add_flags(parser: ArgumentParser) -> None:
    add_machine_flags(parser)
    add_scan_flags(parser)
    parser.add_argument("directory", metavar="DIR", type=path, help="an empty or new directory")


def run(args: Namespace) -> int:
    check_empty(args.directory)
    plan, _ = plan_of(args)
    recorder = Recorder(host_of(args))
    live = scan(recorder, plan)
    scrubber = Scrubber()
    count = recorder.write(args.directory, scrubber)
    own = {name: value for name, value in os.environ.items() if name.startswith("NFD_")}
    replayed = scan(Replay(args.directory, own), plan)
    sys.stdout.write(f"{args.directory}: {count} files, {len(live.labels)} labels\n")
    keys = live.labels.keys() | replayed.labels.keys()
    failures = 0
    for key in sorted(key for key in keys if live.labels.get(key) != replayed.labels.get(key)):
        was, now = live.labels.get(key), replayed.labels.get(key)
        replaced = was is not None and now == scrubber.label(key, was)
        failures += not replaced
        values = f"{was or '(none)'} here, {now or '(none)'} in the recording"
        sys.stderr.write(visible(f"{key}: {'replaced in the recording' if replaced else values}") + "\n")
    return 1 if failures else 0
