"""Replacements for what identifies: the same text always gets the same one, and no two texts share one.

They keep length, case and separators where that shows what a value is. They are keyed hashes, with a key that is thrown
away, so that short originals cannot be found by trying; or they are numbers in the order of coming.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b, shake_256
from itertools import count

_STAYS = re.compile(r"(?i)[ymn]|true|false|yes|no|null|none|nil|unknown|\d{0,3}|0+|f+")
"""Values that are not replaced, and so replace none."""
_SEPARATORS = re.compile(r"[^0-9A-Fa-f]")
_TRIES = 64
"""Replacements of a short text that are tried before it becomes longer."""
_V4 = tuple(map(ipaddress.IPv4Network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")))
"""For documentation (RFC 5737). What does not fit is of those for benchmarks (RFC 2544), then reserved (RFC 1112)."""
_V4_MORE = tuple(map(ipaddress.IPv4Network, ("198.18.0.0/15", "240.0.0.0/4")))
_V6 = ipaddress.IPv6Network("2001:db8::/32")
"""For documentation (RFC 3849)."""


class Pseudonyms:
    """Of one recording, or one bundle."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else key
        self._fresh: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()
        self._numbers: Counter[str] = Counter()

    def hex(self, text: str) -> str:
        """Hexadecimal digits anew, separators and case kept: a MAC address is the same with colons, dashes or none.

        All zeros or all ones mean nothing and stay. Of six bytes the first is 02, which no maker of cards has.
        """
        digits = _SEPARATORS.sub("", text).lower()
        if set(digits) <= {"0"} or set(digits) <= {"f"}:
            return text
        head = "02" if len(digits) == 12 else ""
        fresh = iter(self._once("hex", digits, lambda noise: head + noise[len(head) : len(digits)], len(digits)))
        spread = "".join(char if _SEPARATORS.match(char) else next(fresh) for char in text)
        return spread.upper() if text != text.lower() else spread

    def secret(self, text: str) -> str:
        """Letters and digits anew, everything else kept; zeros alone mean nothing and stay."""
        if not text.strip("0 \n\t"):
            return text
        core = text.strip()
        fresh = self._once("secret", core, lambda noise: _like(core, noise), len(core))
        return text.replace(core, fresh, 1)

    def address(self, text: str) -> str:
        """Another address of the ranges that nobody has; what means this host or none stays.

        Raises: ValueError for what is no address.
        """
        address = ipaddress.ip_address(text)
        if address.is_loopback or address.is_unspecified:
            return text
        number = self.numbered(f"v{address.version}", str(address))
        return str(_V6[number] if address.version == 6 else _nth_v4(number))

    def numbered(self, kind: str, text: str) -> int:
        """1 for the first text of its kind, 2 for the next."""
        if (kind, text) not in self._fresh:
            self._numbers[kind] += 1
            self._fresh[kind, text] = str(self._numbers[kind])
        return int(self._fresh[kind, text])

    def _once(self, kind: str, text: str, make: Callable[[str], str], length: int) -> str:
        """What `make` makes of some noise, and no other text of that kind has got."""
        if (found := self._fresh.get((kind, text))) is not None:
            return found
        for attempt in count():
            noise = self._noise(f"{kind}\0{text}\0{attempt}", length)
            fresh = make(noise) + noise[: attempt // _TRIES]
            if fresh != text and fresh not in self._taken and not _STAYS.fullmatch(fresh):
                break
        self._taken.add(fresh)
        self._fresh[kind, text] = fresh
        return fresh

    def _noise(self, text: str, length: int) -> str:
        """At least that many hexadecimal digits, which only this key gives for this text."""
        digest = blake2b(text.encode("utf-8", "surrogateescape"), key=self._key).digest()
        return shake_256(digest).hexdigest(length // 2 + _TRIES)


def _nth_v4(number: int) -> ipaddress.IPv4Address:
    """Addresses but the first and the last of each network."""
    for network in (*_V4, *_V4_MORE):
        if number <= network.num_addresses - 2:
            return network[number]
        number -= network.num_addresses - 2
    raise ValueError("more addresses than there are")


def _like(text: str, noise: str) -> str:
    """Another character of the same class for each letter and digit; two digits of noise for one."""
    pairs = (noise * 2)[: 2 * len(text)]
    return "".join(_exchange(char, int(pairs[2 * at : 2 * at + 2], 16)) for at, char in enumerate(text))


def _exchange(char: str, noise: int) -> str:
    if not (char.isascii() and char.isalnum()):
        return char
    first, size = ("0", 10) if char.isdigit() else ("A", 26) if char.isupper() else ("a", 26)
    return chr(ord(first) + noise % size)
