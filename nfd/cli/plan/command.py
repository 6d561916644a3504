"""What a change of configuration or rules would add, change and remove, per key and number of nodes, before anyone
applies it. On a cluster the master that leads is asked for the features of all nodes (it is to run with
--serve-reports), and nothing is written; with --replay recorded machines take the nodes' place. Rule files replace the
NodeFeatureRules of the same names."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from nfd.cli.cluster import add_cluster_flags
from nfd.cli.nodes import as_data
from nfd.cli.output import style_of
from nfd.cli.parsers import path
from nfd.errors import ConfigError

if TYPE_CHECKING:
    from nfd.cli.plan.model import Files, Scene

EXAMPLES = (
    ("plan --rules new-rules.yaml", "what these rules would do to the nodes of the cluster"),
    ("plan --config nfd-worker.conf -o wide", "another configuration of the workers; the nodes by name"),
    ("plan --config nfd-master.conf --delete-rules old", "one of the master's, and a NodeFeatureRule less"),
    ("plan --replay recordings/ --current-config now.conf --config new.conf", "the same on recorded machines"),
)


def add_flags(parser: ArgumentParser) -> None:
    new = parser.add_argument_group("the change")
    about = "a new configuration, see --program"
    new.add_argument("--config", metavar="FILE", type=path, action="append", default=[], help=about)
    new.add_argument("--rules", metavar="FILE", type=path, nargs="+", action="extend", default=[], help="new rules")
    new.add_argument("--delete-rules", metavar="NAME", action="append", default=[], help="a NodeFeatureRule that goes")
    now = parser.add_argument_group("what it starts from")
    about = "a recorded machine, or many in a folder"
    now.add_argument("--replay", metavar="DIR", type=path, action="append", default=[], help=about)
    about = "the present configuration"
    now.add_argument("--current-config", metavar="FILE", type=path, action="append", default=[], help=about)
    now.add_argument(
        "--current-rules",
        metavar="FILE",
        type=path,
        nargs="+",
        action="extend",
        default=[],
        help="with --replay: the present rules",
    )
    now.add_argument(
        "--master", metavar="URL", default="http://localhost:8081", help="HTTP port of the master that leads"
    )
    now.add_argument("--token-file", metavar="FILE", type=path, help="token for --master; else the kubeconfig's")
    add_cluster_flags(parser)
    parser.add_argument(
        "--program", choices=("worker", "master"), help="whose configuration (the master's if FILE's name says so)"
    )
    parser.add_argument("-o", "--output", choices=("text", "wide", "json"), default="text")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if anything would change")


def run(args: Namespace) -> int:
    from nfd.cli.plan.changes import as_text, changes_of, to_json
    from nfd.cli.plan.model import files_of, foresee, mistakes_of, overwritten_by

    if not (args.config or args.rules or args.delete_rules):
        raise ConfigError("give a change: --config, --rules or --delete-rules")
    new = files_of(args.config, args.program, args.rules)
    scene = scene_of(args, new)
    outcomes = list(foresee(scene))
    warnings = [*mistakes_of(new.rules, scene.standing), *overwritten_by(new.rules, outcomes), *scene.warnings]
    if not scene.standing.publish:
        warnings.append("the master has noPublish set and writes nothing")
    if args.output == "json":
        sys.stdout.write(as_data(to_json(outcomes, warnings), "json"))
    else:
        sys.stdout.write(as_text(outcomes, warnings, style_of(sys.stdout), wide=args.output == "wide"))
    changes = any(True for outcome in outcomes for _ in changes_of(outcome.planned))
    return 1 if changes and args.exit_code else 0


def scene_of(args: Namespace, new: Files) -> Scene:
    """Recorded machines or the cluster. Raises: ConfigError, KubeError."""
    from nfd.cli.plan.model import files_of

    current = files_of(args.current_config, args.program, args.current_rules)
    if args.replay:
        from nfd.cli.plan.recorded import recorded_scene

        return recorded_scene(args.replay, current, new, args.delete_rules)
    if args.current_rules or current.master:
        raise ConfigError("--current-rules, and a master's --current-config, go with --replay; a cluster has its own")
    from nfd.cli.plan.cluster import cluster_scene

    return cluster_scene(args, current, new, args.delete_rules)
