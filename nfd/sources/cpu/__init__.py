"""Processors: instruction set flags, model, topology, power, cache allocation, trusted execution; options, labels.

Features `cpu.cpuid` (flags; attributes on x86), `cpu.coretype` (flags), and as attributes `cpu.model`, `cpu.topology`,
`cpu.cstate`, `cpu.pstate`, `cpu.sst`, `cpu.rdt`, `cpu.security`, `cpu.coprocessor`; names and values are NFD's. Beyond
NFD: `cpu.microcode` and `cpu.vulnerability`, for rules alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, TypeVar

from nfd.config.section import Distinct, Section
from nfd.errors import HostError
from nfd.features import Features, Labels
from nfd.host import DENIED, Host
from nfd.source import Partial, Source
from nfd.sources.cpu import cpuid_flags, hwcap, power, procinfo, rdt, riscv, security, topology
from nfd.sources.cpu.cpuid import EDX, PROBE, Cpuid, parse_cpuid
from nfd.sources.cpu.cpuid_instruction import read_cpuid_text
from nfd.sources.cpu.model import read_model
from nfd.sources.feature_reader import unless_denied

Attributes = Mapping[str, str]
Read = Callable[[], Attributes | None]
T = TypeVar("T")

CPUID = "cpu.cpuid"
CORE_TYPE = "cpu.coretype"
CORE_LABELS = ("cpu_atom", "cpu_core")
"""NFD's; of further kinds of cores there is the feature alone."""

_ARCHITECTURES = {
    **dict.fromkeys(("x86_64", "amd64", "i386", "i486", "i586", "i686"), "x86"),
    **dict.fromkeys(("aarch64", "arm64"), "arm64"),
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    **dict.fromkeys(("riscv32", "riscv64"), "riscv"),
    "loongarch64": "loongarch",
}
_NX_GZIP = "sys/devices/vio/ibm,compression-v1/nx_gzip_caps"


class CpuidConfig(Section):
    attribute_blacklist: Annotated[tuple[str, ...], Distinct()] = (
        *("AVX10", "BMI1", "BMI2", "CLMUL", "CMOV", "CX16", "ERMS", "F16C", "HTT", "LZCNT", "MMX", "MMXEXT", "NX"),
        *("POPCNT", "RDRAND", "RDSEED", "RDTSCP", "SGX", "SGXLC", "SSE", "SSE2", "SSE3", "SSE4", "SSE42", "SSSE3"),
        "TDX_GUEST",
    )
    """CPU flags that become no labels; not looked at when there is a whitelist."""
    attribute_whitelist: Annotated[tuple[str, ...], Distinct()] = ()
    """The only CPU flags that become labels; empty: all but those of the blacklist."""


class Config(Section):
    cpuid: CpuidConfig = CpuidConfig()
    """Which CPU flags become labels."""


def discover(host: Host, config: Config) -> Features | Partial:
    """Read the processors; docstrings of the single readers say from where.

    Absent: most things, on most machines; then the feature is there without elements.
    A feature that may not be read is empty. One that cannot be read for another reason has failed, the others stand.
    """
    arch = family_of(host.arch())
    processor = Processor(host, arch)
    flag_readers: dict[str, Callable[[], frozenset[str] | None]] = {
        CPUID: lambda: processor.flags,
        CORE_TYPE: lambda: topology.read_core_types(host),
    }
    readers: dict[str, Read] = {
        "cpu.model": lambda: read_model(host, arch, None, processor.words),
        "cpu.topology": lambda: topology.read_topology(host),
        "cpu.cstate": dict,
        "cpu.pstate": dict,
        "cpu.sst": dict,
        "cpu.rdt": dict,
        "cpu.security": lambda: security.read_s390x(host) if arch == "s390x" else {},
        "cpu.coprocessor": lambda: read_coprocessor(host) if arch == "ppc64le" else {},
        "cpu.microcode": lambda: security.read_microcode(host),
        "cpu.vulnerability": lambda: security.read_vulnerabilities(host),
    }
    if arch == "x86":
        readers |= _x86_readers(host, processor)
    failed: dict[str, str] = {}
    flags = _read_each(host, flag_readers, frozenset[str](), failed)
    features = Features(flags, _read_each(host, readers, dict[str, str](), failed))
    return Partial(features, failed) if failed else features


def _read_each(
    host: Host, readers: Mapping[str, Callable[[], T | None]], denied: T, failed: dict[str, str]
) -> dict[str, T]:
    """What each reader gives; `failed` gets the reason of each that fails."""
    found: dict[str, T] = {}
    for name, read in readers.items():
        try:
            elements = unless_denied(host, read, denied)
        except HostError as error:
            failed[name] = str(error)
            continue
        if elements is not None:
            found[name] = elements
    return found


class Processor:
    """What several features derive from. It is read when the first of them asks, and an error is that of each."""

    def __init__(self, host: Host, arch: str) -> None:
        self._host = host
        self._arch = arch

    @cached_property
    def cpuid(self) -> Cpuid:
        """Of an x86 processor alone."""
        return read_cpuid(self._host)

    @cached_property
    def words(self) -> Mapping[str, int]:
        """Hardware capabilities, which RISC-V has for letters alone, and x86 not at all."""
        return {} if self._arch == "riscv" else hwcap.read_hwcap(self._host, self._arch)

    @cached_property
    def flags(self) -> frozenset[str]:
        """What all processors have."""
        if self._arch == "x86":
            return cpuid_flags.derive_flags(self.cpuid)
        return riscv.read_flags(self._host) if self._arch == "riscv" else hwcap.derive_flags(self.words, self._arch)


