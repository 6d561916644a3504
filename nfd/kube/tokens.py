"""TokenReview: which pod, on which node, holds this token.

A pod's projected service-account token names, since Kubernetes 1.30, the pod and its node (Kubernetes documentation,
"Managing Service Accounts", bound tokens; KEP-4193). Older clusters name the pod alone, which is then looked up.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from nfd import log, tasks
from nfd.errors import Forbidden, KubeError, NotFound, Unavailable
from nfd.kube.connect import KubeClient
from nfd.names import subdomain_problem

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
AT_ONCE = 5
"""Reviews under way. Those that end well make room at once: a fleet that starts is let in as fast as the server can."""
REFUSED_PER_SECOND = 50.0
"""Reviews that end badly, at most; the API server spends 1 ms on one."""
LONGEST_WAIT = 2.0
"""Seconds that a review waits for its turn; while tokens are being refused, longer queues are turned away at once."""
BAD_SECONDS = 10.0
"""How long a token that was refused stays so without asking."""
BAD_TOKENS = 10
"""Refused tokens in that time after which no further unknown one of the same sender is asked about."""
SHORTEST = 10.0
"""Seconds that an accepted token is good for, should our clock be ahead of its expiry."""
KNOWN = 20_000
REFUSED = 2_000
"""Tokens, and senders of bad ones, remembered."""
LATEST = 1e12
"""Seconds since the epoch; no token expires later."""
MAX_TOKEN = 8_000
"""Characters; a pod's token has some 1,000."""

_ACCOUNT = "system:serviceaccount:"
_EXTRA = "authentication.kubernetes.io/"
_log = log.get("kube")
V = TypeVar("V")


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


class Tokens:
    """Asks the API server, once for each token until it expires. For one event loop.

    While the API server is away the tokens it has accepted go on to count, and no other does.
    """

    def __init__(self, client: KubeClient, audience: str, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._audience = audience
        self._now = now
        self._good: _Recent[Pod] = _Recent(KNOWN, now)
        self._bad: _Recent[str] = _Recent(REFUSED, now)
        self._senders: _Recent[int] = _Recent(REFUSED, now)
        self._asking: dict[bytes, asyncio.Task[Pod]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._paused = 0

    async def review(self, token: str, sender: str = "") -> Pod:
        """Whose token this is. `sender` is the address it came from.

        Raises: Forbidden (refused, with the reason), Unavailable (nobody to ask, or too many are asking).
        """
        key = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        if (pod := self._good.get(key)) is not None:
            return pod
        if (reason := self._bad.get(key)) is not None:
            raise Forbidden(reason)
        if self._refusals(sender) >= BAD_TOKENS:
            raise Unavailable("many tokens from this address were refused just now", retry_after=BAD_SECONDS)
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = tasks.ask("token review", self._ask(token, key, sender))
            task.add_done_callback(lambda _: self._asking.pop(key))
        return await asyncio.shield(task)

    async def _ask(self, token: str, key: bytes, sender: str) -> Pod:
        try:
            expires = self._expiry(token)
            async with self._turn():
                pod = await self._identify(await self._status(token))
        except Forbidden as error:
            self._bad.put(key, str(error), self._now() + BAD_SECONDS)
            self._senders.put(sender.encode(), self._refusals(sender) + 1, self._now() + BAD_SECONDS)
            raise
        pod = replace(pod, issued=_issued(token, pod))
        self._good.put(key, pod, max(expires, self._now() + SHORTEST))
        return pod

    def _refusals(self, sender: str) -> int:
        return self._senders.get(sender.encode()) or 0

    def _expiry(self, token: str) -> float:
        """When the token says that it expires: what is plainly no token for us is refused without asking."""
        claims = _claims(token) if len(token) <= MAX_TOKEN and token.isascii() else {}
        expires, audience = _seconds(claims.get("exp")), claims.get("aud")
        if not expires:
            raise Forbidden("the token is not one of a service account")
        if self._audience not in (audience if isinstance(audience, list) else [audience]):
            raise Forbidden(f"the token is not for audience {self._audience}")
        return expires

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """The turn of one review; its place stays taken for a while if it ends badly. Raises: Unavailable."""
        if self._paused and self._waiting >= LONGEST_WAIT * REFUSED_PER_SECOND:
            raise Unavailable("too many unknown tokens", retry_after=LONGEST_WAIT)
        self._waiting += 1
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await self._turns.acquire()
        except TimeoutError as error:
            raise Unavailable("too many unknown tokens", retry_after=LONGEST_WAIT) from error
        finally:
            self._waiting -= 1
        try:
            yield
        except BaseException:
            self._paused += 1
            asyncio.get_running_loop().call_later(AT_ONCE / REFUSED_PER_SECOND, self._resume)
            raise
        self._turns.release()

    def _resume(self) -> None:
        self._paused -= 1
        self._turns.release()

    async def _status(self, token: str) -> Mapping[str, Any]:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._audience]},
        }
        status = (await self._call("POST", REVIEWS, body)).get("status") or {}
        if not status.get("authenticated"):
            raise Forbidden(f"the API server refuses the token: {status.get('error') or 'no reason given'}")
        if self._audience not in (status.get("audiences") or ()):
            raise Forbidden(f"the token is not for audience {self._audience}")
        return status

    async def _identify(self, status: Mapping[str, Any]) -> Pod:
        user = status.get("user") or {}
        namespace, account = account_of(str(user.get("username", "")))
        extra = {key: (values or [""])[0] for key, values in (user.get("extra") or {}).items()}
        name, uid = extra.get(f"{_EXTRA}pod-name", ""), extra.get(f"{_EXTRA}pod-uid", "")
        if not account:
            raise Forbidden("the token is not one of a service account")
        if not uid:
            raise Forbidden("the token is not bound to a pod")
        node = extra.get(f"{_EXTRA}node-name", "") or await self._node_of(namespace, name, uid)
        return Pod(f"{namespace}/{account}", name, uid, node, extra.get(f"{_EXTRA}node-uid", ""))

    async def _node_of(self, namespace: str, name: str, uid: str) -> str:
        """Where a pod runs whose token does not tell."""
        try:
            pod = await self._call("GET", f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}")
        except NotFound as error:
            raise Forbidden(f"there is no pod {namespace}/{name} any more") from error
        if (pod.get("metadata") or {}).get("uid") != uid:
            raise Forbidden(f"pod {namespace}/{name} is another one now")
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        if not node:
            raise Forbidden(f"pod {namespace}/{name} has no node yet")
        return node

    async def _call(self, method: str, path: str, body: Any = None) -> Mapping[str, Any]:
        """What keeps us from asking is no verdict on the token. Raises: Unavailable, NotFound."""
        try:
            answer = await self._client.json(method, path, body)
        except (Unavailable, NotFound):
            raise
        except KubeError as error:
            _log.error("callers cannot be identified", path=path, error=error)
            raise Unavailable("the API server does not let the master identify callers; see its log") from error
        return answer if isinstance(answer, Mapping) else {}


