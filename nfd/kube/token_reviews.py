"""TokenReview: which service account, pod and node this token belongs to, by the API server's word.

A pod's projected service-account token names, since Kubernetes 1.30, the pod and its node (Kubernetes documentation,
"Managing Service Accounts", bound tokens; KEP-4193). Older clusters name the pod alone, which is then looked up.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nfd.errors import Forbidden, KubeError, NotFound, Unavailable
from nfd.kube import jwt
from nfd.kube.check_responses import check_object, check_review, check_token_review, place_of
from nfd.kube.client import KubeClient
from nfd.kube.jwt import MAX_TOKEN, Jwt, Keys, Verdict
from nfd.kube.paths import PODS, in_namespace, object_path
from nfd.kube.token_review_queue import ReviewQueue
from nfd.names import subdomain_problem
from nfd.runtime import log, tasks
from nfd.runtime.cache import ExpiringCache

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
AT_ONCE = 5
"""Concurrent reviews of genuine tokens. A successful one frees its place at once, so a starting fleet is accepted as
fast as the server can."""
UNKNOWN_AT_ONCE = 3
"""Concurrent reviews of other tokens."""
REFUSED_PER_SECOND = 20.0, 30.0
"""Reviews that end badly, at most, of genuine and of other tokens; the API server spends 1 ms on one."""
BAD_SECONDS = 10.0
"""How long a token that was refused stays so without asking."""
SHORTEST = 10.0
"""Seconds that an accepted token stays valid even if the local clock is past its expiry."""
CLOCKS_DIFFER = 300.0
"""Seconds after which a token has expired by whatever clock."""
KNOWN = 20_000
REFUSED = 2_000
"""Tokens remembered."""

_ACCOUNT = "system:serviceaccount:"
_EXTRA = "authentication.kubernetes.io/"
_log = log.get("kube")


@dataclass(frozen=True, slots=True)
class Pod:
    """Who holds a token: `account` is NAMESPACE/NAME of its service account, `issued` when the token was made, in
    seconds since the epoch; 0 if that is not known.
    """

    account: str
    name: str
    uid: str
    node: str
    node_uid: str
    issued: float = 0.0


class TokenReviews:
    """Asks the API server, once for each token until it expires. For one event loop.

    Made-up tokens are rejected by their signature, without a request. Genuine tokens wait only for each other. Of the
    tokens whose signature cannot be checked, those from addresses that send bad ones wait for the others. While the API
    server is unavailable, only the tokens that it has accepted before are accepted.
    """

    def __init__(self, client: KubeClient, audience: str, now: Callable[[], float] | None = None) -> None:
        """Times are of the API server's clock, which has made the tokens, unless `now` gives another one."""
        self._client = client
        self._audience = audience
        self._now = now = now or client.server_time.now
        self._good: ExpiringCache[Pod] = ExpiringCache(KNOWN, now)
        self._bad: ExpiringCache[str] = ExpiringCache(REFUSED, now)
        self._asking: dict[bytes, asyncio.Task[Pod]] = {}
        self._keys = Keys(client)
        self._genuine = ReviewQueue(AT_ONCE, REFUSED_PER_SECOND[0], now)
        self._unknown = ReviewQueue(UNKNOWN_AT_ONCE, REFUSED_PER_SECOND[1], now)

    async def review(self, token: str, sender: str = "") -> Pod:
        """Whose token this is. `sender` is the address it came from.

        Raises: Forbidden (refused, with the reason), Unavailable (no API server, or too many requests).
        """
        key = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        if (pod := self._good.get(key)) is not None:
            return pod
        if (reason := self._bad.get(key)) is not None:
            raise Forbidden(reason)
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = tasks.ask("token review", self._ask(token, key, sender))
            task.add_done_callback(lambda _: self._asking.pop(key))
        return await asyncio.shield(task)

    async def _ask(self, token: str, key: bytes, sender: str) -> Pod:
        try:
            read, uid = self._check(jwt.parse(token))
            match await self._keys.verdict(read):
                case Verdict.FORGED:
                    raise Forbidden("the token is not signed by the cluster")
                case Verdict.GENUINE:
                    turn = self._genuine.turn(uid)
                case Verdict.UNKNOWN:
                    turn = self._unknown.turn(sender, f"{sender} {uid}")
            async with turn:
                pod = await self._identify(await self._status(token))
        except Forbidden as error:
            self._bad.put(key, str(error), self._now() + BAD_SECONDS)
            raise
        pod = replace(pod, issued=_issued(read, pod))
        self._good.put(key, pod, max(jwt.seconds(read.claims.get("exp")), self._now() + SHORTEST))
        return pod

    def _check(self, token: Jwt | None) -> tuple[Jwt, str]:
        """The token, and the uid of the pod that it says it is bound to.

        A token that cannot be valid here is rejected without a request. Raises: Forbidden.
        """
        expires = jwt.seconds(token.claims.get("exp")) if token is not None else 0.0
        if token is None or not expires or not account_of(str(token.claims.get("sub", "")))[1]:
            raise Forbidden("the token is not a service-account token")
        audience = token.claims.get("aud")
        if self._audience not in (audience if isinstance(audience, list) else [audience]):
            raise Forbidden(f"the token is not for audience {self._audience}")
        if expires + CLOCKS_DIFFER < self._now():
            raise Forbidden("the token has expired")
        if not (uid := _pod_of(token)):
            raise Forbidden("the token is not bound to a pod")
        return token, uid

    async def _status(self, token: str) -> Mapping[str, Any]:
        body = _body(REVIEWS, {"token": token, "audiences": [self._audience]})
        status = check_token_review(await self._call("POST", REVIEWS, body), place_of(REVIEWS))
        if status.get("authenticated") is not True:
            raise Forbidden(f"the API server rejects the token: {status.get('error') or 'no reason given'}")
        if self._audience not in (status.get("audiences") or ()):
            raise Forbidden(f"the token is not for audience {self._audience}")
        return status

    async def _identify(self, status: Mapping[str, Any]) -> Pod:
        user = status["user"]
        namespace, account = account_of(str(user.get("username") or ""))
        extra = {key: (values or [""])[0] for key, values in user["extra"].items()}
        name, uid = extra.get(f"{_EXTRA}pod-name", ""), extra.get(f"{_EXTRA}pod-uid", "")
        if not account:
            raise Forbidden("the token is not a service-account token")
        if not uid:
            raise Forbidden("the token is not bound to a pod")
        node = extra.get(f"{_EXTRA}node-name", "") or await self._node_of(namespace, name, uid)
        return Pod(f"{namespace}/{account}", name, uid, node, extra.get(f"{_EXTRA}node-uid", ""))

    async def _node_of(self, namespace: str, name: str, uid: str) -> str:
        """The node of a pod whose token does not name it."""
        path = object_path(in_namespace(PODS, namespace), name)
        try:
            pod = check_object(await self._call("GET", path), place_of(path))
        except NotFound as error:
            raise Forbidden(f"pod {namespace}/{name} does not exist any more") from error
        if pod["metadata"].get("uid") != uid:
            raise Forbidden(f"pod {namespace}/{name} was replaced")
        spec = pod.get("spec")
        node = str((spec.get("nodeName") if isinstance(spec, Mapping) else "") or "")
        if not node:
            raise Forbidden(f"pod {namespace}/{name} has no node yet")
        return node

    async def _call(self, method: str, path: str, body: Any = None) -> Any:
        """An error of the request says nothing about the token. Raises: Unavailable, NotFound."""
        try:
            return await self._client.json(method, path, body)
        except (Unavailable, NotFound):
            raise
        except KubeError as error:
            _log.error("cannot identify callers", path=path, error=error)
            raise Unavailable("the API server does not let the master identify callers; see its log") from error


