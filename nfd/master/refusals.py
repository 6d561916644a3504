"""What the API server refused, so that it is not asked for the same again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nfd.errors import Invalid
from nfd.master.plan import NodePlan
from nfd.store.base import Kind

_PLACES = ("status.capacity", "status.allocatable")


class Refusals:
    """Per node the amounts of extended resources that were refused, and the whole plan if it was."""

    def __init__(self) -> None:
        self._amounts: dict[str, dict[str, str]] = {}
        self._plans: dict[str, NodePlan] = {}

    def of(self, node: str, wanted: Mapping[str, str]) -> frozenset[str]:
        """The resources whose amount is still the one that was refused; of others nothing is known any more."""
        amounts = self._amounts.get(node)
        if not amounts:
            return frozenset()
        for key in [key for key, amount in amounts.items() if wanted.get(key) != amount]:
            del amounts[key]
        if not amounts:
            del self._amounts[node]
        return frozenset(amounts)

    def learn(self, planned: NodePlan, error: Invalid) -> frozenset[str]:
        """The resources of a plan that the API server names in its answer, from now on refused."""
        wanted = planned.changes[Kind.RESOURCES].write
        found = {key: amount for key, amount in wanted.items() if not error.fields.isdisjoint(_fields_of(key))}
        if found:
            self._amounts.setdefault(planned.node.name, {}).update(found)
        return frozenset(found)

    def whole(self, node: str) -> NodePlan | None:
        """The plan that was refused as it is."""
        return self._plans.get(node)

    def refuse(self, planned: NodePlan) -> None:
        self._plans[planned.node.name] = planned

    def accept(self, node: str) -> None:
        """A plan went through."""
        self._plans.pop(node, None)

    def forget(self, node: str) -> None:
        self._plans.pop(node, None)
        self._amounts.pop(node, None)

    def clear(self) -> None:
        self._plans.clear()
        self._amounts.clear()


def _fields_of(key: str) -> Iterable[str]:
    """As validation names the place of an amount (Kubernetes, pkg/apis/core/validation)."""
    return [form for place in _PLACES for form in (f"{place}.{key}", f"{place}[{key}]")]
