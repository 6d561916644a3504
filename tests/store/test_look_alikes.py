"""A namespace that only ends in the letters of another one is somebody else's."""

from __future__ import annotations

import pytest

from nfd.fleet.node_template import is_extended
from nfd.master.node.known_rejections import _is_bookkeeping
from nfd.names import NFD_NS, is_below
from nfd.rules.policy import LABEL, Policy, is_protected, may_write
from nfd.store.base import LONGEST_ANNOTATION, Kind, label_writers, trim_annotations

OWN = [NFD_NS, f"a.{NFD_NS}"]
OTHERS = [f"evil{NFD_NS}", f"{NFD_NS}.evil", "evil-nfd.node.kubernetes.io", "kubernetes.io", ""]


@pytest.mark.parametrize("namespace", [*OWN, *OTHERS])
def test_bookkeeping(namespace: str) -> None:
    """Annotations of another namespace are kept in part, and are no bookkeeping when they are rejected."""
    own, key = namespace in OWN, f"{namespace}/x".lstrip("/")
    kept, cut = trim_annotations({"annotations": {key: "é" * (2 * LONGEST_ANNOTATION)}})
    assert len(kept[key]) == (2 * LONGEST_ANNOTATION if own else LONGEST_ANNOTATION + 1)
    assert cut == (0 if own else 2 * (LONGEST_ANNOTATION - 1))
    assert _is_bookkeeping((Kind.ANNOTATIONS, key)) is own
    assert is_below(namespace, NFD_NS) is own


@pytest.mark.parametrize(("parent", "other"), [("kubernetes.io", "evilkubernetes.io"), ("k8s.io", "evilk8s.io")])
def test_namespaces_of_kubernetes(parent: str, other: str) -> None:
    """A label there has a writer that matters, and is protected only if it is Kubernetes' own."""
    for namespace, own in ((parent, True), (f"x.{parent}", True), (other, False)):
        managed = [{"manager": "m", "fieldsV1": {"f:metadata": {"f:labels": {f"f:{namespace}/a": {}}}}}]
        assert label_writers(managed) == ({} if own else {f"{namespace}/a": "m"})
        assert is_protected(LABEL, namespace) is own
    assert may_write(LABEL, f"{other}/a", Policy())
    assert is_extended(f"{other}/a")
