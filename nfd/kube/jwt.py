"""What a JSON Web Token says of itself, and whether the cluster signed it (RFC 7515, 7517, 7518, 7519).

The API server publishes the keys that it signs service-account tokens with (Kubernetes documentation, "Managing
Service Accounts", service account issuer discovery). They show without a request whether a token is
genuine. Only the API server knows whether a genuine token is still valid.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nfd.errors import KubeError, Unavailable
from nfd.kube.client import KubeClient
from nfd.runtime import log, tasks

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

KEYS = "/openid/v1/jwks"
KEYS_TYPE = "application/jwk-set+json"
"""The only media type that the API server gives them in."""
MAX_TOKEN = 8_000
"""Characters; a pod's token has some 1,000."""
MAX_KEYS = 100
AGAIN = 10.0
"""Seconds after which the keys are read again for a key that is not among them."""
DENIED_AGAIN = 600.0
"""Seconds after which they are asked for again where the API server does not give them."""
PATIENCE = 2.0
LATEST = 1e12
"""Seconds since the epoch; no token is from later."""

_SHAPE = re.compile(r"([\w-]+)\.([\w-]+)\.([\w-]+)", re.ASCII)
_CURVES = {
    "P-256": ("ES256", "SECP256R1", 32),
    "P-384": ("ES384", "SECP384R1", 48),
    "P-521": ("ES512", "SECP521R1", 66),
}
_log = log.get("kube")


class Verdict(StrEnum):
    GENUINE = "genuine"
    """The cluster signed it."""
    FORGED = "forged"
    """It names a key of the cluster's, which did not sign it."""
    UNKNOWN = "unknown"
    """It is no such token, or of a key that is not known."""


@dataclass(frozen=True, slots=True)
class Jwt:
    """A token's parts; nothing is verified."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes


def parse(token: str) -> Jwt | None:
    """None for what has not this shape."""
    found = _SHAPE.fullmatch(token) if len(token) <= MAX_TOKEN else None
    if found is None:
        return None
    try:
        header, claims, signature = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in found.groups())
        texts = json.loads(header), json.loads(claims)
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(text, dict) for text in texts):
        return None
    return Jwt(*texts, token.rpartition(".")[0].encode(), signature)


def seconds(value: object) -> float:
    """Seconds since the epoch; 0 for what is none: a truth value, NaN."""
    is_time = not isinstance(value, bool) and isinstance(value, int | float) and 0 < value < LATEST
    return float(value) if is_time else 0.0  # type: ignore[arg-type]  # checked one line before


@dataclass(frozen=True, slots=True)
class _Key:
    """A public key, and the algorithm that goes with it."""

    algorithm: str
    verify: Callable[[bytes, bytes], None]
    """Of signature and what was signed; raises InvalidSignature, ValueError."""


class Keys:
    """The API server's keys, read when the first token is looked at. For one event loop; `now` in seconds."""

    def __init__(self, client: KubeClient, now: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._now = now
        self._known: dict[str, _Key] = {}
        self._next = -AGAIN
        self._reading: asyncio.Task[None] | None = None

    async def verdict(self, token: Jwt | None) -> Verdict:
        """Whose token it is, without a question about it."""
        name = token.header.get("kid") if token is not None else None
        if token is None or not isinstance(name, str) or not name:
            return Verdict.UNKNOWN
        if name not in self._known:
            await self._refresh()
        key = self._known.get(name)
        if key is None:
            return Verdict.UNKNOWN
        if token.header.get("alg") != key.algorithm:
            return Verdict.FORGED
        return Verdict.GENUINE if _is_signed(key, token) else Verdict.FORGED

    async def _refresh(self) -> None:
        """Read the keys, or wait for those who do; not too often, however many ask for keys that do not exist."""
        if self._reading is None and self._now() >= self._next:
            self._next = self._now() + AGAIN
            self._reading = tasks.ask("reading of the keys of tokens", self._read())
        if self._reading is not None:
            await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await self._client.json("GET", KEYS, accept=KEYS_TYPE)
            if isinstance(answer, Mapping) and isinstance(answer.get("keys"), list):  # else it is no news of keys
                self._known = parse_keys(answer)
        except (Unavailable, TimeoutError):
            pass
        except KubeError as error:
            self._next = self._now() + DENIED_AGAIN
            _log.info("cannot check signatures of tokens; the API server is asked", path=KEYS, error=error)
        finally:
            self._reading = None


def _is_signed(key: _Key, token: Jwt) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(token.signature, token.signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def parse_keys(answer: object) -> dict[str, _Key]:
    """Keys by their id; those that are not understood are left out."""
    listed = answer.get("keys") if isinstance(answer, Mapping) else None
    found = {}
    for one in (listed if isinstance(listed, list) else ())[:MAX_KEYS]:
        if isinstance(one, Mapping) and isinstance(one.get("kid"), str) and (key := _parse_key(one)) is not None:
            found[str(one["kid"])] = key
    return found


def _parse_key(one: Mapping[str, Any]) -> _Key | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    try:
        if one.get("kty") == "RSA":
            return _rsa(rsa.RSAPublicNumbers(_number(one["e"]), _number(one["n"])).public_key(), str(one["alg"]))
        if one.get("kty") == "EC":
            algorithm, curve, size = _CURVES[str(one["crv"])]
            numbers = ec.EllipticCurvePublicNumbers(_number(one["x"]), _number(one["y"]), getattr(ec, curve)())
            return _ecdsa(numbers.public_key(), algorithm, size)
    except (KeyError, ValueError, TypeError, UnsupportedAlgorithm):
        pass
    return None


def _rsa(key: rsa.RSAPublicKey, algorithm: str) -> _Key:
    """RSASSA-PKCS1-v1_5 (RFC 7518, 3.3)."""
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

    kind = _hash({"RS256": 256, "RS384": 384, "RS512": 512}[algorithm])
    return _Key(algorithm, lambda signature, data: key.verify(signature, data, PKCS1v15(), kind))


def _ecdsa(key: ec.EllipticCurvePublicKey, algorithm: str, size: int) -> _Key:
    """ECDSA, R and S of `size` bytes each (RFC 7518, 3.4)."""
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    kind = _hash(int(algorithm.removeprefix("ES")))

    def verify(signature: bytes, data: bytes) -> None:
        if len(signature) != 2 * size:
            raise ValueError("is no signature of that key")
        pair = (int.from_bytes(part, "big") for part in (signature[:size], signature[size:]))
        key.verify(encode_dss_signature(*pair), data, ECDSA(kind))

    return _Key(algorithm, verify)


def _hash(bits: int) -> HashAlgorithm:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA256() if bits == 256 else hashes.SHA384() if bits == 384 else hashes.SHA512()


def _number(text: object) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(str(text) + "=" * (-len(str(text)) % 4)), "big")
