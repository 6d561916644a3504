"""What the publisher remembers of a failed request."""

from __future__ import annotations

from typing import Any, cast

import pytest

from nfd.errors import Forbidden, KubeError, NotFound, Unauthorized, Unavailable
from nfd.kube.client import KubeClient
from nfd.kube.paths import NAMESPACES, object_path
from nfd.topology.publisher import Publisher

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "uid": "1", "resourceVersion": "1"}}


class Client:
    """Answers the first request for the namespace with an error."""

    def __init__(self, error: KubeError) -> None:
        self.errors = [error]
        self.applied: list[dict[str, Any]] = []

    async def json(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        if method == "PATCH":
            self.applied.append(body)
            return {}
        if path != object_path(NAMESPACES, "n"):
            raise NotFound(path)
        if self.errors:
            raise self.errors.pop()
        return NAMESPACE


@pytest.mark.parametrize(
    ("error", "lasting"),
    [(Forbidden("403"), True), (NotFound("404"), True), (Unauthorized("401"), False), (Unavailable("503"), False)],
)
async def test_only_a_lasting_error_leaves_the_object_without_an_owner(error: KubeError, lasting: bool) -> None:
    """A token that is just being replaced fails one attempt."""
    client = Client(error)
    publisher = Publisher(cast(KubeClient, client), "n")
    wanted = {"metadata": {"name": "node"}, "zones": [{"name": "node-0"}]}
    if not lasting:
        with pytest.raises(type(error)):
            await publisher.publish(wanted, look=False)
    assert await publisher.publish(wanted, look=False)
    assert ["ownerReferences" in one["metadata"] for one in client.applied] == [not lasting]
