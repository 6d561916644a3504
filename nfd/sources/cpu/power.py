"""`cpu.cstate`, `cpu.pstate` and `cpu.sst`: idle states, frequency scaling and Speed Select of x86 processors."""

from __future__ import annotations

import errno

from nfd.errors import HostError
from nfd.host import Host
from nfd.host.blanks_and_numbers import parse_decimal
from nfd.sources.cpu.cpuid import EAX, Cpuid
from nfd.sources.cpu.topology import DEVICES

_CPU = "sys/devices/system/cpu"
_PSTATE = f"{_CPU}/intel_pstate"
_CPUFREQ = f"{_CPU}/cpufreq"
_MAX_CSTATE = "sys/module/intel_idle/parameters/max_cstate"


def read_cstate(host: Host) -> dict[str, str] | None:
    """Element `enabled`, for the intel_idle driver alone; None if its files are invalid.

    Reads: sys/devices/system/cpu/cpuidle/current_driver (kernel admin-guide/pm/cpuidle.rst),
    sys/module/intel_idle/parameters/max_cstate (admin-guide/pm/intel_idle.rst)
    """
    if not host.exists(_CPU):
        return None
    if not host.exists(f"{_CPU}/cpuidle"):
        return {}
    driver = host.value(f"{_CPU}/cpuidle/current_driver")
    if driver is None:
        return None
    if driver != "intel_idle":
        return {}
    deepest = _integer(host, _MAX_CSTATE, host.value(_MAX_CSTATE) or "")
    return None if deepest is None else {"enabled": str(deepest > 0).lower()}


def read_pstate(host: Host) -> dict[str, str]:
    """Elements `status`, `turbo` and, in active mode, `scaling_governor`; none without the intel_pstate driver.

    Reads: sys/devices/system/cpu/intel_pstate/{status,no_turbo} (kernel admin-guide/pm/intel_pstate.rst), cpufreq/
    """
    if not host.exists(_PSTATE):
        return {}
    status = host.value(f"{_PSTATE}/status")
    if status is None or status == "off":
        return {}
    found = {"status": status}
    if no_turbo := host.value(f"{_PSTATE}/no_turbo", trimmed=False):
        found["turbo"] = str(no_turbo[0] == "0").lower()
    if status == "active" and (governor := _common_governor(host)) is not None:
        found["scaling_governor"] = governor
    return found


def read_sst(host: Host, cpuid: Cpuid) -> dict[str, str]:
    """`bf.enabled` if some CPU's base frequency is above the nominal one (Speed Select Base Frequency).

    Not read where the processor does not report the nominal frequency (leaf 16 EAX, MHz), since the kernel
    interrupts each CPU to read its own.

    Reads: sys/bus/cpu/devices/cpu*/cpufreq/base_frequency (kHz, kernel admin-guide/pm/intel_pstate.rst)
    """
    nominal = cpuid.registers(0x16)[EAX]
    if not nominal:
        return {}
    for name in host.names(DEVICES):
        path = f"{DEVICES}/{name}/cpufreq/base_frequency"
        text = _frequency_value(host, path)
        if text is None:
            continue
        base = _integer(host, path, text)
        if base is None:
            return {}
        if base // 1000 > nominal:
            return {"bf.enabled": "true"}
    return {}


def _common_governor(host: Host) -> str | None:
    """The governor that all policies in use agree on; None if there is none."""
    common = ""
    for policy in host.names(_CPUFREQ):
        path = f"{_CPUFREQ}/{policy}"
        governor = _frequency_value(host, f"{path}/scaling_governor")
        if governor in (None, common) or not _frequency_value(host, f"{path}/affected_cpus"):
            continue
        if common:
            host.note(_CPUFREQ, f"policies disagree on the governor: {common!r}, {governor!r}")
            return None
        common = governor
    return common or None


def _frequency_value(host: Host, path: str) -> str | None:
    """A file of a cpufreq policy. If all CPUs of the policy are offline, the kernel answers EBUSY (Linux,
    drivers/cpufreq/cpufreq.c, `show`).
    """
    try:
        return host.value(path)
    except HostError as error:
        if error.errno != errno.EBUSY:
            raise
        return None


def _integer(host: Host, path: str, text: str) -> int | None:
    number = parse_decimal(text)
    if number is None:
        host.note(path, f"{text[:40]!r} is not an integer")
    return number
