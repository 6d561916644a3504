"""`nfd explain NODE LABEL --master URL`: what the features that the node's worker reported tell of a label."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator

from nfd.cli.cluster import ask_cluster
from nfd.cli.explain import evidence, labels_of_rules, overridden_rules
from nfd.cli.machine import POLICY, Seen
from nfd.cli.offline import plan_of
from nfd.cli.online import authorization, object_of, present_config, read_reports
from nfd.cli.reasons import Case
from nfd.discovery import Discovery
from nfd.host.replay import Replay
from nfd.kube.connect import KubeClient
from nfd.kube.lists import list_if_known
from nfd.master.mirror import NODE_FEATURES, RULES
from nfd.master.objects import NODE_NAME, Joining, join_objects
from nfd.rules.compiled import compile_rules
from nfd.rules.parse import RULE, parse_object
from nfd.rules.policy import prefix_keys


def explain_by_report(args: Namespace, key: str, value: str | None) -> list[str]:
    """More lines about a label of a node of the cluster. Raises: ConfigError, KubeError."""

    async def ask(client: KubeClient) -> list[str]:
        heard, standing = await read_reports(args.master, await authorization(client, args.token_file))
        if args.node not in heard:
            return [f"{args.node} has not reported to {args.master}"]
        query = {"labelSelector": f"{NODE_NAME}={args.node}"}
        objects = await list_if_known(client, NODE_FEATURES, object_of, query)
        items = await list_if_known(client, RULES, lambda item: item)
        ordered = sorted(items, key=lambda item: str(item["metadata"]["name"]))
        rules = [parse_object({"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": RULE, **item}) for item in ordered]
        plan = plan_of(await present_config(client, standing.namespace, args.config))
        joining = Joining(standing.policy, standing.namespace, standing.deny_labels)
        features = join_objects(heard[args.node].report, objects, joining).features
        with tempfile.TemporaryDirectory() as nothing:
            seen = Seen(Discovery(features=features), {}, {}, ())
            case = Case(key, Replay(nothing), plan, compile_rules(rules), seen)
            return list(_present(case, value) if value is not None else _missing(case))

    return ask_cluster(args.kubeconfig, ask)


def _present(case: Case, value: str) -> Iterator[str]:
    """The features behind the value, of the source or the rules that give it."""
    if labels_of_rules(case, case.features).get(case.key) == value:
        yield from evidence(case, lambda features: labels_of_rules(case, features))
        yield from overridden_rules(case)
        return
    for source in case.plan.label_sources:
        make = case.maker(source)
        if make(case.features).get(case.key) == value:
            yield from evidence(case, make)


def _missing(case: Case) -> Iterator[str]:
    """The term at which each rule fails that would give it."""
    for where, rule, given in case.all_rules():
        if isinstance(given, str) and case.key in prefix_keys(rule.labels, POLICY):
            yield f"{where}: {given}"
