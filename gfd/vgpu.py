"""Whether a PCI function is a vGPU, and of which host driver: parsed from its configuration space.

The vendor-specific capability (PCI Local Bus Specification 3.0, section 6.7 and appendix H, id 0x09) of a vGPU holds
`VF` and a list of records; the one with id 0 has the host driver's version and branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SPACE = 256
"""Bytes that must be readable; without CAP_SYS_ADMIN the kernel shows 64."""

_STATUS, _HAS_LIST = 0x06, 0x10
_POINTER = 0x34
_VENDOR = 0x09
_END = 0xFF
_SIGNATURE = b"VF"
_RECORDS = 5
_TEXT = 10


class Vgpu(NamedTuple):
    """`version` and `branch` are None where the list of records does not tell them."""

    version: str | None = None
    branch: str | None = None


def parse_vgpu(space: bytes) -> Vgpu | None:
    """The vGPU behind a configuration space of at least 256 bytes, None if it is none."""
    capability = vendor_capability(space[:SPACE])
    if len(capability) < _RECORDS or capability[3:5] != _SIGNATURE:
        return None
    at = _RECORDS
    while at + 2 <= len(capability):
        kind, length = capability[at], capability[at + 1]
        if kind == 0:
            return version_record(capability[at + 2 :])
        if length == 0:
            break
        at += length
    return Vgpu()


def version_record(data: bytes) -> Vgpu:
    """Version and branch, ten bytes each, padded with NULs."""
    if len(data) < 2 * _TEXT:
        return Vgpu()
    version, branch = (part.strip(b"\0").decode("latin-1") for part in (data[:_TEXT], data[_TEXT : 2 * _TEXT]))
    return Vgpu(version, branch)


def vendor_capability(space: bytes) -> bytes:
    """The first vendor-specific capability, its header included; empty if there is none."""
    for at in capabilities(space):
        if space[at] == _VENDOR:
            return space[at : at + space[at + 2]]
    return b""


def capabilities(space: bytes) -> Iterator[int]:
    """Offsets of the capabilities in the list; a broken list ends it."""
    if not space[_STATUS] & _HAS_LIST:
        return
    seen: set[int] = set()
    at = space[_POINTER]
    while at and at not in seen and at + 2 < len(space) and space[at] != _END:
        seen.add(at)
        yield at
        at = space[at + 1]
