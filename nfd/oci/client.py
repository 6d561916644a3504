"""Requests to a registry, with its log-in: none, basic, or a bearer token from the service that the registry names.

Upstream documents: OCI Distribution Specification 1.1; "Token Authentication Specification" of the CNCF registry.
Answers have a size limit; the time limit for all of them, and checking content against its digest, are up to who asks.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import aiohttp

from nfd.errors import NfdError
from nfd.oci.reference import Reference

MAX_MANIFEST = 4 * 1024 * 1024
"""Bytes that a registry need not exceed (OCI Distribution Specification, "Pushing Manifests")."""
MAX_TOKEN = 64 * 1024
_REDIRECTS = 5
_CHALLENGE = re.compile(r'(\w[\w-]*)(?:\s+((?:\w+\s*=\s*(?:"[^"]*"|[^\s",]+)\s*,?\s*)*))?')
_FIELD = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|([^\s",]+))')


@dataclass(frozen=True, slots=True)
class Login:
    """User and password, or a token that is sent as it is; or nothing."""

    username: str = ""
    password: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and the whole body."""

    status: int
    headers: Mapping[str, str]
    data: bytes
    challenges: Sequence[str] = ()


class Registry:
    """One repository of a registry; made by `open_registry`."""

    def __init__(self, session: aiohttp.ClientSession, reference: Reference, login: Login, scheme: str) -> None:
        self._session, self._reference, self._login, self._scheme = session, reference, login, scheme
        self._base = f"{scheme}://{reference.host}/v2/{reference.repository}/"
        self._authorization = f"Bearer {login.token}" if login.token else ""

    async def get(
        self, path: str, accept: str = "*/*", limit: int = MAX_MANIFEST, absent: Collection[int] = (404,)
    ) -> Answer | None:
        """What is at a path of the repository, or at a link from there; None if the status is one of `absent`.

        Raises: NfdError, also for an answer of more than `limit` bytes.
        """
        url = urljoin(self._base, path)
        if urlsplit(url)[:2] != urlsplit(self._base)[:2]:
            raise NfdError(f"{self._reference.host}: it points to another place: {url[:200]}")
        answer = await self._ask(url, limit, {"Accept": accept}, self._authorization)
        if answer.status == 401:
            self._authorization = await self._log_in(answer)
            answer = await self._ask(url, limit, {"Accept": accept}, self._authorization)
        if answer.status in absent:
            return None
        if answer.status != 200:
            raise NfdError(f"{url}: {reason_of(answer)}")
        return answer

    async def _ask(self, url: str, limit: int, headers: Mapping[str, str], authorization: str = "") -> Answer:
        sent = {**headers, "Accept-Encoding": "identity", **({"Authorization": authorization} if authorization else {})}
        try:
            async with self._session.get(url, headers=sent, max_redirects=_REDIRECTS) as response:
                if response.url.scheme != self._scheme and self._scheme == "https":
                    raise NfdError(f"{url}: it leads from https to {response.url.scheme}")
                data = await _read(response, limit, url)
                return Answer(response.status, response.headers, data, response.headers.getall("WWW-Authenticate", ()))
        except aiohttp.TooManyRedirects as error:
            raise NfdError(f"{url}: more than {_REDIRECTS} redirects") from error
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise NfdError(f"{url}: {str(error) or type(error).__name__}") from error

    async def _log_in(self, refused: Answer) -> str:
        """The header that the registry asks for. Raises: NfdError."""
        found = parse_challenges(refused.challenges)
        host = self._reference.host
        if self._login.token:
            raise NfdError(f"{host}: the token is not accepted: {reason_of(refused)}")
        if "bearer" in found:
            return f"Bearer {await self._fetch_token(found['bearer'])}"
        if "basic" in found and self._login.username:
            return self._basic()
        how = "give --registry-username and --registry-password-stdin" if "basic" in found else "by no way known here"
        raise NfdError(f"{host}: it wants a log-in; {how}")

    async def _fetch_token(self, fields: Mapping[str, str]) -> str:
        """A token from the service that the registry names. The password is sent there, over TLS unless --plain-http is
        given."""
        realm = fields.get("realm", "")
        if urlsplit(realm).scheme not in ("https", self._scheme) or not urlsplit(realm).netloc:
            raise NfdError(f"{self._reference.host}: it sends to {realm[:200]!r} for a token")
        wanted = {"service": fields.get("service", ""), "scope": f"repository:{self._reference.repository}:pull"}
        query = urlencode({key: value for key, value in wanted.items() if value})
        url = f"{realm}{'&' if urlsplit(realm).query else '?'}{query}"
        answer = await self._ask(url, MAX_TOKEN, {}, self._basic() if self._login.username else "")
        if answer.status != 200:
            raise NfdError(f"{realm}: no token: {reason_of(answer)}")
        token = _json(answer.data)
        found = (token.get("token") or token.get("access_token")) if isinstance(token, dict) else None
        if not isinstance(found, str) or not found.isascii() or not found.isprintable():
            raise NfdError(f"{realm}: the answer has no token")
        return found

    def _basic(self) -> str:
        pair = f"{self._login.username}:{self._login.password}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"


@asynccontextmanager
async def open_registry(reference: Reference, login: Login, *, plain_http: bool = False) -> AsyncIterator[Registry]:
    """A client for the image's repository. Proxies are those of the environment."""
    limit = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=limit, trust_env=True, auto_decompress=False) as session:
        yield Registry(session, reference, login, "http" if plain_http else "https")


async def _read(response: aiohttp.ClientResponse, limit: int, url: str) -> bytes:
    data = bytearray()
    async for part in response.content.iter_any():
        data += part
        if len(data) > limit:
            raise NfdError(f"{url}: the answer is larger than {limit // 1024} KiB")
    return bytes(data)


def reason_of(answer: Answer) -> str:
    """The status and, the reason, if the registry gives one (OCI Distribution Specification, "Error Codes")."""
    found = _json(answer.data)
    listed = found.get("errors") if isinstance(found, dict) else None
    first = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}
    reason = ": ".join(str(first[key])[:200] for key in ("code", "message") if first.get(key))
    return f"status {answer.status}{', ' if reason else ''}{reason}"


def parse_challenges(headers: Sequence[str]) -> dict[str, dict[str, str]]:
    """Scheme in lower case → its fields (RFC 9110, 11.6.1)."""
    found: dict[str, dict[str, str]] = {}
    for header in headers:
        for scheme, fields in _CHALLENGE.findall(header[:2048]):
            values = {name.lower(): quoted or plain for name, quoted, plain in _FIELD.findall(fields)}
            found.setdefault(scheme.lower(), values)
    return found


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
