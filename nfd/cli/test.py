"""Evaluate rules on a node of the cluster, as NFD's `kubectl nfd test` does: on the features that its worker reported,
which the master hands out, and on those of NodeFeature objects. Exit status 1 if a rule fails."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from nfd.cli.cluster import ask_cluster
from nfd.cli.parsers import path
from nfd.cli.rule_files import read_rules, tell_empty
from nfd.cli.rule_results import try_rules
from nfd.errors import ConfigError
from nfd.rules.check import POLICY
from nfd.text import visible

if TYPE_CHECKING:
    from nfd.features import Features
    from nfd.kube.client import KubeClient
    from nfd.rules.policy import Policy

EXAMPLES = (
    ("test -f rules.yaml -n gpu-01 --master http://localhost:8081", "on what the node's worker reported"),
    ("test -f rules.yaml -n gpu-01", "on NodeFeature objects alone, as NFD does"),
)


def add_flags(parser: ArgumentParser) -> None:
    parser.add_argument("-f", "--nodefeaturerule-file", metavar="FILE", type=path, required=True, help="the rules")
    parser.add_argument("-n", "--nodename", metavar="NODE", required=True, help="a node of the cluster")
    parser.add_argument("-k", "--kubeconfig", metavar="FILE", default="", help="else as for the other commands")
    parser.add_argument("--master", metavar="URL", default="", help="HTTP port of the master (nfd plan)")
    parser.add_argument("--token-file", metavar="FILE", type=path, help="token for --master; else the kubeconfig's")


def run(args: Namespace) -> int:
    path, node = args.nodefeaturerule_file, args.nodename
    objects = [parsed for parsed, _ in read_rules(path)]
    tell_empty(path, objects)
    features, policy, remarks = features_of(args)
    sys.stderr.write("".join(f"warning: {visible(one)}\n" for one in remarks))
    sys.stdout.write(f"Evaluating NodeFeatureRule against Node {node}\n")
    return try_rules(objects, features, policy or POLICY).tell("NodeFeatureRule", f"Node {node}")


def features_of(args: Namespace) -> tuple[Features, Policy | None, list[str]]:
    """Report and objects joined as the master joins them, its policy if it was asked, and what is to be said.

    Raises: ConfigError, KubeError.
    """

    async def ask(client: KubeClient) -> tuple[Features, Policy | None, list[str]]:
        from nfd.cli.master_reports import authorization, read_reports
        from nfd.cli.namespace_selector import read_objects
        from nfd.master.http.reports_api import MasterState
        from nfd.master.node.outcome import NO_RULES, evaluate_node
        from nfd.master.rules.nodefeatures import NODE_NAME
        from nfd.store.base import Node

        name, standing, report = args.nodename, None, None
        if args.master:
            heard, standing = await read_reports(args.master, await authorization(client, args.token_file))
            report = heard[name].report if name in heard else None
        selected = await read_objects(client, standing, {"labelSelector": f"{NODE_NAME}={name}"})
        if not selected.objects and (report is None or not report.features):
            where = f"has not reported to {args.master}" if args.master else "workers report to a master: give --master"
            raise ConfigError(f"--nodename {name}: no NodeFeature object names this node; {where}")
        joining = (standing or MasterState()).joining
        joined = evaluate_node(Node.bare(name), report, NO_RULES, selected.objects, joining).report
        return joined.features, standing.policy if standing else None, list(selected.remarks())

    return ask_cluster(args.kubeconfig, ask)