def family_of(machine: str) -> str:
    """What uname(2) calls the machine, in one word for all that are alike; 32-bit ARM has a name for each version."""
    return _ARCHITECTURES.get(machine) or ("arm" if machine.startswith("arm") else "")


def _x86_readers(host: Host, processor: Processor) -> dict[str, Read]:
    return {
        CPUID: lambda: cpuid_flags.derive_avx10(processor.cpuid, processor.flags),
        "cpu.model": lambda: read_model(host, "x86", processor.cpuid, {}),
        "cpu.cstate": lambda: power.read_cstate(host),
        "cpu.pstate": lambda: power.read_pstate(host),
        "cpu.sst": lambda: power.read_sst(host, processor.cpuid),
        "cpu.rdt": lambda: rdt.read_rdt(host, processor.cpuid),
        "cpu.security": lambda: security.read_x86(host, processor.cpuid, processor.flags),
    }


def read_cpuid(host: Host) -> Cpuid:
    """The processor's own answer; where policy denies it or a recording lacks it, the part that is in proc/cpuinfo."""
    try:
        text, reason = host.probe(PROBE, read_cpuid_text), "not there"
    except HostError as error:
        if error.errno not in DENIED:
            raise
        text, reason = None, error.reason
    if text is not None:
        cpuid = parse_cpuid(text)
        hybrid = cpuid.has(7) and cpuid.bit(7, EDX, 15)
        return procinfo.derive_level(cpuid, host.value(procinfo.PATH) or "") if hybrid else cpuid
    cpuid = procinfo.derive_cpuid(host.value(procinfo.PATH) or "")
    host.note(PROBE, f"{reason}: flags and model are derived from {procinfo.PATH}")
    return cpuid


def read_coprocessor(host: Host) -> Attributes:
    """`nx_gzip` if the POWER accelerator is there (kernel drivers/crypto/nx)."""
    return {"nx_gzip": "true"} if host.exists(_NX_GZIP) else {}


def labels(features: Features, config: Config) -> Labels:
    """Flags that the configuration lets through; attributes by value, but for counts.

    Labels:
        cpuid.<flag> = true: the processor has the feature, and the kernel lets programs use it
        cpuid.<name> = number: a property with a value, such as `cpuid.AVX10_VERSION`
        cpu_core = true: a hybrid processor has performance cores
        cpu_atom = true: a hybrid processor has efficiency cores
        model.vendor_id = text: who made the processor, such as `Intel`, `AMD`, `ARM`
        model.family = number: the processor's family
        model.id = number: the processor's model within its family
        model.hypervisor = text: the hypervisor that the machine runs on, `none` without one
        hardware_multithreading = true, false: whether a core runs several threads
        cstate.enabled = true, false: whether the driver intel_idle may enter idle states
        pstate.status = active, passive: mode of the driver intel_pstate
        pstate.turbo = true, false: whether turbo frequencies are allowed
        pstate.scaling_governor = text: the scaling governor, if all CPUs have the same
        power.sst_bf.enabled = true: Speed Select Base Frequency is in use
        coprocessor.nx_gzip = true: the POWER accelerator for gzip is there
        security.sgx.enabled = true: SGX is switched on
        security.se.enabled = true: IBM Secure Execution is switched on
        security.tdx.enabled = true: the host can start TDX guests
        security.tdx.protected = true: this machine is a TDX guest
        security.sev.enabled = true: the host can start SEV guests
        security.sev.es.enabled = true: the host can start SEV-ES guests
        security.sev.snp.enabled = true: the host can start SEV-SNP guests
    """
    flagged = (name for name in sorted(features.flags.get(CPUID, ())) if _is_wanted(name, config.cpuid))
    return {
        **{f"cpuid.{name}": "true" for name in flagged},
        **dict.fromkeys((name for name in CORE_LABELS if name in features.flags.get(CORE_TYPE, ())), "true"),
        **dict(_attribute_labels(features.attributes)),
    }


def _is_wanted(flag: str, config: CpuidConfig) -> bool:
    if config.attribute_whitelist:
        return flag in config.attribute_whitelist
    return flag not in config.attribute_blacklist


def _attribute_labels(attributes: Mapping[str, Attributes]) -> Iterator[tuple[str, str]]:
    for name in ("cpuid", "model", "cstate", "pstate", "security", "coprocessor"):
        for element, value in attributes.get(f"cpu.{name}", {}).items():
            if element not in security.NUMBERS:
                yield f"{name}.{element}", value
    for element, value in attributes.get("cpu.sst", {}).items():
        yield f"power.sst_{element}", value
    if threads := attributes.get("cpu.topology", {}).get("hardware_multithreading"):
        yield "hardware_multithreading", threads


SOURCE = Source("cpu", Config, discover, labels, wakes=frozenset({"cpu", "module"}))
