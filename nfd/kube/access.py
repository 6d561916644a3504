"""Whether the holder of a token may read a path of this server: TokenReview, then SubjectAccessReview.

As metrics endpoints of Kubernetes' own components decide it (Kubernetes documentation, "Authorization", non-resource
requests): a ClusterRole with `nonResourceURLs: [PATH]` and the verb `get` lets its subjects in.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from nfd.errors import Forbidden, Unavailable
from nfd.kube import jwt
from nfd.kube.answers import check_review, check_token_review, place_of
from nfd.kube.connect import KubeClient
from nfd.kube.jwt import MAX_TOKEN, Keys, Verdict
from nfd.kube.tokens import REVIEWS
from nfd.kube.turns import Turns
from nfd.runtime.cache import ExpiringCache

ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SECONDS = 10.0
"""How long an answer holds."""
KNOWN = 256
"""Answers of each kind that are remembered."""
ACQUAINTED = 3600.0
"""Seconds for which a token that the API server knew is not asked about among those that nobody knows."""
AT_ONCE = 4
PER_SECOND = 20.0
"""Callers asked about at a time, and those refused in a second: of known ones and, apart from them, of others, so that
made-up tokens are neither a flood of questions nor in anybody's way."""
STRANGER = "the token is not known here"


class Access:
    """Asks the API server; answers hold for SECONDS. For one event loop."""

    def __init__(self, client: KubeClient, now: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._now = now
        self._allowed: ExpiringCache[str] = ExpiringCache(KNOWN, now)
        self._denied: ExpiringCache[str] = ExpiringCache(KNOWN, now)
        self._acquainted: ExpiringCache[bool] = ExpiringCache(KNOWN, now)
        self._keys = Keys(client)
        self._known = Turns(AT_ONCE, PER_SECOND, now)
        self._unknown = Turns(AT_ONCE, PER_SECOND, now)

    async def check(self, authorization: str, path: str, sender: str = "") -> None:
        """`authorization` is the header of a GET for `path`, `sender` the address it came from.

        Raises: Forbidden, Unavailable.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN:
            raise Forbidden("show a bearer token")
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
        answer = await self._post(REVIEWS, "authentication", "TokenReview", {"token": token})
        review = check_token_review(answer, place_of(REVIEWS))
        user: Mapping[str, Any] = review["user"]
        if review.get("authenticated") is not True or not user.get("username"):
            raise Forbidden(STRANGER)
        return user

    async def _authorize(self, user: Mapping[str, Any], path: str) -> None:
        """Raises: Forbidden, Unavailable."""
        asked = {name: user[name] for name in ("groups", "uid", "extra") if user.get(name)}
        spec = {"user": user["username"], "nonResourceAttributes": {"path": path, "verb": "get"}, **asked}
        answer = await self._post(ACCESS, "authorization", "SubjectAccessReview", spec)
        status = check_review(answer, place_of(ACCESS))
        if status.get("allowed") is not True or status.get("denied"):
            raise Forbidden(f"{user['username']} may not get {path}")

    async def _post(self, path: str, group: str, kind: str, spec: Mapping[str, Any]) -> Any:
        body = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}
        try:
            return await self._client.json("POST", path, body)
        except Forbidden as error:  # ours, not the caller's
            raise Unavailable(f"we may not ask who may read: {error}") from error
