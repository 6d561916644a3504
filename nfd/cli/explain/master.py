"""`nfd explain NODE LABEL --master URL`: from the features that the node's worker reported."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator

from nfd.cli.cluster import ask_cluster, read_node
from nfd.cli.explain.command import overridden_rules
from nfd.cli.explain.local import Case, evidence
from nfd.cli.machine import Seen, plan_with
from nfd.cli.master_reports import read_reports
from nfd.cli.namespace_selector import read_objects
from nfd.cli.plan.cluster import present_config, read_worker_config
from nfd.cli.rule_check import name_of
from nfd.discovery import Discovery
from nfd.host.replay import Replay
from nfd.kube.client import KubeClient
from nfd.kube.list_pages import list_if_known, whole
from nfd.kube.paths import RULES
from nfd.master.http.reports_api import MasterState
from nfd.master.node.desired import name_origin
from nfd.master.node.outcome import NO_RULES, Known, Outcome, evaluate_node
from nfd.master.rules.nodefeatures import MOST_NAMES, TOO_MANY
from nfd.master.rules.ruleset import bind, compile_object
from nfd.rules.policy import prefix_keys
from nfd.store.base import Kind, trim


def explain_by_report(args: Namespace, key: str, value: str | None) -> list[str]:
    """Further reasons for a label of a node of the cluster. Raises: ConfigError, KubeError."""

    async def ask(client: KubeClient) -> list[str]:
        reported, state = await read_reports(client, args)
        selected = await read_objects(client, state, args.node)
        report = reported[args.node].report if args.node in reported else None
        node = trim(await read_node(client, args.node))
        known = Known(selected.lists(args.node), state.instance)
        outcome = evaluate_node(node, report, NO_RULES, selected.objects, state.joining, known)
        if not outcome.fresh.reported:
            return [
                *_unwritten(state, args.node, key),
                f"{args.node} has not reported to {args.master}",
                *selected.remarks(),
            ]
        rules = bind([compile_object(item, state.policy) for item in await list_if_known(client, RULES, whole)], ())
        in_cluster = await read_worker_config(client, args.namespace or state.namespace)
        plan = plan_with(present_config(in_cluster, args.config))
        with tempfile.TemporaryDirectory() as nothing:
            seen = Seen(Discovery(features=outcome.report.features), {}, {}, ())
            case = Case(key, Replay(nothing), plan, rules, seen, state.policy)
            lines = _present(case, value) if value is not None else _missing(case)
            return [*_unwritten(state, args.node, key), *lines, *_surplus(outcome), *selected.remarks()]

    return ask_cluster(args, ask)


def _unwritten(state: MasterState, node: str, key: str) -> Iterator[str]:
    """Who rejects the label, or every change of the node."""
    for one in state.unwritten:
        if node in one.nodes and (one.key == "*" or (one.kind, one.key) == (Kind.LABELS.one, key)):
            yield f"the master cannot write {one.what()} here: {one.by}: {one.reason}"


def _surplus(outcome: Outcome) -> Iterator[str]:
    """That objects of the node are not used."""
    if outcome.surplus:
        names = ", ".join(sorted(name_origin(one) for one in outcome.surplus)[:MOST_NAMES])
        yield f"{len(outcome.surplus)} objects of the node are not used ({names}): {TOO_MANY}"


def _present(case: Case, value: str) -> Iterator[str]:
    """The features that the value is made from, of the source or the rules that set it."""
    if case.labels_of_rules(case.features).get(case.key) == value:
        yield from evidence(case, case.labels_of_rules)
        yield from overridden_rules(case)
        return
    for source in case.plan.label_sources:
        make = case.maker(source)
        try:
            found = make(case.features).get(case.key)
        except Exception as error:  # of a source, on whatever objects of others give it
            yield f"source {source.name} fails on the features of the node: {error!r}"
            continue
        if found == value:
            yield from evidence(case, make)


def _missing(case: Case) -> Iterator[str]:
    """The term that does not match in each rule that would set it, or why the master rejects what a rule sets."""
    for where, rule, given in case.all_rules():
        if isinstance(given, str) and case.key in prefix_keys(rule.labels, case.policy):
            yield f"{where}: {given}"
    desired = case.outcome_of_rules(case.features).derive_desired()
    origin = desired.origin(Kind.LABELS, case.key) or ""
    for one in desired.dropped:
        if one.key == case.key:
            yield f"{name_of(case.rules, origin)} sets it, but the master rejects it: {one.reason}"
