"""NodeFeature objects that a pass over their node does not take, and why: said once for as long as it stays so."""

from __future__ import annotations

from collections.abc import Mapping

from nfd import log

REPORTED = "the node's own worker reports to this master"
SPOKEN = "a worker has reported to a master of ours for this node, and is waited for"
WAITED = "a record on the node, without a proof, names a worker of ours; the object is taken when it changes"
UNSELECTED = "nodeFeatureNamespaceSelector leaves its namespace out"
UNLABELLED = "denyNodeFeatureLabels: its features count, its labels do not"

_log = log.get("master")


class Ignored:
    """By node the objects, as NAMESPACE/NAME, each with the reason."""

    def __init__(self) -> None:
        self._said: dict[str, Mapping[str, str]] = {}

    def tell(self, node: str, reasons: Mapping[str, str]) -> None:
        """Log those that are new, or have another reason than before."""
        before = self._said.get(node, {})
        if reasons == before:
            return
        for path, reason in reasons.items():
            if before.get(path) != reason:
                _log.info("NodeFeature ignored", path=path, node=node, error=reason)
        if reasons:
            self._said[node] = reasons
        else:
            del self._said[node]

    def forget(self, node: str) -> None:
        """The Node is gone."""
        self._said.pop(node, None)
