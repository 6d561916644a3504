"""Proof that this product wrote a record on a Node: an HMAC (RFC 2104, SHA-256, 128 bits kept) with the masters' key.

Anyone who may annotate a Node, such as a kubelet, may write the lists, and may choose the name in managedFields. So
neither proves anything.
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
    """Makes and checks proofs with its key, which may be replaced; without a key none is made or accepted.

    A key that is not `lasting` ends with this process: no Node is written only to renew such a proof.
    """

    def __init__(self, key: bytes = b"", *, lasting: bool = True) -> None:
        self._key = key
        self._lasting = lasting

    @classmethod
    def of_this_process(cls) -> Proof:
        """With a random key: proofs are valid for as long as this process runs."""
        return cls(secrets.token_bytes(KEY_SIZE), lasting=False)

    def __bool__(self) -> bool:
        return bool(self._key)

    @property
    def lasting(self) -> bool:
        return self._lasting and bool(self._key)

    def adopt(self, key: bytes) -> bool:
        """Use this lasting key from now on; returns whether it differs."""
        changed = key != self._key
        self._key, self._lasting = key, True
        return changed

    def make(self, uid: str, instance: str, record: Mapping[str, Any], lists: Iterable[str]) -> str:
        """The proof of a record, without its `proof`, and the lists on the Node with that uid; 22 characters."""
        message = json.dumps([uid, instance, record, *lists], separators=(",", ":"), sort_keys=True)
        made = hmac.new(self._key, message.encode(), hashlib.sha256).digest()[:_KEPT]
        return base64.urlsafe_b64encode(made).decode().rstrip("=")

    def seal(self, content: bytes) -> bytes:
        """32 bytes that prove that a master with this key wrote a snapshot with this content."""
        return hmac.new(self._key, b"snapshot\n" + content, hashlib.sha256).digest()

    def holds(self, uid: str, instance: str, record: Mapping[str, Any], lists: Iterable[str], proof: Any) -> bool:
        """Whether the proof was made with this key; in constant time. Raises: RecursionError for a record nested too
        deeply."""
        if not self._key or not isinstance(proof, str):
            return False
        return hmac.compare_digest(self.make(uid, instance, record, lists).encode(), proof.encode(errors="replace"))


class Assumed(Proof):
    """For commands that show what a master would do and have no key: every record that matches its lists is
    accepted."""

    def holds(self, uid: str, instance: str, record: Mapping[str, Any], lists: Iterable[str], proof: Any) -> bool:
        return True


UNPROVEN = Proof()
ASSUMED = Assumed()
