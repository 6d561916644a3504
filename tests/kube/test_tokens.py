"""TokenReview on a real API server: which pod on which node a token belongs to, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from nfd.errors import Forbidden, KubeError, Unavailable
from nfd.kube.connect import KubeClient, connect
from nfd.kube.tokens import BAD_SECONDS, BAD_TOKENS, REVIEWS, Tokens
from tests.controlplane.cluster import ControlPlane

AUDIENCE = "nfd-master"
NAMESPACE = "tokens"


@dataclass
class Clock:
    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    client = await connect(str(control_plane.kubeconfig))
    yield client
    await client.close()


@pytest.fixture
def node(control_plane: ControlPlane, node_name: str) -> str:
    control_plane.create_node(node_name)
    return node_name


def token_for(plane: ControlPlane, node: str | None, audience: str | None = AUDIENCE) -> str:
    return plane.service_account_token("nfd-worker", NAMESPACE, audience=audience, node=node)


def reviews(plane: ControlPlane, mark: int) -> int:
    return sum(event.path == REVIEWS for event in plane.audit(mark))


async def test_token_of_a_pod_names_its_node(control_plane: ControlPlane, client: KubeClient, node: str) -> None:
    """One question however many ask, and none for as long as the token lives."""
    tokens, token = Tokens(client, AUDIENCE), token_for(control_plane, node)
    mark = control_plane.mark()
    pod, *others = await asyncio.gather(*(tokens.review(token) for _ in range(20)))
    assert pod.account == f"{NAMESPACE}/nfd-worker"
    assert (pod.name, pod.node) == (f"nfd-worker-on-{node}", node)
    assert pod.node_uid == control_plane.get_node(node)["metadata"]["uid"]
    assert set(others) == {pod}
    assert await tokens.review(token) == pod
    assert reviews(control_plane, mark) == 1


async def test_pod_is_looked_up_where_the_token_names_no_node(
    control_plane: ControlPlane, client: KubeClient, node: str
) -> None:
    """As in clusters before 1.30: here the token was made before the pod was bound to its node."""
    inside, name = f"/api/v1/namespaces/{NAMESPACE}", f"early-on-{node}"
    token_for(control_plane, node)
    spec = {"serviceAccountName": "nfd-worker", "containers": [{"name": "main", "image": "example.invalid/none"}]}
    control_plane.request("POST", f"{inside}/pods", {"metadata": {"name": name}, "spec": spec})
    wish = {
        "spec": {
            "audiences": [AUDIENCE],
            "expirationSeconds": 3600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name},
        }
    }
    token = control_plane.request("POST", f"{inside}/serviceaccounts/nfd-worker/token", wish)["status"]["token"]
    with pytest.raises(Forbidden, match="has no node yet"):
        await Tokens(client, AUDIENCE).review(token)
    binding = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    control_plane.request("POST", f"{inside}/pods/{name}/binding", binding)
    pod = await Tokens(client, AUDIENCE).review(token)
    assert (pod.name, pod.node, pod.node_uid) == (name, node, "")


async def test_what_is_refused(control_plane: ControlPlane, client: KubeClient, node: str) -> None:
    """Another audience, no pod behind it, a pod that is gone, nonsense; nonsense is not even asked about."""
    other = token_for(control_plane, node, audience="somebody-else")
    unbound = token_for(control_plane, None)
    gone = control_plane.service_account_token("short-lived", NAMESPACE, audience=AUDIENCE, node=node)
    control_plane.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/short-lived-on-{node}?gracePeriodSeconds=0")
    head, _, tail = token_for(control_plane, node).split(".")
    lies = base64.urlsafe_b64encode(json.dumps({"aud": AUDIENCE, "exp": 9e9}).encode()).decode().rstrip("=")
    for token, reason in {
        other: "not for audience nfd-master",
        unbound: "not bound to a pod",
        gone: "refuses the token",
        f"{head}.{lies}.{tail}": "refuses the token",
    }.items():
        with pytest.raises(Forbidden, match=reason):
            await Tokens(client, AUDIENCE).review(token)
    mark = control_plane.mark()
    for nonsense in ("x", "a.b.c", "a." + "[" * 5000 + ".c", "é.é.é", "x" * 100_000, "a.bnVsbA.c", "\x00"):
        with pytest.raises(Forbidden, match="not one of a service account"):
            await Tokens(client, AUDIENCE).review(nonsense)
    assert reviews(control_plane, mark) == 0


async def test_refused_tokens_are_not_asked_about_again_for_a_while(
    control_plane: ControlPlane, client: KubeClient, node: str
) -> None:
    """And who has sent many of them is not asked about at all, while known tokens from there go on."""
    clock = Clock()
    tokens, good = Tokens(client, AUDIENCE, clock), token_for(control_plane, node)
    await tokens.review(good, "10.0.0.1")
    bad = [f"{good[:-20]}{number:020}" for number in range(BAD_TOKENS)]
    mark = control_plane.mark()
    for token in (*bad, bad[0]):
        with pytest.raises(Forbidden):
            await tokens.review(token, "10.0.0.1")
    assert reviews(control_plane, mark) == BAD_TOKENS
    fresh = token_for(control_plane, node)
    with pytest.raises(Unavailable, match="many tokens from this address"):
        await tokens.review(fresh, "10.0.0.1")
    await tokens.review(good, "10.0.0.1")
    await tokens.review(fresh, "10.0.0.2")
    clock.ahead = BAD_SECONDS + 1
    await tokens.review(token_for(control_plane, node), "10.0.0.1")


async def test_token_is_asked_about_again_once_it_has_expired(
    control_plane: ControlPlane, client: KubeClient, node: str
) -> None:
    clock = Clock()
    tokens, token = Tokens(client, AUDIENCE, clock), token_for(control_plane, node)
    mark = control_plane.mark()
    await tokens.review(token)
    clock.ahead = 3500
    await tokens.review(token)
    assert reviews(control_plane, mark) == 1
    clock.ahead = 3700
    await tokens.review(token)
    assert reviews(control_plane, mark) == 2


async def test_api_server_is_away(control_plane: ControlPlane, client: KubeClient, node: str) -> None:
    """Known tokens go on, others wait and are taken once it is back."""
    tokens = Tokens(client, AUDIENCE)
    known, unknown = token_for(control_plane, node), token_for(control_plane, node)
    pod = await tokens.review(known)
    with control_plane.outage():
        assert await tokens.review(known) == pod
        with pytest.raises(Unavailable):
            await tokens.review(unknown)
    assert await tokens.review(unknown) == pod


async def test_missing_rights_are_no_verdict_on_the_token(
    control_plane: ControlPlane, node: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect(str(control_plane.kubeconfig_for("alice")))
    with pytest.raises(Unavailable, match="does not let the master identify callers"):
        await Tokens(client, AUDIENCE).review(token_for(control_plane, node))
    assert "callers cannot be identified" in caplog.messages
    await client.close()


async def test_reviews_are_few_a_second(control_plane: ControlPlane, client: KubeClient, node: str) -> None:
    """A flood of unknown tokens is turned away before the API server sees it."""
    tokens, good = Tokens(client, AUDIENCE), token_for(control_plane, node)
    flood = (tokens.review(f"{good[:-20]}{number:020}", f"10.1.{number}") for number in range(300))
    mark = control_plane.mark()
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert all(isinstance(one, KubeError) for one in outcomes)
    turned_away = [one for one in outcomes if isinstance(one, Unavailable)]
    assert 180 < len(turned_away) < 220
    assert reviews(control_plane, mark) == 300 - len(turned_away)
    assert all(one.retry_after for one in turned_away)
