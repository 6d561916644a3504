"""What the machine and those who live on it say: files of /proc, /sys and /etc, and feature files."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from nfd import labels as naming
from nfd.errors import HostError
from nfd.features import Features
from nfd.host.blanks_and_numbers import BLANK
from nfd.labels import Naming
from nfd.sources import cpu, kernel, local, system
from nfd.sources.cpu import cpuid_flags, hwcap, model, procinfo, topology
from nfd.sources.cpu.cpuid import parse_cpuid
from nfd.sources.kernel import kconfig
from nfd.sources.local import featurefile
from tests.fuzz import legal
from tests.fuzz.mutate import Bytes, below, pick
from tests.fuzz.target import Made, Target, check

HOSTS = Path(__file__).parents[2] / "hosts"
NOW = 1.7e9


def recorded(pattern: str, longest: int = 3000) -> Callable[[], Sequence[bytes]]:
    """The different files of that name on recorded machines, each cut at a length."""
    return lambda: sorted({path.read_bytes()[:longest] for path in HOSTS.glob(f"*/{pattern}")}) or [b""]


def labelled(source: str, found: Mapping[str, str], *, free: bool = False) -> Made:
    """The labels that a source's become; `free` is for those whose names a user chooses."""
    derived = naming.derive(Naming(source, free, free), found)
    legal.check_labels(derived.labels)
    return f"{len(derived.labels)} labels, {len(derived.problems)} problems", (derived.labels, derived.problems)


def text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def run_feature_file(data: bytes) -> Made:
    entries = featurefile.parse(text(data), NOW)
    found = Features(attributes={local.LABEL: entries.labels, local.FEATURE: entries.features})
    kind, made = labelled("local", local.labels(found, local.SOURCE.config()), free=True)  # type: ignore[arg-type]
    check(len(entries.labels) <= data.count(b"\n") + 1, "one entry a line")
    return f"{kind} {len(entries.notes)}", (made, entries.features, entries.notes)


def run_os_release(data: bytes) -> Made:
    fields, whole = system.parse_os_release(data)
    found = fields | system.split_version(fields.get("VERSION_ID", ""))
    kind, made = labelled(
        "system", system.labels(Features(attributes={system.OS_RELEASE: found}), system.SOURCE.config())
    )
    return f"{kind} {len(fields)} {whole}", (made, found)


def run_release(data: bytes) -> Made:
    parts = kernel.parse_release(text(data).strip())
    return labelled("kernel", {f"version.{name}": value for name, value in parts.items() if value})


def run_kconfig(data: bytes) -> Made:
    return _options(kconfig.parse_options(data))


def run_kconfig_gz(data: bytes) -> Made:
    return _options(kconfig.parse_compressed(data))


def _options(options: Mapping[str, str]) -> Made:
    wanted = kernel.Config(config_opts=("NO_HZ", "PREEMPT", *list(options)[:5]))
    kind, made = labelled("kernel", kernel.labels(Features(attributes={kernel.CONFIG: options}), wanted))  # type: ignore[arg-type]
    return f"{kind} {len(options)}", (made, options)


def zipped() -> Sequence[bytes]:
    return [gzip.compress(one, mtime=0) for one in recorded("boot/config-*", 1500)()[:8]]


