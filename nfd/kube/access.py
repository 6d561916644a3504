"""Whether whoever shows a token may read a path of ours: TokenReview, then SubjectAccessReview.

As metrics endpoints of Kubernetes' own components decide it (Kubernetes documentation, "Authorization", non-resource
requests): a ClusterRole with `nonResourceURLs: [PATH]` and the verb `get` lets its subjects in.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any

from nfd.errors import Forbidden, Unavailable
from nfd.kube.connect import KubeClient
from nfd.kube.tokens import MAX_TOKEN, REVIEWS

ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SECONDS = 10.0
"""How long an answer holds."""
KNOWN = 256
PER_SECOND = 20
"""Callers asked about at most, so that made-up tokens do not become a flood of questions."""
_Answer = tuple[float, str]


class Access:
    """Asks the API server; answers hold for SECONDS."""

    def __init__(self, client: KubeClient, now: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._now = now
        self._known: OrderedDict[tuple[bytes, str], _Answer] = OrderedDict()
        self._asked: deque[float] = deque(maxlen=PER_SECOND)

    async def check(self, authorization: str, path: str) -> None:
        """`authorization` is the header of a GET for `path`. Raises: Forbidden, Unavailable."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
            raise Forbidden("show a bearer token")
        key = hashlib.sha256(token.encode("utf-8", "replace")).digest(), path
        until, reason = self._known.get(key, (0.0, ""))
        if self._now() >= until:
            self._take_turn()
            reason = await self._ask(token, path)
            self._known[key] = self._now() + SECONDS, reason
            self._known.move_to_end(key)
            if len(self._known) > KNOWN:
                self._known.popitem(last=False)
        if reason:
            raise Forbidden(reason)

    def _take_turn(self) -> None:
        """Raises: Unavailable if too much was asked within the last second."""
        now = self._now()
        if len(self._asked) == PER_SECOND and now - self._asked[0] < 1.0:
            raise Unavailable("too many callers at once; try again in a second", retry_after=1.0)
        self._asked.append(now)

    async def _ask(self, token: str, path: str) -> str:
        """Why not; "" for yes."""
        review = await self._post(REVIEWS, "authentication", "TokenReview", {"token": token})
        user = review.get("user") or {}
        if not review.get("authenticated") or not user.get("username"):
            return "the token is not known here"
        asked = {name: user[name] for name in ("groups", "uid", "extra") if user.get(name)}
        spec = {"user": user["username"], "nonResourceAttributes": {"path": path, "verb": "get"}, **asked}
        answer = await self._post(ACCESS, "authorization", "SubjectAccessReview", spec)
        return "" if answer.get("allowed") else f"{user['username']} may not get {path}"

    async def _post(self, path: str, group: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}
        try:
            answer = await self._client.json("POST", path, body)
        except Forbidden as error:  # ours, not the caller's
            raise Unavailable(f"we may not ask who may read: {error}") from error
        status: Mapping[str, Any] = answer.get("status") or {}
        return status
