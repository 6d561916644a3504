"""What identifies is replaced, one to one; what is known to be harmless stays."""

from __future__ import annotations

import ipaddress
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.host import Host
from nfd.host.identifiers import Identifying
from nfd.host.pseudonyms import Pseudonyms, _nth_v4
from nfd.host.record import Recorder
from nfd.host.replay import Replay
from nfd.host.scrub_files import Scrubber

PEM = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ2\nZ3V0ZW4gVGFn\n-----END CERTIFICATE-----"
ANYWHERE = [  # a text, and what of it must not be left; in whatever file
    ("00:1b:21:aa:bb:cc", "1b:21:aa"),
    ("00-1B-21-AA-BB-CC", "1B-21-AA"),
    ("001b.21aa.bbcc", "21aa"),
    ("80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:a1:b2:c3", "c9:03:00"),
    ("0002:c903:00a1:b2c3", "c903"),
    *((f"{prefix}x001b21aabbcc", "1b21aabbcc") for prefix in ("en", "wl", "ww", "ib", "eth", "sl")),
    *((f"{prefix}x0002c90300a1b2c3", "c90300a1") for prefix in ("ib", "roce", "iw", "opa")),
    ("GPU-4c4c4544-0042-3510-8052-b4c04f4e3733", "4c4c4544"),
    ("MIG-4C4C4544-0042-3510-8052-B4C04F4E3733", "4C4C4544"),
    ("3f2a77c1aa0e4f7fb1d2f3a4b5c6d7e8", "3f2a77c1"),
    ("0x5000c500a1b2c3d4", "c500a1b2"),
    ("naa.5000c500a1b2c3d4", "c500a1b2"),
    ("eui.0025385b71b0ab12", "385b71b0"),
    ("iqn.1993-08.org.debian:01:a1b2c3d4e5", "a1b2c3d4"),
    ("nqn.2014.08.org.nvmexpress:uuid:web-7", "web-7"),
    ("10.20.30.40", "20.30"),
    ("fd00:1:2::77", "1:2::77"),
    ("2001:470:1:2:3:4:5:6", "2001:470"),
    ("::ffff:10.20.30.40", "20.30"),
    ("ip-10-20-30-40", "20-30"),
    ("node-10-20-30-40.local", "20-30"),
    ("10_20_30_40", "20_30"),
    ("i-0abcd1234ef567890", "0abcd1234"),
    ("aws:///eu-west-1a/i-0abcd1234ef567890", "0abcd1234"),
    ("gce://project-7/zone/worker-x1", "project-7"),
    ("ocid1.instance.oc1.phx.abyhqljt7", "abyhqljt7"),
    ("eyJhbGciOiJSUzI1.eyJpc3MiOiJrdWJl.c2lnbmF0dXJl", "eyJpc3MiOiJrdWJl"),
    ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F"),
    ("sha256~Vx2kPp9sT1bQ", "Vx2kPp9s"),
    ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN"),
    ("abcdef.0123456789abcdef", "0123456789"),
    ("a1b2c3.0123456789abcdef", "a1b2c3"),
    ("https://bob:hunter2@host/x", "hunter2"),
    ("Authorization: Basic Ym9iOmh1bnRlcjI=", "Ym9iOmh1"),
    ("Bearer s3cr3tOpaque", "s3cr3t"),
    ("ops@corp.example", "ops@corp"),
    ("/home/alice/driver", "alice"),
    (PEM, "MIIBszCC"),
    ("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t", "BDRVJUSUZJ"),
    ("password=hunter2", "hunter2"),
    ("DB_PASSWD: 'a b c d e'", "a b c d e"),
    ("api-key = abcdefg", "abcdefg"),
    ('"serial": "1322621064404"', "1322621064404"),
    ("Serial Number: 7XK2M13", "7XK2M13"),
    ("serial number 7XK2M13", "7XK2M13"),
    ("asset_tag=AB-12345", "AB-12345"),
    ("machineID: web7", "web7"),
    ("wwn=naa-7q", "7q"),
]
WRITTEN_BY_PEOPLE = [
    ("id=7XK2M13P9", "7XK2M13P9"),
    ("build=7d4b9c6f5d", "7d4b9c6f5d"),
    ("owner=001b21aabbcc", "1b21aabbcc"),
    ("x=1322621064404", "1322621064404"),
    ("x=dGhpcyBpcyBhIHNlY3JldCBrZXk=", "dGhpcyBpcyBh"),
]
HARMLESS = [
    "0000:3b:00.0",
    "0x10de",
    "pci-0302_10de.present=true",
    "driver-version=35.0.14.7",
    "nvidia.com/cuda.driver-version.full: 550.54.14.1",
    "driver 31.0.15.12",
    "firmware_version: '22.31.10.14'",
    "v1.2.3.4",
    "6.8.0-45-generic",
    "2026-11-28T03:04:14Z",
    "03:04:14",
    "127.0.0.1",
    "::1",
    "nvidia.com/gpu.memory=81559",
    "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3",
    "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
    "feature.node.kubernetes.io/cpu-cpuid.AVX512VBMI2=true",
    "cpu-model.id=143",
    "enp193s0f0np0",
    "nvme0n1p1",
    "mlx5_0",
    "x86-64-v4",
    "PreferNoSchedule",
    "nfd.k8s-sigs.io/v1alpha1",
    "image@sha256:" + "0123456789abcdef" * 4,
    "v0.19.0-12-g1a2b3c4",
    "timestamp=1718000000",
    "memory=1081101176832",
    "password=true",
    "token-file=/var/run/secrets/token",
    "serial: 0000000000",
    "motto=the_quick-brown.fox",
]


