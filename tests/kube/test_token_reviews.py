"""TokenReview on a real API server: which pod on which node a token belongs to, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace

import pytest

from nfd.errors import Forbidden, KubeError, Unavailable
from nfd.kube.client import KubeClient, connect
from nfd.kube.jwt import KEYS
from nfd.kube.server_time import ServerTime
from nfd.kube.token_review_queue import WAITING
from nfd.kube.token_reviews import BAD_SECONDS, REVIEWS, TokenReviews
from tests.controlplane.cluster import ControlPlane
from tests.master.places import until

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


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def changed(token: str, header: dict[str, object] | None = None, **claims: object) -> str:
    """The token with other words and its old signature."""
    head, body, tail = token.split(".")
    words = [json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in (head, body)]
    return f"{encoded(words[0] | (header or {}))}.{encoded(words[1] | claims)}.{tail}"


def unverifiable(token: str, number: int) -> str:
    """A made-up token of a key that is not published, for a pod that nobody has."""
    bound = {"pod": {"name": "made-up", "uid": f"uid-{number}"}}
    return changed(token, {"kid": f"made-up-{number}"}, **{"kubernetes.io": bound})


def reviews(plane: ControlPlane, mark: int) -> int:
    return sum(event.path == REVIEWS for event in plane.audit(mark))


async def test_token_of_a_pod_names_its_node(control_plane: ControlPlane, client: KubeClient, node: str) -> None:
    """One question however many ask, and none for as long as the token lives."""
    tokens, token = TokenReviews(client, AUDIENCE), token_for(control_plane, node)
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
        await TokenReviews(client, AUDIENCE).review(token)
    binding = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    control_plane.request("POST", f"{inside}/pods/{name}/binding", binding)
    pod = await TokenReviews(client, AUDIENCE).review(token)
    assert (pod.name, pod.node, pod.node_uid) == (name, node, "")


async def test_what_is_refused(control_plane: ControlPlane, client: KubeClient, node: str) -> None:
    """Another audience, no pod behind it, a pod that is gone, nonsense; nonsense is not even asked about."""
    other = token_for(control_plane, node, audience="somebody-else")
    unbound = token_for(control_plane, None)
    gone = control_plane.service_account_token("short-lived", NAMESPACE, audience=AUDIENCE, node=node)
    control_plane.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/short-lived-on-{node}?gracePeriodSeconds=0")
    genuine = token_for(control_plane, node)
    for token, reason in {
        other: "not for audience nfd-master",
        unbound: "not bound to a pod",
        gone: "rejects the token",
        changed(genuine, exp=9e9): "not signed by the cluster",
        changed(genuine, sub="system:serviceaccount:kube-system:admin"): "not signed by the cluster",
        changed(genuine, header={"kid": "made-up"}): "rejects the token",
        changed(genuine, header={"alg": "none"}): "not signed by the cluster",
        changed(genuine, exp=time.time() - 600): "has expired",
        changed(genuine, sub="nfd-worker"): "not a service-account token",
    }.items():
        with pytest.raises(Forbidden, match=reason):
            await TokenReviews(client, AUDIENCE).review(token)
    mark = control_plane.mark()
    for nonsense in ("x", "a.b.c", "a." + "[" * 5000 + ".c", "é.é.é", "x" * 100_000, "a.bnVsbA.c", "\x00", "e30.e30."):
        with pytest.raises(Forbidden, match="not a service-account token"):
            await TokenReviews(client, AUDIENCE).review(nonsense)
    assert reviews(control_plane, mark) == 0


async def test_refused_tokens_are_not_asked_about_again_for_a_while(
    control_plane: ControlPlane, client: KubeClient, node: str
) -> None:
    clock = Clock()
    tokens, bad = TokenReviews(client, AUDIENCE, clock), unverifiable(token_for(control_plane, node), 1)
    mark = control_plane.mark()
    for ahead, asked in ((0, 1), (0, 1), (BAD_SECONDS + 1, 2)):
        clock.ahead = ahead
        with pytest.raises(Forbidden):
            await tokens.review(bad)
        assert reviews(control_plane, mark) == asked


async def test_made_up_tokens_cost_no_question(control_plane: ControlPlane, client: KubeClient, node: str) -> None:
    """The keys are read once, however many there are, and genuine tokens of the same address are taken at once."""
    tokens, good = TokenReviews(client, AUDIENCE), token_for(control_plane, node)
    flood = [tokens.review(f"{good[:-20]}{number:020}", "10.0.0.1") for number in range(500)]
    mark = control_plane.mark()
    *outcomes, pod = await asyncio.gather(*flood, tokens.review(good, "10.0.0.1"), return_exceptions=True)
    assert all(isinstance(one, Forbidden) for one in outcomes)
    assert not isinstance(pod, BaseException)
    assert pod.node == node
    assert reviews(control_plane, mark) == 1
    assert sum(event.path == KEYS for event in control_plane.audit(mark)) == 1


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("sender", ["10.0.0.1", "10.0.0.2"])
async def test_no_strangers_failure_uses_up_an_honest_callers_turn(
    control_plane: ControlPlane, client: KubeClient, node: str, sender: str, keys: bool
) -> None:
    """300 bad tokens a second from one address, of a key that nobody knows; honest ones from there or elsewhere.

    With the keys they have turns of their own. Without (an API server need not publish them) those of another address
    go first, and so does, when it comes again, the pod of the same address that was turned away. Who has no turn within
    LONGEST_WAIT is turned away.
    """
    tokens, good = TokenReviews(client, AUDIENCE), token_for(control_plane, node)
    if not keys:
        tokens._keys._next = float("inf")  # as where the API server has refused them
    stop, asked = asyncio.Event(), []

    async def flood() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            asked.append(asyncio.create_task(tokens.review(unverifiable(good, number % 100_000), "10.0.0.1")))
            await asyncio.sleep(1 / 300)

    flooding = asyncio.create_task(flood())
    await until(lambda: len(tokens._unknown._waiting) == WAITING)
    mark, began = control_plane.mark(), time.monotonic()
    for _ in range(5):
        fresh = token_for(control_plane, node)
        with suppress(Unavailable) if not keys and sender == "10.0.0.1" else nullcontext():
            await tokens.review(fresh, sender)
        assert (await tokens.review(fresh, sender)).node == node
    took = time.monotonic() - began
    stop.set()
    await flooding
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(one, KubeError) for one in outcomes)
    assert reviews(control_plane, mark) < 5 + 30 * (took + 5)
    assert len(tokens._unknown._waiting) == len(tokens._genuine._waiting) == 0


async def test_one_bad_token_a_second_locks_nobody_out(
    control_plane: ControlPlane, client: KubeClient, node: str
) -> None:
    """As of a pod with a wrong token behind the address that a whole node's pods have."""
    clock = Clock()
    tokens, good = TokenReviews(client, AUDIENCE, clock), token_for(control_plane, node)
    for second in range(30):
        clock.ahead = second
        with pytest.raises(Forbidden):
            await tokens.review(unverifiable(good, second), "10.0.0.1")
        if second % 10 == 9:
            assert (await tokens.review(token_for(control_plane, node), "10.0.0.1")).node == node