def account_of(user: str) -> tuple[str, str]:
    """Namespace and name of a service account by its user name, which is `system:serviceaccount:NAMESPACE:NAME` and
    nothing else (Kubernetes documentation, "Authenticating"); empty texts for any other user.
    """
    namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
    legal = user.startswith(_ACCOUNT) and not (subdomain_problem(namespace) or subdomain_problem(name))
    return (namespace, name) if legal else ("", "")


class _Recent(Generic[V]):
    """The latest values by key, each until its time."""

    def __init__(self, size: int, now: Callable[[], float]) -> None:
        self._size, self._now = size, now
        self._values: OrderedDict[bytes, tuple[V, float]] = OrderedDict()

    def get(self, key: bytes) -> V | None:
        value, until = self._values.get(key, (None, 0.0))
        return value if until > self._now() else None

    def put(self, key: bytes, value: V, until: float) -> None:
        self._values[key] = (value, until)
        self._values.move_to_end(key)
        if len(self._values) > self._size:
            self._values.popitem(last=False)


def _issued(token: str, pod: Pod) -> float:
    """When a token that the API server has accepted as `pod`'s says that it was issued.

    The review verified the token as a whole, so its claims count; but only if they are those of a service account
    (another authenticator may have read it in its own way). A whole second that more than one token may share.
    """
    claims = _claims(token)
    bound, issued = claims.get("kubernetes.io"), claims.get("iat")
    named = bound.get("pod") if isinstance(bound, Mapping) else None
    if not isinstance(named, Mapping) or named.get("uid") != pod.uid:
        return 0.0
    return _seconds(issued)


def _seconds(value: object) -> float:
    """Seconds since the epoch; 0 for what is none: a truth value, NaN."""
    is_time = not isinstance(value, bool) and isinstance(value, int | float) and 0 < value < LATEST
    return float(value) if is_time else 0.0  # type: ignore[arg-type]  # checked one line before


def _claims(token: str) -> Mapping[str, Any]:
    """What a JSON Web Token says of itself (RFC 7519), unverified; nothing if it is none."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))) if len(parts) == 3 else {}
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, Mapping) else {}
