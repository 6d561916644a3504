"""Accelerators of all vendors: the labels that every vendor has, states, and the labels of vendors' own labellers.

Machines are made by hand, with the PCI ids of the vendors' data.
"""

from __future__ import annotations

import errno
import pkgutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from nfd.accelerators.vendors import BUILT_IN, entries, entries_of, load, parse
from nfd.source import Partial
from nfd.sources import accelerator
from tests.sources.hosts import Counting, labels_of, make_host, scan

PCI = "sys/bus/pci/devices"


def device(address: str, ids: str, driver: str = "some", kind: str = "0x120000", **files: str) -> dict[str, str]:
    vendor, _, number = ids.partition(":")
    made = {"vendor": f"0x{vendor}", "device": f"0x{number}", "class": kind, "revision": "0x00"} | files
    made["uevent"] = f"DRIVER={driver}" if driver else "PCI_CLASS=1"
    return {f"{PCI}/{address}/{name.replace('__', '/')}": f"{text}\n" for name, text in made.items()}


GAUDI = device("0000:19:00.0", "1da3:1020", "habanalabs")
MI300X = device("0000:05:00.0", "1002:74a1", "amdgpu", mem_info_vram_total=str(196592 << 20))
NPU = device("0000:00:0b.0", "8086:7d1d", "intel_vpu")
NVIDIA = device("0000:3b:00.0", "10de:2330", "nvidia", kind="0x030200")
OTHERS = {f"{PCI}/0000:00:00.0/{name}": text for name, text in (("vendor", "0x8086"), ("device", "0x1"))}
OTHERS |= {f"{PCI}/0000:00:00.0/class": "0x060000"}


def labels(tmp_path: Path, *machine: dict[str, str], **options: object) -> dict[str, str]:
    files = {path: text for part in machine for path, text in part.items()}
    return labels_of(scan(make_host(tmp_path, files), accelerator.SOURCE, **options), accelerator.SOURCE)


def test_a_mixed_node(tmp_path: Path) -> None:
    assert labels(tmp_path, GAUDI, MI300X, NPU, NVIDIA, OTHERS) == {
        "any.present": "true",
        "any.memory": "98304",
        "amd.present": "true",
        "amd.product": "AMD_Instinct_MI300X",
        "amd.count": "1",
        "amd.memory": "196592",
        "amd.driver": "amdgpu",
        "habana.present": "true",
        "habana.product": "Gaudi2",
        "habana.count": "1",
        "habana.memory": "98304",
        "habana.driver": "habanalabs",
        "intel-npu.present": "true",
        "intel-npu.product": "Meteor_Lake_NPU",
        "intel-npu.count": "1",
        "intel-npu.driver": "intel_vpu",
        "intel.feature.node.kubernetes.io/gaudi": "true",
    }


def test_excluded_vendors_count_for_any(tmp_path: Path) -> None:
    assert labels(tmp_path / "a", NVIDIA) == {"any.present": "true"}
    found = labels(tmp_path / "b", NVIDIA, exclude=[])
    assert found["nvidia.count"] == "1"


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([""], {"state": "no-driver", "count.failing": "1"}),
        (["", "habanalabs"], {"state": "degraded", "count.failing": "1"}),
        (["vfio-pci"], {"state": "vfio", "count.vfio": "1"}),
        (["vfio-pci", "habanalabs"], {"count.vfio": "1"}),
        (["habanalabs"], {}),
    ],
)
def test_states(tmp_path: Path, devices: list[str], expected: dict[str, str]) -> None:
    machine = [device(f"0000:0{number}:00.0", "1da3:1020", one) for number, one in enumerate(devices)]
    found = labels(tmp_path, *machine)
    told = {key: found[f"habana.{key}"] for key in ("state", "count.failing", "count.vfio") if f"habana.{key}" in found}
    assert told == expected


@pytest.mark.parametrize(("initstate", "state"), [("live", "driver-error"), ("coming", "no-driver")])
def test_a_driver_that_refused_a_device_is_not_one_that_is_loading(tmp_path: Path, initstate: str, state: str) -> None:
    module = {"sys/module/habanalabs/initstate": f"{initstate}\n"}
    assert labels(tmp_path, device("0000:01:00.0", "1da3:1020", ""), module)["habana.state"] == state


def test_a_status_that_is_told(tmp_path: Path) -> None:
    broken = device("0000:01:00.0", "1da3:1020", "habanalabs", accel__accel0__status="Malfunction")
    assert labels(tmp_path / "a", broken)["habana.state"] == "driver-error"
    resetting = device("0000:01:00.0", "1da3:1020", "habanalabs", accel__accel0__status="In reset")
    assert "habana.state" not in labels(tmp_path / "b", resetting)


def test_virtual_functions_are_counted_apart(tmp_path: Path) -> None:
    virtual = device("0000:01:00.1", "1eff:1221", "rebellions") | {f"{PCI}/0000:01:00.1/physfn/": ""}
    found = labels(tmp_path, device("0000:01:00.0", "1eff:1220", "rebellions"), virtual)
    assert (found["rebellions.count"], found["rebellions.count.virtual"]) == ("1", "1")


