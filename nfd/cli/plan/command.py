"""Print what a change of configuration or rules would add, change and remove, per key and number of nodes, before you
apply it. On a cluster, the features of all nodes come from the leading master, which must run with --serve-reports;
nothing is written. With --cluster-snapshot, no cluster is needed: the file has what was read from it earlier. With
--replay, recorded machines are used instead of nodes. Rule files replace the NodeFeatureRules of the same names."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from nfd.cli.cluster import add_cluster_flags, add_master_flags
from nfd.cli.nodes import as_data
from nfd.cli.parsers import path
from nfd.cli.terminal_tables import style_of
from nfd.errors import ConfigError

if TYPE_CHECKING:
    from nfd.cli.plan.model import Files, PlanInput

EXAMPLES = (
    ("plan --rules new-rules.yaml", "new rules, on the nodes of the cluster"),
    ("plan --config nfd-worker.conf -o wide", "a new configuration of the workers; with the names of nodes"),
    (
        "plan --config nfd-master.conf --delete-rules old",
        "a new configuration of the master, without one NodeFeatureRule",
    ),
    (
        "plan --cluster-snapshot fleet.jsonl.gz --rules new-rules.yaml -o markdown --exit-code",
        "without a cluster, for a comment in a pull request; exit status 1 if anything would change",
    ),
    ("plan --replay recordings/ --current-config now.conf --config new.conf", "the same on recorded machines"),
)


def add_flags(parser: ArgumentParser) -> None:
    new = parser.add_argument_group("the change")
    about = "a new configuration, see --program"
    new.add_argument("--config", metavar="FILE", type=path, action="append", default=[], help=about)
    new.add_argument("--rules", metavar="FILE", type=path, nargs="+", action="extend", default=[], help="new rules")
    new.add_argument("--delete-rules", metavar="NAME", action="append", default=[], help="a NodeFeatureRule to delete")
    now = parser.add_argument_group("the current state")
    about = "a recorded machine, or a folder of them"
    now.add_argument("--replay", metavar="DIR", type=path, action="append", default=[], help=about)
    about = "the current configuration"
    now.add_argument("--current-config", metavar="FILE", type=path, action="append", default=[], help=about)
    about = "with --replay: the current rules"
    now.add_argument("--current-rules", metavar="FILE", type=path, nargs="+", action="extend", default=[], help=about)
    about = "a snapshot made by nfd export fleet, instead of the cluster; - is standard input"
    now.add_argument("--cluster-snapshot", metavar="FILE", type=path, help=about)
    add_master_flags(now)
    add_cluster_flags(parser)
    parser.add_argument(
        "--program", choices=("worker", "master"), help="the program of --config (default: by the name of FILE)"
    )
    parser.add_argument("-o", "--output", choices=("text", "wide", "markdown", "json"), default="text")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if anything would change")


def run(args: Namespace) -> int:
    from nfd.cli.plan.changes import as_markdown, as_text, changes_of, to_json
    from nfd.cli.plan.model import files_of, mistakes_of, overwritten_by, plan_nodes

    if not (args.config or args.rules or args.delete_rules):
        raise ConfigError("no change given: use --config, --rules or --delete-rules")
    new = files_of(args.config, args.program, args.rules)
    given = input_of(args, new)
    outcomes = list(plan_nodes(given))
    warnings = [*mistakes_of(new.rules, given.state), *overwritten_by(new.rules, outcomes), *given.warnings]
    if not given.state.publish:
        warnings.append("the master has noPublish set and writes nothing")
    if args.output == "json":
        sys.stdout.write(as_data(to_json(outcomes, warnings), "json"))
    elif args.output == "markdown":
        sys.stdout.write(as_markdown(outcomes, warnings))
    else:
        sys.stdout.write(as_text(outcomes, warnings, style_of(sys.stdout), wide=args.output == "wide"))
    changes = any(True for outcome in outcomes for _ in changes_of(outcome.planned))
    return 1 if changes and args.exit_code else 0


def input_of(args: Namespace, new: Files) -> PlanInput:
    """The input from a snapshot, recorded machines or the cluster. Raises: ConfigError, KubeError."""
    from nfd.cli.plan.model import files_of

    current = files_of(args.current_config, args.program, args.current_rules)
    if args.cluster_snapshot:
        from nfd.cli.plan.snapshot import check_flags, snapshot_input

        check_flags(args, *(["--current-config of a master"] if current.master else []))
        return snapshot_input(args.cluster_snapshot, args.selector, current, new, args.delete_rules)
    if args.replay:
        from nfd.cli.plan.recorded import recorded_input

        return recorded_input(args.replay, current, new, args.delete_rules)
    if args.current_rules or current.master:
        raise ConfigError("--current-rules, and --current-config of a master, need --replay; a cluster has its own")
    from nfd.cli.plan.cluster import cluster_input

    return cluster_input(args, current, new, args.delete_rules)
