"""Kernel version, configuration, modules, SELinux and KVM."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd import names
from nfd.host import MAX_FILE
from nfd.host.blanks_and_numbers import BLANK
from nfd.sources import kernel
from nfd.sources.kernel import kconfig
from tests.sources.hosts import labels_of, make_host, scan

RELEASE = {"proc/sys/kernel/osrelease": "6.1.0-18-amd64\n"}


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("6.2.3", ("6.2.3", "6", "2", "3")),
        ("6.0.0-beta", ("6.0.0-beta", "6", "0", "0")),
        ("6.8", ("6.8", "6", "8", None)),
        ("7", ("7", "7", None, None)),
        ("6.0.10-100+123.x86_64~", ("6.0.10-100_123.x86_64", "6", "0", "10")),
        ("5.4.51-v8+", ("5.4.51-v8", "5", "4", "51")),
        ("4.9.140-l4t-r32.3.1+g47e7e1cb0b49", ("4.9.140-l4t-r32.3.1_g47e7e1cb0b49", "4", "9", "140")),
        ("6.6.31+rpt-rpi-v8", ("6.6.31_rpt-rpi-v8", None, None, None)),
        ("6.6.87.2-microsoft-standard-WSL2", ("6.6.87.2-microsoft-standard-WSL2", None, None, None)),
        ("05.04.03", ("05.04.03", "05", "04", "03")),
        ("6.1.0 (x)", ("6.1.0__x", None, None, None)),
        ("weird", ("weird", None, None, None)),
        ("", ("", None, None, None)),
        ("+++", ("", None, None, None)),
    ],
)
def test_parts_of_the_release(release: str, expected: tuple[str | None, ...]) -> None:
    parts = kernel.parse_release(release)
    assert tuple(parts.get(name) for name in ("full", "major", "minor", "revision")) == expected


@given(st.text())
def test_every_release_gives_legal_labels(tmp_path_factory: pytest.TempPathFactory, release: str) -> None:
    files = {"proc/sys/kernel/osrelease": release.encode("utf-8", "replace")}
    found = scan(make_host(tmp_path_factory.mktemp("host"), files), kernel.SOURCE)
    assert not found.failed
    for key, value in found.labels.items():
        assert value
        assert names.key_problem(key) is None
        assert names.value_problem(value) is None


def test_the_places_of_the_configuration_in_their_order(tmp_path: Path) -> None:
    order = list(kconfig.places("/opt/own.gz", "6.1.0-18-amd64"))
    assert order[:3] == ["opt/own.gz", "proc/config.gz", "usr/src/linux-6.1.0-18-amd64/.config"]
    assert order[-1] == "boot/config-6.1.0-18-amd64"
    for path in reversed(order):
        text = f"CONFIG_NO_HZ=y\nCONFIG_PLACE={path}\n".encode()
        host = make_host(tmp_path, RELEASE | {path: gzip.compress(text) if path.endswith(".gz") else text})
        found = scan(host, kernel.SOURCE, kconfigFile="/opt/own.gz")
        assert found.features.attributes["kernel.config"]["PLACE"] == path
        assert labels_of(found, kernel.SOURCE)["config.NO_HZ"] == "true"


def test_without_a_release_only_the_places_that_need_none() -> None:
    assert list(kconfig.places("", None)) == ["proc/config.gz", "usr/src/linux/.config"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("CONFIG_A=y", {"A": "y"}),
        ("CONFIG_A=m", {"A": "m"}),
        ('CONFIG_A="gcc (x) 1"', {"A": "gcc (x) 1"}),
        ('CONFIG_A=""', {"A": ""}),
        ("CONFIG_A=b=c", {"A": "b=c"}),
        ("# CONFIG_A is not set", {}),
        (" CONFIG_A=y", {}),
        ("CONFIG_A", {}),
        ("A=y", {}),
        ("CONFIG_A=1\nCONFIG_A=2", {"A": "2"}),
    ],
)
def test_lines_of_the_configuration(line: str, expected: dict[str, str]) -> None:
    assert kconfig.parse_options(line.encode()) == expected


@given(st.binary())
def test_whatever_is_no_gzip_file_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="gzip"):
        kconfig.parse_compressed(data)


def test_a_gzip_file_is_a_series_of_members() -> None:
    first, second = gzip.compress(b"CONFIG_A=y\nCONFIG_B="), gzip.compress(b"m\n")
    assert kconfig.parse_compressed(first + second) == {"A": "y", "B": "m"}
    for rest in (b"junk", second[:-1]):
        with pytest.raises(ValueError, match="gzip file"):
            kconfig.parse_compressed(first + rest)


def test_a_decompression_bomb_is_refused() -> None:
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    bomb = packer.compress(bytes(MAX_FILE + 1)) + packer.flush()
    assert len(bomb) < MAX_FILE // 100
    with pytest.raises(ValueError, match="larger than"):
        kconfig.parse_compressed(bomb)


def test_options_get_labels_as_configured(tmp_path: Path) -> None:
    files = RELEASE | {"boot/config-6.1.0-18-amd64": 'CONFIG_HZ=250\nCONFIG_KVM=m\nCONFIG_N=n\nCONFIG_V="a b"\n'}
    found = scan(make_host(tmp_path, files), kernel.SOURCE, configOpts=["HZ", "KVM", "N", "V", "GONE"])
    config = {key: value for key, value in labels_of(found, kernel.SOURCE).items() if key.startswith("config")}
    assert config == {"config.HZ": "250", "config.KVM": "true", "config.N": "n", "config.V": "a_b"}


def test_a_damaged_configuration_keeps_the_labels(tmp_path: Path) -> None:
    host = make_host(tmp_path, RELEASE | {"proc/config.gz": gzip.compress(b"CONFIG_NO_HZ=y\n")})
    before = scan(host, kernel.SOURCE)
    make_host(tmp_path, {"proc/config.gz": gzip.compress(b"CONFIG_NO_HZ=y\n")[:-9]})
    after = scan(host, kernel.SOURCE, before)
    assert after.labels == before.labels
    assert "cut off" in after.failed["kernel"]
    assert after.lost == frozenset()


def test_the_configuration_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nfd.host.YOUNG", -1.0)
    host = make_host(tmp_path, RELEASE | {"boot/config-6.1.0-18-amd64": "CONFIG_NO_HZ=y\n"})
    first, second = (scan(host, kernel.SOURCE).features.attributes["kernel.config"] for _ in range(2))
    assert first is second


@given(st.text())
def test_whatever_the_list_of_modules_holds_is_read(text: str) -> None:
    for name in kernel.parse_loaded(text):
        assert name
        assert not any(letter in BLANK for letter in name)


def test_modules(tmp_path: Path) -> None:
    files = RELEASE | {
        "proc/modules": "ext4 1 0 - Live 0x0\n \t\n\ni2c_dev 1 0 - Live 0x0\n\r\n",
        "lib/modules/6.1.0-18-amd64/modules.builtin": "kernel/drivers/i2c/i2c-dev.ko\n  kernel/a/b.ko \nkernel/c\n",
    }
    flags = scan(make_host(tmp_path, files), kernel.SOURCE).features.flags
    assert flags == {
        "kernel.loadedmodule": {"ext4", "i2c_dev"},
        "kernel.enabledmodule": {"ext4", "i2c_dev", "i2c-dev", "b"},
    }


@pytest.mark.parametrize(
    ("files", "selinux", "kvm"),
    [
        ({}, None, "false"),
        ({"sys/fs/": ""}, "false", "false"),
        ({"sys/fs/selinux/enforce": "1"}, "true", "false"),
        ({"sys/fs/selinux/enforce": "0\n"}, "false", "false"),
        ({"sys/fs/selinux/enforce": ""}, "false", "false"),
        ({"sys/devices/virtual/misc/kvm/": ""}, None, "true"),
    ],
)
def test_selinux_and_kvm(tmp_path: Path, files: dict[str, str], selinux: str | None, kvm: str) -> None:
    found = scan(make_host(tmp_path, files), kernel.SOURCE)
    assert found.features.attributes.get("kernel.selinux", {}).get("enabled") == selinux
    assert found.features.attributes["kernel.kvm"]["enabled"] == kvm
    assert labels_of(found, kernel.SOURCE) == ({"selinux.enabled": "true"} if selinux == "true" else {})


def test_an_unreadable_release_keeps_its_labels_and_harms_nothing_else(tmp_path: Path) -> None:
    host = make_host(tmp_path, RELEASE | {"proc/modules": "ext4 1 0 - Live 0x0\n"})
    before = scan(host, kernel.SOURCE)
    file = tmp_path / "proc/sys/kernel/osrelease"
    file.unlink()
    file.mkdir()
    make_host(tmp_path, {"proc/modules": "xfs 1 0 - Live 0x0\n"})
    after = scan(host, kernel.SOURCE, before)
    assert after.labels == before.labels != {}
    assert after.features.flags["kernel.loadedmodule"] == {"xfs"}
    assert after.failed.keys() == {"kernel"}
