"""Changed bytes: a known input with some places flipped, cut, doubled, or replaced by what parsers trip over."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

LONGEST = 4096
_NUMBER = re.compile(rb"\d+")

NUMBERS = (
    b"0", b"-1", b"1", b"00", b"255", b"256", b"65536", b"2147483648", b"4294967296", b"9223372036854775807",
    b"9223372036854775808", b"18446744073709551616", b"-9223372036854775809", b"1e999", b"1e-999", b"NaN", b"Infinity",
    b"0x", b"0x1p4", b"1_000", b"9" * 400, b"9" * 5000, "\u0663".encode(), "\u00b2".encode(),
)  # fmt: skip
TOKENS = (
    b"\0", b"\n", b"\r", b"\n\n", b"\t", b" ", b"=", b":", b"/", b",", b".", b"..", b"-", b"_", b"#", b'"', b"'", b"\\",
    b"{", b"}", b"[", b"]", b"%", b"@", b"*", b"&", b"!", b"|", b"<", b"\xff", b"\xc3", b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    "\u2028".encode(), "\x85".encode(), "é".encode(), "\U0001f600".encode(), b"a" * 64, b"A" * 254, b"\x1b[31m",
)  # fmt: skip


class Bytes:
    """A Maker of changed bytes; `words` are those of the format."""

    def __init__(self, *words: str | bytes, longest: int = LONGEST) -> None:
        self._words = tuple(one.encode() if isinstance(one, str) else one for one in words) * 2 + TOKENS
        self._longest = longest

    def __call__(self, chance: Random, corpus: Sequence[bytes]) -> bytes:
        data = pick(chance, corpus)
        while True:
            data = pick(chance, _STEPS)(self, chance, data, corpus)
            if chance.random() < 0.4:
                return data[: self._longest]

    def flip(self, chance: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
        at = below(chance, len(data) + 1)
        return data[:at] + bytes((below(chance, 256),)) + data[at + 1 :]

    def cut(self, chance: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
        at, end = _range(chance, data)
        return data[:at] + data[end:]

    def double(self, chance: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
        at, end = _range(chance, data)
        return data[:end] + data[at:end] * (1 + below(chance, 3)) + data[end:]

    def insert(self, chance: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
        at = below(chance, len(data) + 1)
        return data[:at] + pick(chance, self._words) + data[at + below(chance, 3) :]

    def splice(self, chance: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
        other = pick(chance, corpus)
        return data[: below(chance, len(data) + 1)] + other[below(chance, len(other) + 1) :]

    def number(self, chance: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
        found = _NUMBER.search(data, below(chance, len(data) + 1)) or _NUMBER.search(data)
        if found is None:
            return self.insert(chance, data, corpus)
        return data[: found.start()] + pick(chance, NUMBERS) + data[found.end() :]

    def line(self, chance: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
        """A line goes to another place, or comes from another input."""
        lines, others = data.split(b"\n"), pick(chance, (data, pick(chance, corpus))).split(b"\n")
        lines[below(chance, len(lines))] = pick(chance, others)
        return b"\n".join(lines)

    def noise(self, chance: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
        at = below(chance, len(data) + 1)
        return data[:at] + chance.randbytes(1 + below(chance, 8)) + data[at:]


_STEPS: tuple[Callable[[Bytes, Random, bytes, Sequence[bytes]], bytes], ...] = (
    Bytes.flip, Bytes.cut, Bytes.double, Bytes.insert, Bytes.insert, Bytes.splice, Bytes.number, Bytes.line,
    Bytes.noise,
)  # fmt: skip


def either(*makers: Callable[[Random, Sequence[bytes]], bytes]) -> Callable[[Random, Sequence[bytes]], bytes]:
    """One of several Makers, each as often as the others."""
    return lambda chance, corpus: pick(chance, makers)(chance, corpus)


def below(chance: Random, limit: int) -> int:
    return int(chance.random() * limit)


def pick(chance: Random, items: Sequence[T]) -> T:
    return items[int(chance.random() * len(items))]


def _range(chance: Random, data: bytes) -> tuple[int, int]:
    at = below(chance, len(data) + 1)
    return at, at + 1 + below(chance, 1 << below(chance, 8))
