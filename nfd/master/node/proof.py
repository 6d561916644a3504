"""Proof that a record on a Node is ours: an HMAC (RFC 2104, SHA-256, 128 bits kept) with a key that only masters have.

Whoever may annotate a Node may write our lists there, a kubelet among them, and choose the name that managedFields
gives it. So neither proves anything.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

KEY_SIZE = 32
"""Bytes."""
_KEPT = 16


class Proof:
    """Makes proofs and checks them with its key, which may become another one; without a key none is made or believed.

    A key that is not `lasting` ends with this process: for its sake alone no Node is written.
    """

    def __init__(self, key: bytes = b"", *, lasting: bool = True) -> None:
        self._key = key
        self._lasting = lasting

    @classmethod
    def of_this_process(cls) -> Proof:
        """With a key of its own: what the process wrote itself is proven for as long as it runs."""
        return cls(secrets.token_bytes(KEY_SIZE), lasting=False)

    def __bool__(self) -> bool:
        return bool(self._key)

    @property
    def lasting(self) -> bool:
        return self._lasting and bool(self._key)

    def adopt(self, key: bytes) -> bool:
        """Go on with this lasting key; whether it is another one."""
        changed = key != self._key
        self._key, self._lasting = key, True
        return changed

    def make(self, uid: str, instance: str, record: Mapping[str, Any], lists: Iterable[str]) -> str:
        """Of a record, without its own proof, and the lists on the Node of that uid; 22 characters."""
        message = json.dumps([uid, instance, record, *lists], separators=(",", ":"), sort_keys=True)
        made = hmac.new(self._key, message.encode(), hashlib.sha256).digest()[:_KEPT]
        return base64.urlsafe_b64encode(made).decode().rstrip("=")

    def holds(self, uid: str, instance: str, record: Mapping[str, Any], lists: Iterable[str], proof: Any) -> bool:
        """Whether we made that proof; in constant time. Raises: RecursionError for a record nested too deeply."""
        if not self._key or not isinstance(proof, str):
            return False
        return hmac.compare_digest(self.make(uid, instance, record, lists).encode(), proof.encode(errors="replace"))


class Assumed(Proof):
    """For tools that say what a master would do, and have no key: every record whose lists fit counts."""

    def holds(self, uid: str, instance: str, record: Mapping[str, Any], lists: Iterable[str], proof: Any) -> bool:
        return True


UNPROVEN = Proof()
ASSUMED = Assumed()