@pytest.mark.parametrize(("text", "secret"), ANYWHERE, ids=lambda one: one[:30])
def test_what_identifies_is_replaced_whoever_wrote_it(text: str, secret: str) -> None:
    for clean in (
        Identifying(Pseudonyms()),
        Identifying(Pseudonyms(), free=True),
        Identifying(Pseudonyms(), free=True, strict=True),
        Identifying(Pseudonyms(), free=True, names={"n1": "node-1"}),
    ):
        for around in ("{}", 'a="{}"', "x {} y", "\t- {}\n", "({})", "nodes/{}/x"):
            assert secret not in clean.text(around.format(text))


@pytest.mark.parametrize(("text", "secret"), WRITTEN_BY_PEOPLE)
def test_what_looks_made_up_is_replaced_where_people_write(text: str, secret: str) -> None:
    assert secret not in Identifying(Pseudonyms(), free=True, strict=True).text(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_harmless_stays(text: str) -> None:
    for options in ({}, {"free": True}, {"free": True, "strict": True}, {"free": True, "names": {"n1": "node-1"}}):
        assert Identifying(Pseudonyms(), **options).text(text) == text  # type: ignore[arg-type]


HOSTS = ["db7.corp.internal", "registry.acme.io:5000/nfd", "https://api.acme.com:6443", "n1.dc.acme.de", "web.co.id"]


@pytest.mark.parametrize("text", HOSTS)
def test_hosts_go_with_names(text: str) -> None:
    names = Identifying(Pseudonyms(), free=True, names={})
    assert not re.search("acme|corp|web", names.text(text))
    assert Identifying(Pseudonyms(), free=True).text(text) == text


V4 = st.ip_addresses(v=4).map(str)
V6 = st.ip_addresses(v=6).map(str)
HEX = st.text("0123456789abcdef", min_size=12, max_size=12)
MACS = HEX.map(lambda digits: ":".join(digits[at : at + 2] for at in range(0, 12, 2)))
SERIALS = st.text("ABCXYZ0123456789-", min_size=4, max_size=12).map(lambda text: f"serial={text}")
SHORT = st.text("abcdefghmny", min_size=1, max_size=2).map(lambda text: f"password={text}")


@pytest.mark.parametrize("values", [V4, V6, MACS, SERIALS, SHORT, st.one_of(V4, V6, MACS, SERIALS)])
def test_replacements_are_one_to_one(values: st.SearchStrategy[str]) -> None:
    @given(st.lists(values, min_size=2, max_size=60))
    def check(texts: list[str]) -> None:
        clean = Identifying(Pseudonyms(), free=True)
        fresh = {text: clean.text(text) for text in texts}
        assert len(set(fresh.values())) == len(fresh)
        assert {text: clean.text(text) for text in reversed(texts)} == fresh

    check()


def test_however_many_addresses_there_are() -> None:
    """More than the ranges for documentation have; none is one that somebody may have."""
    clean = Identifying(Pseudonyms())
    texts = [str(ipaddress.IPv4Address(0x0A000000 + number)) for number in range(2_000)]
    fresh = clean.text(" ".join(texts)).split()
    assert len(set(fresh)) == len(texts)
    numbers = [*range(1, 2_000), *range(131_000, 133_000), 1_000_000, 200_000_000]
    several = [_nth_v4(number) for number in numbers]
    assert len(set(several)) == len(several)
    assert not any(one.is_global for one in (*map(ipaddress.ip_address, fresh), *several))


def test_one_address_in_all_its_forms_becomes_one() -> None:
    clean = Identifying(Pseudonyms(), free=True)
    forms = ["00:1b:21:aa:bb:cc", "00-1b-21-aa-bb-cc", "001b.21aa.bbcc", "enx001b21aabbcc", "wlx001b21aabbcc"]
    fresh = [re.sub(r"^\w{2}x|\W", "", clean.text(form)) for form in forms]
    assert len(set(fresh)) == 1
    assert clean.text("10.1.2.3").replace(".", "-") == clean.text("ip-10-1-2-3").removeprefix("ip-")


@given(st.text(max_size=300), st.booleans())
def test_whatever_is_written_can_be_read(text: str, free: bool) -> None:
    """No text takes long, is cut, or is another one the second time."""
    clean = Identifying(Pseudonyms(), free=free)
    assert clean.text(text) == clean.text(text)


UNITS = (
    *("-eyJ", "eyJa-", "eyJ_", "-eyJaaaaaaaa.", "eyJ.", "-eyJ.aaaaaaaa."),
    *("a", "a.", "1.", "a-", "1-", ":", "x@", "eyJ", "/home/", "serial", "serial ", "a:", "0x1", "://a"),
    "-----BEGIN A-----",
)


@pytest.mark.parametrize("unit", UNITS)
def test_no_text_takes_long(unit: str) -> None:
    """Four times the text takes some four times as long, not sixteen times."""
    clean, took = Identifying(Pseudonyms(), free=True, names={}), []
    for size in (250_000, 1_000_000):
        began = time.process_time()
        clean.text(unit * (size // len(unit)))
        took.append(time.process_time() - began)
    assert took[1] < 10 * max(took[0], 0.01)


FEATURES = """\
# +expiry-time=2999-01-01T00:00:00Z
feature.node.kubernetes.io/tier=gold
vendor.example/gpu=A100-SXM4-80GB
vendor.example/driver-version=550.54.14.1
serial=1570920000123
db-password=hunter2
token=abc
gateway=10.1.2.3
switch=00:1b:21:aa:bb:cc
chassis=7XK2M13P9
count=16
enabled
"""
SECRETS = ("1570920000123", "hunter2", "=abc", "10.1.2.3", "1b:21:aa", "7XK2M13P9")
FOLDER = "etc/kubernetes/node-feature-discovery"


PLACES = (f"{FOLDER}/features.d/x", f"{FOLDER}/custom.d/x", "opt/vendor/facts", "etc/vendor.conf")


@pytest.mark.parametrize("path", PLACES)
def test_files_that_people_write(path: str, tmp_path: Path) -> None:
    """What is harmless stays, in the places where it was, so that it gives the same labels."""
    file = tmp_path / "machine" / path
    file.parent.mkdir(parents=True)
    file.write_text(FEATURES)
    recorder = Recorder(Host(tmp_path / "machine"))
    recorder.data(path)
    recorder.write(tmp_path / "out")
    text = Replay(tmp_path / "out").text(path) or ""
    assert [secret for secret in SECRETS if secret in text] == []
    lines, before = text.splitlines(), FEATURES.splitlines()
    assert [line.partition("=")[0] for line in lines] == [line.partition("=")[0] for line in before]
    same = [line for line, other in zip(lines, before, strict=True) if line == other]
    assert same == [*before[:4], "count=16", "enabled"]


@pytest.mark.parametrize("packed", [True, False])
def test_a_kernels_configuration_keeps_all_but_what_people_wrote(packed: bool) -> None:
    import gzip

    kept = 'CONFIG_SERIAL_8250=y\nCONFIG_SECRETMEM=y\nCONFIG_LOCALVERSION="-1a2b3c4d5e6f"\nCONFIG_NR_CPUS=8192\n'
    data = (kept + 'CONFIG_CMDLINE="ip=10.1.2.3 password=hunter2 quiet"\n').encode()
    path = "proc/config.gz" if packed else "boot/config-6.1"
    scrub = Scrubber()
    found = scrub.file(path, gzip.compress(data) if packed else data)
    text = (gzip.decompress(found) if packed else found).decode()
    assert text.startswith(kept)
    assert "quiet" in text
    assert not re.search("10.1.2.3|hunter2", text)
    same = gzip.compress(kept.encode())
    assert scrub.file("proc/config.gz", same) == same
