"""Removes everything that nfd manages from all nodes: what `nfd-master --prune` does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from nfd.master.node.conditions import no_conditions
from nfd.master.node.outcome import NO_RULES, evaluate_report
from nfd.master.node.plan import Goal, NodePlan, plan_node
from nfd.master.node.proof import UNPROVEN, Proof
from nfd.master.node.reconcile import write_repeatedly
from nfd.report import Report
from nfd.rules.policy import Policy
from nfd.store.base import Node, NodeStore


async def prune(
    store: NodeStore,
    instance: str = "",
    policy: Policy | None = None,
    proof: Proof = UNPROVEN,
    *,
    dry_run: bool = False,
) -> AsyncIterator[NodePlan]:
    """Plan for every node as if its worker had found nothing. Yields the plan of each node that has managed keys.

    Plans are carried out unless `dry_run`. Keys without a proof are removed if `policy` lets a master write them.

    Raises: KubeError at the first node that cannot be written, as NFD does.
    """
    policy = policy or Policy()

    def plan(node: Node) -> NodePlan:
        nothing = evaluate_report(Report(node.name), NO_RULES, policy)
        goal = Goal(nothing.derive_desired(), nothing.fresh, instance=instance, purge=True, policy=policy, proof=proof)
        return plan_node(replace(goal, conditions=no_conditions(node, instance)), node)

    for name in sorted(store.names()):
        node = store.get(name)
        if node is not None and (planned := plan(node)):
            yield planned if dry_run else await write_repeatedly(store, name, plan)
