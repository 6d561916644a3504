"""Who may read, on a real API server: made-up tokens are in nobody's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from nfd.errors import Forbidden, KubeError, Unavailable
from nfd.kube.client import KubeClient, connect
from nfd.kube.token_review_queue import WAITING
from nfd.kube.token_reviews import REVIEWS, AccessReviews
from tests.controlplane.cluster import ControlPlane
from tests.master.places import until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATH = "/reports"


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    client = await connect(str(control_plane.kubeconfig))
    yield client
    await client.close()


@pytest.fixture
def readers(control_plane: ControlPlane) -> Iterator[None]:
    """Alice, and the service account access/reader, may read."""
    rules = [{"nonResourceURLs": [PATH], "verbs": ["get"]}]
    control_plane.create(f"{RBAC}/clusterroles", {"metadata": {"name": "access-reader"}, "rules": rules})
    subjects = [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"},
        {"kind": "ServiceAccount", "name": "reader", "namespace": "access"},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "access-reader"}
    binding = {"metadata": {"name": "access-reader"}, "roleRef": role, "subjects": subjects}
    control_plane.create(f"{RBAC}/clusterrolebindings", binding)
    yield
    control_plane.request("DELETE", f"{RBAC}/clusterrolebindings/access-reader")


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize("sender", ["10.0.0.1", "10.0.0.2"])
async def test_made_up_tokens_use_up_nobodys_turn(control_plane: ControlPlane, client: KubeClient, sender: str) -> None:
    """A flood from one address: whom the API server knew has a turn, whatever its address, and so have a service
    account, whose token can be checked, and whoever comes from elsewhere with one that cannot.
    """
    clock = [0.0]
    access = AccessReviews(client, lambda: clock[0])
    alice = f"Bearer {control_plane.token('alice')}"
    account = f"Bearer {control_plane.service_account_token('reader', 'access')}"
    await access.check(alice, PATH, sender)
    clock[0] = 11.0
    flood = [asyncio.create_task(access.check(f"Bearer made-up-{n}", PATH, "10.0.0.1")) for n in range(300)]
    await until(lambda: len(access._unknown._waiting) == WAITING)
    mark = control_plane.mark()
    await access.check(alice, PATH, sender)  # who has no turn within LONGEST_WAIT is turned away
    await access.check(account, PATH, sender)
    with pytest.raises(Forbidden, match="may not get"):
        await access.check(f"Bearer {control_plane.token('bob')}", PATH, "10.0.0.3")
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert {type(one) for one in outcomes} == {Forbidden, Unavailable}
    assert sum(one.path == REVIEWS for one in control_plane.audit(mark)) < 3 + 20 * 3


@pytest.mark.usefixtures("readers")
async def test_forged_tokens_are_not_asked_about(control_plane: ControlPlane, client: KubeClient) -> None:
    access, good = AccessReviews(client), control_plane.service_account_token("reader", "access")
    await access.check(f"Bearer {good}", PATH, "10.0.0.1")
    mark = control_plane.mark()
    forged = (access.check(f"Bearer {good[:-20]}{number:020}", PATH, "10.0.0.1") for number in range(300))
    for one in await asyncio.gather(*forged, return_exceptions=True):
        assert isinstance(one, Forbidden)
        assert str(one) == "the token is unknown"
    assert [one.path for one in control_plane.audit(mark) if one.path == REVIEWS] == []


async def test_answers_are_remembered_apart(control_plane: ControlPlane, client: KubeClient) -> None:
    """Refusals of strangers push no answer for a reader out."""
    access, admin = AccessReviews(client), f"Bearer {control_plane.token('admin')}"
    await access.check(admin, PATH, "10.0.0.1")
    good = control_plane.service_account_token("other", "access")
    for number in range(600):
        with pytest.raises(KubeError):
            await access.check(f"Bearer {good[:-20]}{number:020}", PATH, "10.0.0.1")
    mark = control_plane.mark()
    await access.check(admin, PATH, "10.0.0.1")
    assert [one.path for one in control_plane.audit(mark) if one.path == REVIEWS] == []
    assert len(access._denied) <= 256
