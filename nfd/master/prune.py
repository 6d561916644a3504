"""Takes everything of ours off all nodes: what `nfd-master --prune` does."""

from __future__ import annotations

from collections.abc import AsyncIterator

from nfd.master.desired import Desired
from nfd.master.plan import Goal, NodePlan, plan_node
from nfd.master.proof import UNPROVEN, Proof
from nfd.master.reconcile import write_repeatedly
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
    """Plan nothing for every node, and do it unless `dry_run`; gives the plan of each node that has something of ours.

    What no proof says is ours is removed as far as `policy` lets a master write it.

    Raises: KubeError at the first node that cannot be written, as NFD does.
    """
    goal = Goal(Desired(), instance=instance, purge=True, policy=policy or Policy(), proof=proof)

    def plan(node: Node) -> NodePlan:
        return plan_node(goal, node)

    for name in sorted(store.names()):
        node = store.get(name)
        if node is not None and (planned := plan(node)):
            yield planned if dry_run else await write_repeatedly(store, name, plan)
