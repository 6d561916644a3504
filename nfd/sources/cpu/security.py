"""`cpu.security`, trusted execution, where what is off is not there; and `cpu.vulnerability`."""

from __future__ import annotations

from nfd.features import printable
from nfd.host import Host
from nfd.host.blanks_and_numbers import parse_decimal
from nfd.sources.cpu.cpuid import EAX, ECX, EDX, Cpuid

NUMBERS = frozenset({"sgx.epc", "tdx.total_keys", "sev.asids", "sev.encrypted_state_ids"})
"""Elements that are counts and become no labels."""

_CAPACITIES = ("sys/fs/cgroup/misc.capacity", "sys/fs/cgroup/misc/misc.capacity")
_KVM_INTEL = "sys/module/kvm_intel/parameters"
_KVM_AMD = "sys/module/kvm_amd/parameters"


def read_x86(host: Host, cpuid: Cpuid, flags: frozenset[str]) -> dict[str, str]:
    """SGX, TDX (as host and as guest) and SEV.

    Reads: CPUID; parameters of kvm_intel and kvm_amd; misc.capacity (kernel admin-guide/cgroup-v2.rst, "Misc")
    """
    found: dict[str, str] = {}
    if "SGX" in flags and (size := derive_epc_size(cpuid)):
        found |= {"sgx.enabled": "true", "sgx.epc": str(size)}
    if host.value(f"{_KVM_INTEL}/tdx", trimmed=False) == "Y\n":
        found |= {"tdx.enabled": "true"} | _capacity(host, "tdx", "tdx.total_keys")
    if "TDX_GUEST" in flags:
        found["tdx.protected"] = "true"
    if _is_on(host, "sev"):
        found |= {"sev.enabled": "true"} | _capacity(host, "sev", "sev.asids")
    if _is_on(host, "sev_es"):
        found |= {"sev.es.enabled": "true"} | _capacity(host, "sev_es", "sev.encrypted_state_ids")
    if _is_on(host, "sev_snp"):
        found["sev.snp.enabled"] = "true"
    return found


def read_s390x(host: Host) -> dict[str, str]:
    """Secure Execution.

    Reads: sys/firmware/uv/prot_virt_host (kernel arch/s390/kernel/uv.c)
    """
    return {"se.enabled": "true"} if host.value("sys/firmware/uv/prot_virt_host", trimmed=False) == "1\n" else {}


def derive_epc_size(cpuid: Cpuid) -> int:
    """Bytes of the SGX enclave page cache: the sections in leaf 12 from subleaf 2 on (Intel SDM vol. 3D chapter 38)."""
    size = 0
    for subleaf in range(2, 10):
        registers = cpuid.registers(0x12, subleaf)
        kind = registers[EAX] & 0xF
        if kind == 0:
            break
        if kind == 1:
            size += (registers[ECX] & 0xFFFFF000) + ((registers[EDX] & 0xFFFFF) << 32)
    return size


def parse_capacity(text: str, resource: str) -> str | None:
    """The amount of a resource in misc.capacity, found by its whole name."""
    for line in text.split("\n"):
        name, _, rest = line.removesuffix("\r").partition(" ")
        if name == resource:
            amount = parse_decimal(rest.partition(" ")[0])
            return None if amount is None or amount < 0 else str(amount)
    return None


def _capacity(host: Host, resource: str, element: str) -> dict[str, str]:
    text = next((text for path in _CAPACITIES if (text := host.value(path, trimmed=False)) is not None), "")
    amount = parse_capacity(text, resource)
    return {} if amount is None else {element: amount}


def _is_on(host: Host, parameter: str) -> bool:
    return (host.value(f"{_KVM_AMD}/{parameter}", trimmed=False) or "")[:1] in ("1", "Y")


_CPUS = "sys/devices/system/cpu"


def read_microcode(host: Host) -> dict[str, str] | None:
    """`version` of the first processor's microcode, `0xd0003d1`; None where the kernel has none.

    Reads: sys/devices/system/cpu/cpu0/microcode/version  (kernel ABI/testing/sysfs-devices-system-cpu)
    """
    version = host.value(f"{_CPUS}/cpu0/microcode/version")
    return {"version": version} if version else None


def read_vulnerabilities(host: Host) -> dict[str, str] | None:
    """What the kernel says of each vulnerability, in its words: `Not affected`, `Mitigation: …`, `Vulnerable …`.

    Reads: sys/devices/system/cpu/vulnerabilities/*  (kernel admin-guide/hw-vuln)
    Absent: None for a kernel without that directory.
    """
    folder = f"{_CPUS}/vulnerabilities"
    found = {printable(name): host.value(f"{folder}/{name}") for name in host.names(folder)}
    return {name: text for name, text in found.items() if text} or None
