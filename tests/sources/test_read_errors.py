"""A file that cannot be read does not show that a feature is gone: each file that a pass reads, with each error."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from nfd import sources
from nfd.discovery import Discovery, Plan, discover
from nfd.features import Features
from nfd.host import DENIED, NOT_NOW
from nfd.source import Source
from nfd.sources import BUILT_IN, cpu
from tests.cases_hosts.layout import CASES, lay_out
from tests.sources.hosts import Failing, make_host

HOSTS = Path(__file__).parents[1] / "hosts"
MACHINES = sorted(path.parent.name for path in HOSTS.glob("*/expected"))
ARCH = "proc/sys/kernel/arch"
"""Where a recording has the architecture, for which a live machine has a system call."""
MADE = (
    "cpu-sst-bf-on",
    "epyc-milan-sev-snp",
    "power10-nx",
    "sapphire-rapids-tdx-host",
    "z15-kvm-secure-guest-host",
)
"""Machines with parts of the source `cpu` that no recording has."""
RISCV = {
    ARCH: "riscv64\n",
    "proc/cpuinfo": "processor : 0\nisa : rv64imafdc_zba\nmvendorid : 0x489\n",
    "sys/devices/virtual/dmi/id/sys_vendor": "QEMU\n",
}
ERRORS = (errno.EIO, errno.ENOTCONN, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.EMFILE)
"""What a crashed FUSE server, a lost mount, a device and this process answer."""


@contextmanager
def opened(folder: Path) -> Iterator[Failing]:
    host = Failing(folder, NODE_NAME="node")
    try:
        yield host
    finally:
        host._tree.close()


def passes(host: Failing, known: tuple[Source, ...], code: int) -> Iterator[tuple[str, Discovery, Discovery]]:
    """What one pass reads, each with that pass and with the next one, in which it cannot be read."""
    plan = Plan(known, known, {source.name: source.config() for source in known})
    before = discover(host, plan)
    host.code = code
    for path in sorted(host.seen):
        host.broken = frozenset({path})
        yield path, before, discover(host, plan, before)


def lacks(found: Features, before: Features) -> set[str]:
    """Names of the features that have less than before."""
    flags = {name for name, one in before.flags.items() if not one <= found.flags.get(name, frozenset())}
    attributes = {name for name, one in before.attributes.items() if one.keys() - found.attributes.get(name, {}).keys()}
    counts = {name for name, one in before.instances.items() if len(one) > len(found.instances.get(name, ()))}
    return flags | attributes | counts


def of_feature(features: Features, name: str) -> tuple[object, ...]:
    return features.flags.get(name), features.attributes.get(name), features.instances.get(name)


def check_cpu(host: Failing, code: int) -> None:
    """Labels stay, the source has failed, and features that do not read the file are those of the new pass."""
    count = 0
    for path, before, found in passes(host, (cpu.SOURCE,), code):
        count += 1
        assert found.labels == before.labels, path
        assert "cpu" in found.failed, path
        for name in before.features.names():
            assert of_feature(found.features, name) == of_feature(before.features, name), (path, name)
    assert count


@pytest.mark.parametrize("machine", MACHINES)
def test_labels_of_the_processors_stay(machine: str) -> None:
    with opened(HOSTS / machine) as host:
        check_cpu(host, errno.EIO)


@pytest.mark.parametrize("case", MADE)
def test_labels_of_processors_that_no_recording_has_stay(case: str, tmp_path: Path) -> None:
    lay_out(yaml.safe_load((CASES / f"{case}.yaml").read_text()), tmp_path)
    with opened(tmp_path) as host:
        check_cpu(host, errno.ENOTCONN)


def test_labels_of_riscv_stay(tmp_path: Path) -> None:
    make_host(tmp_path, RISCV)
    with opened(tmp_path) as host:
        check_cpu(host, errno.EIO)


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
def test_whatever_the_error_is(code: int) -> None:
    with opened(HOSTS / "arch-alder-lake") as host:
        check_cpu(host, code)


@pytest.mark.parametrize("code", sorted(DENIED | NOT_NOW), ids=errno.errorcode.get)
@pytest.mark.parametrize("machine", ["arch-alder-lake", "ubuntu-24.04-sapphire-rapids", "qemu-cortex-a72"])
def test_an_answer_of_policy_or_driver_is_no_error(machine: str, code: int) -> None:
    """Otherwise the source would fail for ever on a machine in good order."""
    with opened(HOSTS / machine) as host:
        for path, _, found in passes(host, (cpu.SOURCE,), code):
            assert path.endswith("/") or path in ("auxv", "cpuid") or not found.failed, path


@pytest.mark.parametrize("machine", ["arch-alder-lake", "dgx-a100", "raspberry-pi-4-xen", "rhel-9.4-cascade-lake"])
def test_no_source_removes_a_label_or_feature(machine: str) -> None:
    with opened(HOSTS / machine) as host:
        for path, before, found in passes(host, sources.known(), errno.EIO):
            removed = {before.origins[key] for key in before.labels.keys() - found.labels.keys()}
            assert removed <= found.doubtful, path
            assert not lacks(found.features, before.features), path


@pytest.mark.parametrize("source", BUILT_IN, ids=lambda source: source.name)
def test_an_error_in_a_first_pass_costs_one_feature(source: Source) -> None:
    """There is no last good result then."""
    plan = Plan((source,), (source,), {source.name: source.config()})
    with opened(HOSTS / "rhel-9.4-cascade-lake") as host:
        before = discover(host, plan).features
        host.code = errno.EIO
        for path in sorted(host.seen - {ARCH}):
            host.broken = frozenset({path})
            found = discover(host, plan)
            failed = found.failed.get(source.name, "")
            for name in before.names():
                assert name in failed or of_feature(found.features, name) == of_feature(before, name), (path, name)
