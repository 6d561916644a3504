"""Signatures of tokens, by keys of every kind that an API server may sign with; and what is no token."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from nfd.kube.client import connect
from nfd.kube.jwt import AGAIN, DENIED_AGAIN, KEYS, KEYS_TYPE, Jwt, Keys, Verdict, parse, parse_keys


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def number(value: int) -> str:
    return b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class Signer:
    """A key pair: its JWK, and tokens signed with it."""

    def __init__(self, name: str, algorithm: str) -> None:
        self.name, self.algorithm = name, algorithm
        self._hash = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[algorithm[2:]]
        self._curve = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}.get(algorithm)
        self._key: Any = ec.generate_private_key(self._curve) if self._curve else rsa.generate_private_key(65537, 2048)

    def jwk(self) -> dict[str, str]:
        public = self._key.public_key().public_numbers()
        head = {"kid": self.name, "alg": self.algorithm, "use": "sig"}
        if self._curve is None:
            return {**head, "kty": "RSA", "n": number(public.n), "e": number(public.e)}
        crv = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[self.algorithm]
        return {**head, "kty": "EC", "crv": crv, "x": number(public.x), "y": number(public.y)}

    def token(self, claims: object, **header: object) -> str:
        words = {"alg": self.algorithm, "kid": self.name, **header}
        signed = f"{b64(json.dumps(words).encode())}.{b64(json.dumps(claims).encode())}"
        if self._curve is None:
            return f"{signed}.{b64(self._key.sign(signed.encode(), padding.PKCS1v15(), self._hash))}"
        pair = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(self._hash)))
        size = (self._curve.key_size + 7) // 8
        return f"{signed}.{b64(b''.join(one.to_bytes(size, 'big') for one in pair))}"


@dataclass
class Server:
    """An API server as far as its keys go; `answer` is a status, or what it publishes."""

    answer: object
    asked: int = 0
    now: float = 0.0

    async def answers(self, request: web.Request) -> web.Response:
        self.asked += 1
        assert request.headers["Accept"] == KEYS_TYPE
        if isinstance(self.answer, int):
            return web.Response(status=self.answer)
        return web.Response(text=json.dumps(self.answer), content_type=KEYS_TYPE)


@pytest.fixture
async def open_keys(tmp_path: Path) -> AsyncIterator[Callable[[Server], Awaitable[Keys]]]:
    """Makes a reader of a server's keys that goes by the server's clock."""
    async with AsyncExitStack() as stack:

        async def make(server: Server) -> Keys:
            app = web.Application()
            app.add_routes([web.get(KEYS, server.answers)])
            runner = web.AppRunner(app)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}
            contexts = [{"name": "x", "context": {"cluster": "c", "user": "u"}}]
            config = {"current-context": "x", "clusters": [cluster], "contexts": contexts, "users": [USER]}
            (tmp_path / "kubeconfig").write_text(json.dumps(config))
            client = await connect(str(tmp_path / "kubeconfig"))
            stack.push_async_callback(client.close)
            return Keys(client, lambda: server.now)

        yield make


USER = {"name": "u", "user": {}}
Open = Callable[[Server], Awaitable[Keys]]
ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512")
SIGNERS = {algorithm: Signer(algorithm, algorithm) for algorithm in ALGORITHMS}
OTHERS = {algorithm: Signer(algorithm, algorithm) for algorithm in ALGORITHMS}
PUBLISHED = {"keys": [one.jwk() for one in SIGNERS.values()]}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_signatures(algorithm: str, open_keys: Open) -> None:
    """Made by the key that is named, by another, over other words, by another algorithm, cut short, or of no key."""
    signer, other, reader = SIGNERS[algorithm], OTHERS[algorithm], await open_keys(Server(PUBLISHED))
    good = signer.token({"a": 1})
    head, _, tail = good.split(".")
    other_algorithm = "ES256" if algorithm != "ES256" else "RS256"
    for token, verdict in {
        good: Verdict.GENUINE,
        other.token({"a": 1}): Verdict.FORGED,
        f"{head}.{b64(json.dumps({'a': 2}).encode())}.{tail}": Verdict.FORGED,
        signer.token({"a": 1}, alg="none"): Verdict.FORGED,
        signer.token({"a": 1}, alg=other_algorithm): Verdict.FORGED,
        good[:-8]: Verdict.FORGED,
        f"{good}AAAA": Verdict.FORGED,
        signer.token({"a": 1}, kid="nobody's"): Verdict.UNKNOWN,
        signer.token({"a": 1}, kid=""): Verdict.UNKNOWN,
        signer.token({"a": 1}, kid=None): Verdict.UNKNOWN,
        "opaque": Verdict.UNKNOWN,
    }.items():
        assert await reader.verdict(parse(token)) is verdict, token


async def test_keys_are_read_again_for_new_ones_but_not_often(open_keys: Open) -> None:
    """However many tokens name keys that do not exist; a key that comes later is known after ten seconds."""
    server, signer = Server({"keys": []}), SIGNERS["ES256"]
    reader = await open_keys(server)
    for moment, answer, asked, verdict in (
        (0.0, {"keys": []}, 1, Verdict.UNKNOWN),
        (AGAIN - 1, PUBLISHED, 1, Verdict.UNKNOWN),
        (AGAIN, 503, 2, Verdict.UNKNOWN),
        (2 * AGAIN, PUBLISHED, 3, Verdict.GENUINE),
        (9 * AGAIN, {"keys": []}, 3, Verdict.GENUINE),
    ):
        server.now, server.answer = moment, answer
        found = await asyncio.gather(*(reader.verdict(parse(signer.token({}))) for _ in range(20)))
        assert set(found) == {verdict}
        assert server.asked == asked


@pytest.mark.parametrize("status", [401, 403, 404, 406])
async def test_where_keys_are_not_published_they_are_seldom_asked_for(status: int, open_keys: Open) -> None:
    server, signer = Server(status), SIGNERS["RS256"]
    reader = await open_keys(server)
    for moment, asked in ((0.0, 1), (DENIED_AGAIN - 1, 1), (DENIED_AGAIN, 2)):
        server.now = moment
        assert await reader.verdict(parse(signer.token({}))) is Verdict.UNKNOWN
        assert server.asked == asked


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["keys", "kid", "kty", "n"]), inner),
)
KEY = st.fixed_dictionaries(
    {"kid": st.text(max_size=3)},
    optional={
        "kty": st.sampled_from(["RSA", "EC", "oct"]),
        "crv": st.sampled_from(["P-256", "P-521", "secp256k1"]),
        "alg": st.sampled_from(["RS256", "ES256", "none", ""]),
        **{name: st.text(max_size=60) | st.integers() | st.none() for name in ("n", "e", "x", "y")},
    },
)


@given(JSON | st.fixed_dictionaries({"keys": st.lists(KEY, max_size=4)}))
def test_whatever_is_published_is_read(answer: object) -> None:
    """What is no key is left out."""
    assert all(key.algorithm in ALGORITHMS for key in parse_keys(answer).values())


@given(
    st.text(max_size=200) | st.lists(JSON, min_size=2, max_size=2).map(lambda two: ".".join(map(as_part, two)) + ".YQ")
)
def test_whatever_is_shown_is_a_token_or_none(text: str) -> None:
    found = parse(text)
    assert found is None or (isinstance(found, Jwt) and isinstance(found.claims, dict))


def as_part(value: object) -> str:
    return b64(json.dumps(value).encode())
