"""nodeFeatureNamespaceSelector: which objects are used, and what the others prove, as namespaces become known.

The master on a real API server is tested in `test_objects_cluster.py`.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from nfd.kube.client import KubeClient
from nfd.master.config import NamespaceSelector, Requirement
from nfd.master.http.metrics import Metrics
from nfd.master.node.desired import Freshness
from nfd.master.rules.nodefeatures import NODE_NAME, UNKNOWN_NAMESPACE, UNSELECTED
from nfd.master.rules.resources import CustomResources, ResourceOptions
from nfd.report import Report
from nfd.store.base import Kind, Node

SELECTORS = {
    "matchLabels": NamespaceSelector(match_labels={"trusted": "yes"}),
    "In": NamespaceSelector(match_expressions=(Requirement(key="trusted", operator="In", values=("yes",)),)),
    "NotIn": NamespaceSelector(match_expressions=(Requirement(key="team", operator="NotIn", values=("tenant",)),)),
    "Exists": NamespaceSelector(match_expressions=(Requirement(key="trusted", operator="Exists"),)),
    "DoesNotExist": NamespaceSelector(match_expressions=(Requirement(key="untrusted", operator="DoesNotExist"),)),
}
SELECTED = {"trusted": "yes"}
LEFT_OUT = {"untrusted": "yes", "team": "tenant"}
GIVEN = {"vendor.io/a": "1"}
VALID: dict[str, Any] = {"labels": GIVEN}
INVALID: dict[str, Any] = {"features": 1}
ORIGIN = "object:tenant/x"


class Scene:
    """A node with a worker and an object in the namespace `tenant`; all lists are complete."""

    def __init__(self, selector: NamespaceSelector) -> None:
        self.resources = CustomResources(
            cast(KubeClient, object()), ResourceOptions(selector=selector), Metrics("1", 0.0)
        )
        for informer in self.resources._informers.values():
            informer.synced.set()
            informer.settled.set()
        self.resources._bind()

    def add(self, spec: dict[str, Any]) -> None:
        self.resources.objects.put(
            {
                "kind": "NodeFeature",
                "metadata": {"name": "x", "namespace": "tenant", "uid": "u", "labels": {NODE_NAME: "n"}},
                "spec": spec,
            }
        )

    def namespace(self, labels: dict[str, str] | None) -> None:
        if labels is None:
            self.resources.namespaces.delete(("", "tenant"))
        else:
            self.resources.namespaces.put({"metadata": {"name": "tenant", "labels": labels}})

    def pass_over(self) -> tuple[dict[str, str], Freshness]:
        found = self.resources.evaluate(Node.bare("n"), Report("n"))
        return dict(found.derive_desired().of(Kind.LABELS)), found.fresh


@pytest.mark.parametrize("selector", SELECTORS.values(), ids=list(SELECTORS))
@pytest.mark.parametrize("spec", [VALID, INVALID], ids=["valid", "invalid"])
async def test_objects_of_a_namespace(selector: NamespaceSelector, spec: dict[str, Any]) -> None:
    """In a selected namespace, a valid object counts, and an invalid one keeps what it gave and what rules gave.

    In a namespace that is not known, no object counts, and each keeps what it gave. In one that is not selected, no
    object has any effect.
    """
    scene = Scene(selector)
    scene.add(spec)
    for known in (None, LEFT_OUT, SELECTED, LEFT_OUT, None):
        scene.namespace(known)
        desired, fresh = scene.pass_over()
        assert desired == (GIVEN if known is SELECTED and spec is VALID else {}), known
        frozen = known is None or (known is SELECTED and spec is INVALID)
        assert (fresh.blind, not fresh.proves_absent(ORIGIN)) == (frozen, frozen), known


@pytest.mark.parametrize("selector", SELECTORS.values(), ids=list(SELECTORS))
async def test_without_a_list_of_namespaces_nothing_is_used_and_nothing_removed(selector: NamespaceSelector) -> None:
    """Such as without the permission to list them."""
    scene = Scene(selector)
    scene.resources._informers["/api/v1/namespaces"].synced.clear()
    scene.add(VALID)
    desired, fresh = scene.pass_over()
    assert desired == {}
    assert not any(fresh.proves_absent(origin) for origin in (ORIGIN, "object:tenant/y", None))


async def test_nodes_of_invalid_objects_are_planned_again_when_their_namespace_changes() -> None:
    """What the objects gave is removed if it is no longer selected."""
    scene = Scene(SELECTORS["NotIn"])
    scene.namespace(SELECTED)
    scene.add(INVALID)
    queued: list[str] = []
    scene.resources._queue.add = lambda node, **_options: queued.append(node)  # type: ignore[method-assign]
    scene.namespace(LEFT_OUT)
    scene.namespace(SELECTED)
    assert queued == ["n", "n"]


@pytest.mark.parametrize(("labels", "reason"), [(None, UNKNOWN_NAMESPACE), (LEFT_OUT, UNSELECTED)])
async def test_why_an_object_is_ignored(
    labels: dict[str, str] | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nfd")
    scene = Scene(SELECTORS["NotIn"])
    scene.add(VALID)
    scene.namespace(labels)
    scene.pass_over()
    assert [cast(Any, one).fields["error"] for one in caplog.records] == [reason]