def changed_inside(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """A gzip file with changed bytes, or of changed bytes, or of very many."""
    if chance.random() < 0.5:
        return Bytes()(chance, corpus)
    if chance.random() < 0.001:
        return gzip.compress(bytes(24 << 20), 1, mtime=0)
    try:
        inner = zlib.decompress(pick(chance, corpus), zlib.MAX_WBITS | 16)
    except zlib.error:
        inner = b"CONFIG_A=y\n"
    return gzip.compress(CONFIG_BYTES(chance, (inner,)), 1, mtime=0)


def run_cpuinfo(data: bytes) -> Made:
    shown = text(data)
    cpuid = procinfo.derive_cpuid(shown)
    kind, made = _processor(
        cpuid_flags.derive_flags(cpuid),
        {"family": str(cpuid.family), "id": str(cpuid.model), "vendor_id": cpuid.vendor},
    )
    others = [hwcap.derive_flags(procinfo.derive_hwcap(shown, arch), arch) for arch in ("arm64", "s390x", "ppc64le")]
    return kind, (made, others, model.parse_s390x(shown))


def run_cpuid(data: bytes) -> Made:
    cpuid = parse_cpuid(text(data))
    found = cpuid_flags.derive_flags(cpuid)
    return _processor(
        found,
        {"vendor_id": cpuid.vendor}
        | {f"avx10-{key}": value for key, value in cpuid_flags.derive_avx10(cpuid, found).items()},
    )


def _processor(found: frozenset[str], about: Mapping[str, str]) -> Made:
    features = Features(flags={cpu.CPUID: found}, attributes={"cpu.model": about})
    kind, made = labelled("cpu", cpu.labels(features, cpu.Config()))
    return f"{kind} {len(found)}", (made, sorted(found))


def run_auxv(data: bytes) -> Made:
    words = hwcap.parse_hwcap(text(data))
    check(all(0 <= word < 2**64 for word in words.values()), "words have 64 bits")
    return f"{len(words)}", [sorted(hwcap.derive_flags(words, arch)) for arch in ("arm64", "arm", "s390x", "ppc64le")]


def run_modules(data: bytes) -> Made:
    loaded, builtin = kernel.parse_loaded(text(data)), kernel.parse_builtin(data)
    check(all(name and not set(name) & set(BLANK) for name in loaded), "a module is one word")
    return f"{len(loaded)} {len(builtin)}", (loaded, builtin)


def run_ranges(data: bytes) -> Made:
    ranges = topology.parse_ranges(text(data))
    return f"{len(ranges)}", ranges


def some_cpuid() -> Sequence[bytes]:
    """Recorded processors, some leaves of each."""
    chance = Random(1)
    lines = [one.splitlines() for one in recorded("cpuid", 1 << 20)()]
    return [b"\n".join(line for line in file if below(chance, 4)) for file in lines]


CONFIG_BYTES = Bytes("CONFIG_", "CONFIG_NO_HZ=", "CONFIG_PREEMPT=y", "# CONFIG_A is not set", '="', "=m", "=y", "\r\n")
FEATURES = (
    b"# a comment\nkey\nkey-2=value\nvendor.io/key=value\n# +no-label\nonly.feature=1\n# +no-feature\nonly.label=2\n",
    b"# +expiry-time=2030-01-31T12:00:00Z\nlive=1\n# +expiry-time=2001-01-31T12:00:00+01:00\ndead=1\n",
    b"\xef\xbb\xbfbom=1\r\n# +expiry-time=now\n# +nonsense\na=b=c\n",
)

TARGETS = (
    Target(
        "features.d",
        "feature files",
        lambda: FEATURES,
        Bytes(
            "# +",
            "# +expiry-time=",
            "# +no-label",
            "# +no-feature",
            "9999-12-31T23:59:59.9Z",
            "0001-01-01T00:00:00+23:59",
            "T24:00:00Z",
            "2030-02-30T12:00:60Z",
            "kubernetes.io/",
            "=true",
        ),
        run_feature_file,
    ),
    Target(
        "os-release",
        "etc/os-release",
        recorded("etc/os-release"),
        Bytes("VERSION_ID=", "ID=", '"', "VERSION_ID=v1.2", "=" + "9" * 70_000, longest=70_000),
        run_os_release,
    ),
    Target(
        "kernel-release",
        "proc/sys/kernel/osrelease",
        recorded("proc/sys/kernel/osrelease"),
        Bytes("6.1", "-", "+", "~"),
        run_release,
    ),
    Target("kernel-config", "the kernel's configuration", recorded("boot/config-*", 1500), CONFIG_BYTES, run_kconfig),
    Target("kernel-config-gz", "proc/config.gz", zipped, changed_inside, run_kconfig_gz, (ValueError,)),
    Target(
        "cpuinfo",
        "proc/cpuinfo",
        recorded("proc/cpuinfo", 1600),
        Bytes(
            "flags\t\t: ",
            "Features\t: ",
            "vendor_id\t: GenuineIntel",
            "cpu family\t: ",
            "siblings\t: ",
            "cpu cores\t: 0",
            "\n\n",
            "processor 0: version = FF",
        ),
        run_cpuinfo,
    ),
    Target(
        "cpuid",
        "recorded CPUID",
        some_cpuid,
        Bytes("xcr0 ", "0x", "ffffffff", "#", "00000007 0 ", "80000000 0 "),
        run_cpuid,
        (HostError,),
    ),
    Target(
        "auxv",
        "recorded capability words",
        recorded("auxv"),
        Bytes("HWCAP ", "HWCAP2 0x", "ffffffffffffffff", "#"),
        run_auxv,
        (HostError,),
    ),
    Target(
        "modules",
        "proc/modules, modules.builtin",
        recorded("proc/modules", 1200),
        Bytes(".ko", "kernel/a/b.ko\n", "nvidia 1 0 - Live 0x0 (POE)"),
        run_modules,
    ),
    Target("cpu-list", "lists of CPUs", lambda: (b"0-3,8", b"0", b"0-1,2-3\n"), Bytes("-", ",", "0-"), run_ranges),
)