def test_labels_of_a_vendors_own_labeller(tmp_path: Path) -> None:
    version = {"sys/class/rebellions/rbln0/kernel_version": "1.2.92-6d00b56\n"}
    machine = (device("0000:01:00.0", "1eff:1220", "rebellions"), version)
    found = labels(tmp_path / "a", *machine)
    assert {key.partition("/")[2]: value for key, value in found.items() if key.startswith("rebellions.ai/")} == {
        "npu.present": "true",
        "npu.count": "1",
        "npu.family": "ATOM",
        "npu.product": "RBLN-CA22",
        "driver-version.full": "1.2.92-6d00b56",
        "driver-version.major": "1",
        "driver-version.minor": "2",
        "driver-version.patch": "92",
        "driver-version.revision": "6d00b56",
    }
    off = labels(tmp_path / "b", *machine, vendorLabels=False)
    assert not any(key.startswith("rebellions.ai/") for key in off)


def test_models_that_differ_are_counted(tmp_path: Path) -> None:
    found = labels(tmp_path, GAUDI, device("0000:20:00.0", "1da3:1060", "habanalabs"))
    assert found["habana.product.Gaudi2"] == found["habana.product.Gaudi3"] == "1"
    assert "habana.product" not in found
    assert found["habana.memory"] == "98304"


def test_memory_is_kept_while_there_is_no_driver(tmp_path: Path) -> None:
    loaded = device("0000:05:00.0", "1002:7999", "amdgpu", mem_info_vram_total=str(16 << 30))
    before = scan(make_host(tmp_path / "a", loaded), accelerator.SOURCE)
    unloaded = make_host(tmp_path / "b", device("0000:05:00.0", "1002:7999", ""))
    found = labels_of(scan(unloaded, accelerator.SOURCE, before), accelerator.SOURCE)
    assert (found["amd.memory"], found["amd.state"]) == ("16384", "no-driver")


def test_without_an_accelerator_a_scan_is_one_listing(tmp_path: Path) -> None:
    make_host(tmp_path, OTHERS)
    host = Counting(tmp_path)
    config = accelerator.Config()
    assert not accelerator.discover(host, config)
    assert set(host.seen) == {f"{PCI}/", *OTHERS}
    host.seen.clear()
    assert not accelerator.discover(host, config)
    assert host.seen == [f"{PCI}/"]


def test_without_the_data_of_a_vendor_nothing_of_it_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as for want of file descriptors: the other vendors are read, and the next scan tries again."""
    host = make_host(tmp_path, {**GAUDI, **MI300X})
    before = scan(host, accelerator.SOURCE)

    def get_data(package: str, name: str) -> bytes | None:
        if name == "habana.yaml":
            raise OSError(errno.EMFILE, "Too many open files")
        return pkgutil.get_data(package, name)

    load.cache_clear()
    monkeypatch.setattr("nfd.accelerators.vendors.pkgutil", SimpleNamespace(get_data=get_data))
    found = accelerator.discover(host, accelerator.Config())
    assert isinstance(found, Partial)
    assert [one["vendor"] for one in found.features.instances[accelerator.DEVICE]] == ["amd", "habana"], "as it was"
    assert "habana.yaml: OSError: [Errno 24] Too many open files" in found.failed[accelerator.DEVICE]
    kept = scan(host, accelerator.SOURCE, before)
    assert kept.scans["accelerator"].error is not None
    assert len(kept.features.instances[accelerator.DEVICE]) == 2
    assert "accelerator" in kept.label_errors
    monkeypatch.undo()
    again = accelerator.discover(host, accelerator.Config())
    assert not isinstance(again, Partial)
    assert [one["vendor"] for one in again.instances[accelerator.DEVICE]] == ["amd", "habana"]


def test_a_plug_in_adds_a_vendor_with_one_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed as pip does: a package with the file, and an entry point."""
    site = tmp_path / "site"
    files = {
        "acme_accelerators/__init__.py": "",
        "acme_accelerators/acme.yaml": "name: Acme Tensor\ndrivers: [acme]\nlabels: {acme.com/count: '{count}'}\n"
        "devices:\n  a001: {product: Acme One, family: one, memory: 32768}\n",
        "acme-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1\n",
        "acme-1.dist-info/entry_points.txt": "[nfd.accelerators]\n1e60 = acme_accelerators:acme\n",
    }
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    monkeypatch.syspath_prepend(str(site))
    known = (entries, entries_of)
    for one in known:
        one.cache_clear()
    try:
        found = labels(tmp_path / "machine", device("0000:01:00.0", "1e60:a001", "acme"), GAUDI)
    finally:
        for one in known:
            one.cache_clear()
    assert {key: value for key, value in found.items() if "acme" in key} == {
        "acme.present": "true",
        "acme.product": "Acme_One",
        "acme.count": "1",
        "acme.memory": "32768",
        "acme.driver": "acme",
        "acme.com/count": "1",
    }
    assert found["any.memory"] == "32768"


@pytest.mark.parametrize("entry", BUILT_IN, ids=lambda entry: entry.name)
def test_the_data_of_vendors_is_complete(entry: object) -> None:
    vendor = load(entry)  # type: ignore[arg-type]
    assert vendor.title
    assert all(len(device) == 4 and device == device.lower() for device in vendor.devices)


def test_a_key_that_no_vendor_has_is_an_error() -> None:
    with pytest.raises(TypeError):
        parse("acme", {"colour": "red"})