def account_of(user: str) -> tuple[str, str]:
    """Namespace and name of a service account by its user name, which is `system:serviceaccount:NAMESPACE:NAME` and
    nothing else (Kubernetes documentation, "Authenticating"); empty texts for any other user.
    """
    namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
    legal = user.startswith(_ACCOUNT) and not (subdomain_problem(namespace) or subdomain_problem(name))
    return (namespace, name) if legal else ("", "")


def _body(path: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The review that is sent to a path."""
    place = place_of(path)
    return {"apiVersion": place.api_version, "kind": place.kind, "spec": spec}


def _pod_of(token: Jwt) -> str:
    """The uid of the pod that a token says it is bound to; "" if it says none."""
    bound = token.claims.get("kubernetes.io")
    named = bound.get("pod") if isinstance(bound, Mapping) else None
    uid = named.get("uid") if isinstance(named, Mapping) else None
    return uid if isinstance(uid, str) else ""


def _issued(token: Jwt, pod: Pod) -> float:
    """When a token that the API server has accepted as `pod`'s says that it was issued.

    The review verified the token as a whole, so its claims count; but only if they name the pod that it was reviewed as
    (another authenticator may have read it in its own way). A whole second that more than one token may share.
    """
    return jwt.seconds(token.claims.get("iat")) if _pod_of(token) == pod.uid else 0.0


ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SECONDS = 10.0
"""How long an answer holds."""
KNOWN_READERS = 256
"""Answers of each kind that are remembered."""
ACQUAINTED = 3600.0
"""Seconds for which a token that the API server accepted has priority over unknown ones."""
READERS_AT_ONCE = 4
PER_SECOND = 20.0
"""Callers asked about at a time, and those refused in a second: of known ones and, apart from them, of others, so that
made-up tokens are neither a flood of questions nor in anybody's way."""
STRANGER = "the token is unknown"


class AccessReviews:
    """Asks the API server; answers hold for SECONDS. For one event loop."""

    def __init__(self, client: KubeClient, now: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._now = now
        self._allowed: ExpiringCache[str] = ExpiringCache(KNOWN_READERS, now)
        self._denied: ExpiringCache[str] = ExpiringCache(KNOWN_READERS, now)
        self._acquainted: ExpiringCache[bool] = ExpiringCache(KNOWN_READERS, now)
        self._keys = Keys(client)
        self._known = ReviewQueue(READERS_AT_ONCE, PER_SECOND, now)
        self._unknown = ReviewQueue(READERS_AT_ONCE, PER_SECOND, now)

    async def check(self, authorization: str, path: str, sender: str = "") -> None:
        """`authorization` is the header of a GET for `path`, `sender` the address it came from.

        Raises: Forbidden, Unavailable.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
            raise Forbidden("a bearer token is required")
        digest = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        if self._allowed.get((digest, path)) is not None:
            return
        if (reason := self._denied.get((digest, path))) is not None:
            raise Forbidden(reason)
        try:
            await self._in_turn(token, digest, path, sender)
        except Forbidden as error:
            self._denied.put((digest, path), str(error), self._now() + SECONDS)
            raise
        self._allowed.put((digest, path), "", self._now() + SECONDS)

    async def _in_turn(self, token: str, digest: bytes, path: str, sender: str) -> None:
        """Raises: Forbidden, Unavailable."""
        read = jwt.parse(token)
        verdict = await self._keys.verdict(read)
        if verdict is Verdict.FORGED:
            raise Forbidden(STRANGER)
        claimed = str(read.claims.get("sub", "")) if read is not None else ""
        if verdict is Verdict.GENUINE or self._acquainted.get(digest):
            turn = self._known.turn(claimed or digest.hex())
        else:
            turn = self._unknown.turn(sender, f"{sender} {claimed}")
        async with turn:
            user = await self._user(token)
            self._acquainted.put(digest, True, self._now() + ACQUAINTED)
            await self._authorize(user, path)

    async def _user(self, token: str) -> Mapping[str, Any]:
        """Raises: Forbidden for a token that the API server does not know, Unavailable."""
        answer = await self._post(REVIEWS, {"token": token})
        review = check_token_review(answer, place_of(REVIEWS))
        user: Mapping[str, Any] = review["user"]
        if review.get("authenticated") is not True or not user.get("username"):
            raise Forbidden(STRANGER)
        return user

    async def _authorize(self, user: Mapping[str, Any], path: str) -> None:
        """Raises: Forbidden, Unavailable."""
        asked = {name: user[name] for name in ("groups", "uid", "extra") if user.get(name)}
        spec = {"user": user["username"], "nonResourceAttributes": {"path": path, "verb": "get"}, **asked}
        answer = await self._post(ACCESS, spec)
        status = check_review(answer, place_of(ACCESS))
        if status.get("allowed") is not True or status.get("denied"):
            raise Forbidden(f"{user['username']} may not get {path}")

    async def _post(self, path: str, spec: Mapping[str, Any]) -> Any:
        try:
            return await self._client.json("POST", path, _body(path, spec))
        except Forbidden as error:  # permission of the master, not of the caller
            raise Unavailable(f"the master may not check access: {error}") from error
