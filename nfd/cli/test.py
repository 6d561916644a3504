"""Evaluate rules on a node of the cluster, as NFD's `kubectl nfd test` does: on the features that its worker reported,
which the master hands out, and on those of NodeFeature objects. Exit status 1 if a rule fails."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from nfd.cli.cluster import ask_cluster
from nfd.cli.parsers import path
from nfd.cli.rulefiles import read_rules, tell_empty
from nfd.cli.trial import try_rules
from nfd.errors import ConfigError

if TYPE_CHECKING:
    from nfd.features import Features
    from nfd.kube.connect import KubeClient

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
    features = features_of(args)
    sys.stdout.write(f"Evaluating NodeFeatureRule against Node {node}\n")
    return try_rules(objects, features).tell("NodeFeatureRule", f"Node {node}")


def features_of(args: Namespace) -> Features:
    """Report and objects joined as the master joins them. Raises: ConfigError, KubeError."""

    async def ask(client: KubeClient) -> Features:
        from nfd.cli.online import authorization, object_of, read_reports
        from nfd.kube.lists import list_if_known
        from nfd.master.mirror import NODE_FEATURES
        from nfd.master.objects import NODE_NAME, Joining, join_objects
        from nfd.report import Report

        node = args.nodename
        report, joining = Report(node), Joining()
        query = {"labelSelector": f"{NODE_NAME}={node}"}
        objects = await list_if_known(client, NODE_FEATURES, object_of, query)
        if args.master:
            heard, standing = await read_reports(args.master, await authorization(client, args.token_file))
            joining = Joining(standing.policy, standing.namespace, standing.deny_labels)
            report = heard[node].report if node in heard else report
        if not objects and not report.features:
            where = f"has not reported to {args.master}" if args.master else "workers report to a master: give --master"
            raise ConfigError(f"--nodename {node}: no NodeFeature object names this node; {where}")
        return join_objects(report, objects, joining).features

    return ask_cluster(args.kubeconfig, ask)
