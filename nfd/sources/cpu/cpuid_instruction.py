"""Executes CPUID and XGETBV on the running machine, on every core of a hybrid processor, through py-cpuinfo.

The code is put into private memory that is writable and executable. Where a security policy forbids that (SELinux
`execmem`, PaX), the kernel rejects the mapping, which is reported; nothing here can crash the process.
"""

from __future__ import annotations

import ctypes
import errno
import sys
from collections.abc import Callable, Iterator
from functools import cache

from nfd.errors import HostError
from nfd.host.cores import on_each_core
from nfd.sources.cpu import tables
from nfd.sources.cpu.cpuid import EAX, ECX, EDX, EXTENDED, HYPERVISOR_LEAF, PROBE, Cpuid, Registers, format_cpuid
from nfd.sources.cpu.cpuid_flags import common

Execute = Callable[[int, int], Registers]

_OTHER_LEAVES = (
    *((leaf, 0) for leaf in (0x0, 0x1, 0x4, 0xA, 0xB, 0xF, 0x10, 0x12, 0x16, 0x21, 0x24)),
    *((0x12, section) for section in range(2, 10)),
    *((leaf, 0) for leaf in (HYPERVISOR_LEAF, 0x4000000C, EXTENDED, 0x8000001E)),
    (0xF, 1),
)

# void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4]), System V AMD64 calling convention
_CPUID = bytes.fromhex(
    "f30f1efa"  # endbr64
    "53"  # push rbx
    "4989d0"  # mov r8, rdx
    "89f8"  # mov eax, edi
    "89f1"  # mov ecx, esi
    "0fa2"  # cpuid
    "418900"  # mov [r8], eax
    "41895804"  # mov [r8+4], ebx
    "41894808"  # mov [r8+8], ecx
    "4189500c"  # mov [r8+12], edx
    "5b"  # pop rbx
    "c3"  # ret
)

# uint64_t xgetbv(void): extended control register 0
_XGETBV = bytes.fromhex(
    "f30f1efa"  # endbr64
    "31c9"  # xor ecx, ecx
    "0f01d0"  # xgetbv
    "48c1e220"  # shl rdx, 32
    "4809d0"  # or rax, rdx
    "c3"  # ret
)


@cache
def read_cpuid_text() -> str:
    """CPUID of this machine in its text form; executed once, since it stays as it is until the next boot.

    Raises: HostError where machine code cannot be run, with EACCES or EPERM if policy forbids it.
    """
    if sys.maxsize <= 2**32:
        raise HostError(PROBE, "cannot be executed from a 32-bit Python", errno.EPERM)
    from cpuinfo.cpuinfo import ASM  # here, since it costs a megabyte that no other architecture needs

    codes = []
    try:
        cpuid = ASM(None, (ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p), [_CPUID])
        xgetbv = ASM(ctypes.c_uint64, (), [_XGETBV])
        for one in (cpuid, xgetbv):
            one.compile()
            codes.append(one)
        return format_cpuid(_collect(_executor(cpuid.func), xgetbv.func))
    except (OSError, MemoryError) as error:
        code = getattr(error, "errno", errno.ENOMEM)
        raise HostError(PROBE, f"machine code cannot be executed here: {error}", code) from error
    finally:
        for compiled in codes:
            compiled.free()


def _executor(function: Callable[..., None]) -> Execute:
    out = (ctypes.c_uint32 * 4)()

    def execute(leaf: int, subleaf: int) -> Registers:
        function(leaf, subleaf, ctypes.addressof(out))
        return out[0], out[1], out[2], out[3]

    return execute


def _collect(execute: Execute, xgetbv: Callable[[], int]) -> Cpuid:
    """Of the running processor or, of a hybrid one, what all usable cores have."""
    here = _collect_here(execute, xgetbv)
    if not here.bit(7, EDX, 15):
        return here
    return common([here, *on_each_core(lambda: _collect_here(execute, xgetbv))])


def _collect_here(execute: Execute, xgetbv: Callable[[], int]) -> Cpuid:
    """Every leaf that is offered and not all zero. XGETBV is an illegal instruction unless the OS uses XSAVE."""
    found = {key: registers for key in _offered(execute) if any(registers := execute(*key))}
    os_uses_xsave = found.get((1, 0), (0, 0, 0, 0))[ECX] >> 27 & 1
    return Cpuid(found, xgetbv() if os_uses_xsave else 0)


def _offered(execute: Execute) -> Iterator[tuple[int, int]]:
    """The known leaves in range: beyond its maximum an Intel processor repeats its last basic leaf."""
    highest = execute(0, 0)[EAX]
    highest_extended = execute(EXTENDED, 0)[EAX]
    in_guest = highest >= 1 and execute(1, 0)[ECX] >> 31
    highest_guest = execute(HYPERVISOR_LEAF, 0)[EAX] if in_guest else 0
    for leaf, subleaf in sorted({(row.leaf, row.subleaf) for row in tables.x86()}.union(_OTHER_LEAVES)):
        if leaf >= EXTENDED:
            offered = leaf <= highest_extended
        elif leaf >= HYPERVISOR_LEAF:
            offered = bool(in_guest) and (leaf == HYPERVISOR_LEAF or leaf <= highest_guest)
        else:
            offered = leaf <= highest
        if offered:
            yield leaf, subleaf
