"""Evaluate rules on a node of the cluster, as NFD's `kubectl nfd test` does: on the features that its worker reported,
which the master serves, and on those of NodeFeature objects. The exit status is 1 if a rule fails."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from nfd.cli.cluster import add_cluster_flags, add_master_flags, ask_cluster
from nfd.cli.parsers import node_name, path
from nfd.cli.rule_files import read_rules, warn_if_empty
from nfd.cli.rule_results import try_rules
from nfd.errors import ConfigError
from nfd.message_text import visible
from nfd.rules.check import POLICY

if TYPE_CHECKING:
    from nfd.features import Features
    from nfd.kube.client import KubeClient
    from nfd.rules.policy import Policy

EXAMPLES = (
    ("test -f rules.yaml -n gpu-01 --master http://localhost:8081", "on the features that the node's worker reported"),
    ("test -f rules.yaml -n gpu-01", "only on NodeFeature objects, as NFD does"),
)


def add_flags(parser: ArgumentParser) -> None:
    parser.add_argument("-f", "--nodefeaturerule-file", metavar="FILE", type=path, required=True, help="the rules")
    parser.add_argument("-n", "--nodename", metavar="NODE", type=node_name, required=True, help="a node of the cluster")
    add_cluster_flags(parser, selector=False, kubeconfig=("-k",), namespace=())
    add_master_flags(parser, "HTTP address of the master (see nfd plan)", default="")


def run(args: Namespace) -> int:
    path, node = args.nodefeaturerule_file, args.nodename
    objects = [parsed for parsed, _ in read_rules(path)]
    warn_if_empty(path, objects)
    features, policy, remarks = features_of(args)
    sys.stderr.write("".join(f"warning: {visible(one)}\n" for one in remarks))
    sys.stdout.write(f"Evaluating NodeFeatureRule against Node {node}\n")
    return try_rules(objects, features, policy or POLICY).report("NodeFeatureRule", f"Node {node}")


def features_of(args: Namespace) -> tuple[Features, Policy | None, list[str]]:
    """The report merged with the objects as the master does, its policy if it was asked, and remarks.

    Raises: ConfigError, KubeError.
    """

    async def ask(client: KubeClient) -> tuple[Features, Policy | None, list[str]]:
        from nfd.cli.master_reports import read_reports
        from nfd.cli.namespace_selector import read_objects
        from nfd.master.http.reports_api import MasterState
        from nfd.master.node.outcome import NO_RULES, evaluate_node
        from nfd.store.base import Node

        name, state, report = args.nodename, None, None
        if args.master:
            reported, state = await read_reports(client, args)
            report = reported[name].report if name in reported else None
        selected = await read_objects(client, state, name)
        if not selected.objects and (report is None or not report.features):
            where = f"has not reported to {args.master}" if args.master else "for the worker's report, use --master"
            raise ConfigError(f"--nodename {name}: no NodeFeature object is for this node; {where}")
        joining = (state or MasterState()).joining
        joined = evaluate_node(Node.bare(name), report, NO_RULES, selected.objects, joining).report
        return joined.features, state.policy if state else None, list(selected.remarks())

    return ask_cluster(args, ask)