async def test_token_is_asked_about_again_once_it_has_expired(
    control_plane: ControlPlane, client: KubeClient, node: str
) -> None:
    clock = Clock()
    tokens, token = TokenReviews(client, AUDIENCE, clock), token_for(control_plane, node)
    mark = control_plane.mark()
    await tokens.review(token)
    clock.ahead = 3500
    await tokens.review(token)
    assert reviews(control_plane, mark) == 1
    clock.ahead = 3700
    await tokens.review(token)
    assert reviews(control_plane, mark) == 2


@pytest.mark.parametrize("ahead", [7200.0, -7200.0, 400 * 86_400.0])
async def test_the_clock_of_the_machine_does_not_matter(
    ahead: float, control_plane: ControlPlane, client: KubeClient, node: str
) -> None:
    """It may be set while the master runs: a token that was refused meanwhile would be refused for hours after that."""
    client.server_time = ServerTime(lambda: time.time() + ahead)
    await client.json("GET", "/version")
    tokens, token = TokenReviews(client, AUDIENCE), token_for(control_plane, node)
    mark = control_plane.mark()
    for _ in range(2):
        assert (await tokens.review(token)).node == node
    assert reviews(control_plane, mark) == 1


async def test_api_server_is_away(control_plane: ControlPlane, client: KubeClient, node: str) -> None:
    """Known tokens go on, others wait and are taken once it is back."""
    tokens = TokenReviews(client, AUDIENCE)
    known, unknown = token_for(control_plane, node), token_for(control_plane, node)
    pod = await tokens.review(known)
    with control_plane.outage():
        assert await tokens.review(known) == pod
        with pytest.raises(Unavailable):
            await tokens.review(unknown)
    assert replace(await tokens.review(unknown), issued=pod.issued) == pod


async def test_missing_rights_are_no_verdict_on_the_token(
    control_plane: ControlPlane, node: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect(str(control_plane.kubeconfig_for("alice")))
    with pytest.raises(Unavailable, match="does not let the master identify callers"):
        await TokenReviews(client, AUDIENCE).review(token_for(control_plane, node))
    assert "cannot identify callers" in caplog.messages
    await client.close()


async def test_reviews_are_few_a_second(control_plane: ControlPlane, client: KubeClient, node: str) -> None:
    """A flood of unknown tokens is turned away before the API server sees it."""
    tokens, good = TokenReviews(client, AUDIENCE), token_for(control_plane, node)
    flood = (tokens.review(unverifiable(good, number), f"10.1.{number}") for number in range(300))
    mark = control_plane.mark()
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert all(isinstance(one, KubeError) for one in outcomes)
    turned_away = [one for one in outcomes if isinstance(one, Unavailable)]
    assert 300 - WAITING <= len(turned_away) + 3 < 300
    assert reviews(control_plane, mark) == 300 - len(turned_away) < 100
    assert all(one.retry_after for one in turned_away)
