"""Changed protobuf messages: fields doubled, dropped, renumbered, retyped, and all of that in what they hold.

Wire format: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.fuzz.mutate import TOKENS, Bytes, below, pick

Field = tuple[int, int, int | bytes]
"""Number, wire type, value."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
INTEGERS = (0, 1, 2, 127, 128, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
_SIZES = {FIXED64: 8, FIXED32: 4}
_changed = Bytes()


def wires(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """A Maker."""
    data = pick(chance, corpus)
    while True:
        data = change(chance, data, corpus)
        if chance.random() < 0.5:
            return data


def change(chance: Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    """One change, mostly deep inside."""
    fields = parse(data)
    if not fields:
        return _changed(chance, (data, pick(chance, corpus)))
    at, how = below(chance, len(fields)), below(chance, 10)
    number, kind, value = fields[at]
    if how < 6:
        fields[at] = number, kind, _changed_value(chance, value, corpus)
    elif how == 6:
        del fields[at]
    elif how == 7:
        fields.insert(below(chance, len(fields)), fields[at])
    elif how == 8:
        fields[at] = 1 + below(chance, 12), kind, value
    else:
        other = parse(pick(chance, corpus))
        fields[at : at + 1] = [pick(chance, other)] if other else [(number, VARINT, pick(chance, INTEGERS))]
    return render(fields)


def _changed_value(chance: Random, value: int | bytes, corpus: Sequence[bytes]) -> int | bytes:
    if isinstance(value, int):
        return pick(chance, INTEGERS)
    if chance.random() < 0.2:
        return pick(chance, TOKENS)
    return change(chance, value, corpus)


def parse(data: bytes) -> list[Field]:
    """The fields of a message; none if it is no message."""
    fields: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        value: int | bytes
        if kind == VARINT:
            value, at = _varint(data, at)
        elif kind in _SIZES or kind == BYTES:
            size, at = (_SIZES[kind], at) if kind in _SIZES else _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            return []
        if not number or at > len(data):
            return []
        fields.append((number, kind, value))
    return fields


def render(fields: Sequence[Field]) -> bytes:
    parts: list[bytes] = []
    for number, kind, value in fields:
        if isinstance(value, int):
            parts += (_tag(number, VARINT), varint(value))
        elif len(value) == _SIZES.get(kind):
            parts += (_tag(number, kind), value)
        else:
            parts += (_tag(number, BYTES), varint(len(value)), value)
    return b"".join(parts)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tag(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Value and the place after it, which is behind the end of what is cut off."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & (2**64 - 1), at
    return 0, len(data) + 1
