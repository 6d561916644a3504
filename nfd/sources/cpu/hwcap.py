"""ELF hardware capabilities, which the kernel hands to every process: the flags of all architectures but x86.

Text form, the same live and recorded: lines `HWCAP HEX` and `HWCAP2 HEX`; `#` starts a comment.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping

from nfd.errors import HostError
from nfd.host import Host
from nfd.sources.cpu import procinfo, tables

PROBE = "auxv"
_AT_HWCAP, _AT_HWCAP2 = 16, 26
_LINE = re.compile(r"(HWCAP\d?)\s+(?:0[xX])?([0-9a-fA-F]{1,16})", re.ASCII)


def read_hwcap(host: Host, arch: str) -> Mapping[str, int]:
    """The capability words, by name. Without an auxiliary vector, the part that is in /proc/cpuinfo."""
    text = host.probe(PROBE, read_auxv_text)
    if text is not None:
        return parse_hwcap(text)
    words = procinfo.derive_hwcap(host.value(procinfo.PATH) or "", arch)
    host.note(PROBE, f"not there: flags are those of {procinfo.PATH}")
    return words


def read_auxv_text() -> str:
    """The words of this process, by getauxval(3)."""
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.restype = ctypes.c_ulong
    getauxval.argtypes = (ctypes.c_ulong,)
    return f"HWCAP {getauxval(_AT_HWCAP):x}\nHWCAP2 {getauxval(_AT_HWCAP2):x}\n"


def parse_hwcap(text: str) -> Mapping[str, int]:
    """Read the text form; raises HostError naming the line."""
    words: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        found = _LINE.fullmatch(content)
        if found is None:
            raise HostError(PROBE, f"line {number}: {content[:80]!r} is neither 'HWCAP HEX' nor 'HWCAP2 HEX'")
        words[found[1]] = int(found[2], 16)
    return words


def derive_flags(words: Mapping[str, int], arch: str) -> frozenset[str]:
    """Bits without a name are ignored."""
    return frozenset(row.flag for row in tables.hwcap(arch) if words.get(row.word, 0) & row.mask)
