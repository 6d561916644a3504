"""`cpu.model`: vendor, family, id and hypervisor of the processor."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nfd.host import Host
from nfd.host.blanks_and_numbers import BLANK
from nfd.sources.cpu import hypervisor, procinfo, riscv
from nfd.sources.cpu.cpuid import UNKNOWN_VENDOR, Cpuid

IMPLEMENTERS = {
    0x41: "ARM",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x44: "DEC",
    0x46: "Fujitsu",
    0x49: "Infineon",
    0x4D: "Motorola",
    0x4E: "NVIDIA",
    0x50: "AMCC",
    0x51: "Qualcomm",
    0x56: "Marvell",
    0x69: "Intel",
    0xC0: "Ampere",
}
"""Implementer byte of MIDR_EL1 (Arm Architecture Reference Manual) and NFD's names; others are unknown to it."""

_MIDR = "sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
_HWCAP_CPUID = 1 << 11
_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,16})", re.ASCII)
_DECIMAL = re.compile(r"\d{1,3}", re.ASCII)

Model = dict[str, str]


def read_model(host: Host, arch: str, cpuid: Cpuid | None, words: Mapping[str, int]) -> Model:
    """Elements `vendor_id`, `family`, `id`, and `hypervisor` if it is known."""
    if cpuid is not None:
        model = _model(cpuid.vendor, str(cpuid.family), str(cpuid.model))
        return model | {"hypervisor": hypervisor.read_x86(host, cpuid)}
    if arch == "riscv":
        model, found = _model(riscv.read_vendor(host)), hypervisor.read_evidence(host)
    elif arch == "s390x":
        model, found = parse_s390x(host.value(procinfo.PATH) or ""), hypervisor.read_s390x(host)
    else:
        midr = read_midr(host) if arch == "arm64" and words.get("HWCAP", 0) & _HWCAP_CPUID else None
        model, found = _model() if midr is None else derive_arm64(midr), hypervisor.read_evidence(host)
    return model | ({} if found is None else {"hypervisor": found})


def read_midr(host: Host) -> int | None:
    """MIDR_EL1 of the first processor; None if neither file has it.

    Reads: cpu0/regs/identification/midr_el1 (kernel Documentation/arch/arm64/cpu-feature-registers.rst), else the
    register's fields in proc/cpuinfo, where the architecture 0xf reads 8
    """
    text = host.value(_MIDR)
    if text is not None and (found := _HEX.fullmatch(text)):
        return int(found[1], 16) & 0xFFFFFFFF
    if text is not None:
        host.note(_MIDR, f"{text[:40]!r} is not a hexadecimal number")
    cpuinfo = host.value(procinfo.PATH) or ""
    implementer = _HEX.fullmatch(procinfo.field_of(cpuinfo, "CPU implementer"))
    variant = _HEX.fullmatch(procinfo.field_of(cpuinfo, "CPU variant"))
    part = _HEX.fullmatch(procinfo.field_of(cpuinfo, "CPU part"))
    revision = _DECIMAL.fullmatch(procinfo.field_of(cpuinfo, "CPU revision"))
    if not (implementer and variant and part and revision):
        return None
    fields = (int(implementer[1], 16), int(variant[1], 16), int(part[1], 16), int(revision[0]))
    if any(value >= limit for value, limit in zip(fields, (0x100, 0x10, 0x1000, 0x10), strict=True)):
        return None
    return fields[0] << 24 | fields[1] << 20 | 0xF << 16 | fields[2] << 4 | fields[3]


def derive_arm64(midr: int) -> Model:
    """Family is variant and architecture (bits 23:16), id part number and revision (bits 15:0)."""
    return _model(IMPLEMENTERS.get(midr >> 24, UNKNOWN_VENDOR), str(midr >> 16 & 0xFF), str(midr & 0xFFFF))


def parse_s390x(cpuinfo: str) -> Model:
    """First `identification` is the family, last `machine` the id; the summary lines `processor 0: …` do not count.

    As NFD does, a 0 is skipped for the next `identification`, and an empty value counts as none.
    """
    found = {"vendor_id": "", "identification": "0", "machine": "0"}
    for line in cpuinfo.split("\n"):
        key, colon, value = (part.strip(BLANK) for part in line.partition(":"))
        if colon and key in found and (key != "identification" or found[key] == "0"):
            found[key] = value
    vendor = hypervisor.sanitize(found["vendor_id"]) or UNKNOWN_VENDOR
    return _model(vendor, found["identification"] or "0", found["machine"] or "0")


def _model(vendor: str = UNKNOWN_VENDOR, family: str = "0", identity: str = "0") -> Model:
    return {"vendor_id": vendor, "family": family, "id": identity}
