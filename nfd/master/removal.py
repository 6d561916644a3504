"""Why keys were taken off a Node: what a plan removes, counted by kind and cause (pure)."""

from __future__ import annotations

from collections import Counter

from nfd.master.desired import OBJECT, RULE, Desired
from nfd.master.ownership import CLAIMED, Origin
from nfd.master.plan import NodePlan


def count_removals(planned: NodePlan, desired: Desired, *, silent: bool) -> Counter[tuple[str, str]]:
    """(kind, cause) → keys; kinds as in `Dropped`, causes as in the metric `node_keys_removed`.

    `silent` tells that the worker has been given up.
    """
    found: Counter[tuple[str, str]] = Counter()
    if not any(change.remove for change in planned.changes.values()):
        return found
    forbidden = {(dropped.kind, dropped.key) for dropped in desired.dropped}
    for place, change in planned.changes.items():
        kind = place.one
        for key in change.remove:
            cause = "policy" if (kind, key) in forbidden else _cause(planned.before.of(place).get(key))
            found[kind, "silence" if silent and cause in ("scan", "unknown") else cause] += 1
    return found


def _cause(origin: Origin) -> str:
    if origin is None or origin == CLAIMED:
        return "unknown"
    return "rule" if origin.startswith(RULE) else "object" if origin.startswith(OBJECT) else "scan"
