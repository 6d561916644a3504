"""Intel's devices: the labels that Intel's NodeFeatureRules give, and where they deviate from them.

Machines are those of public reports (intel/intel-device-plugins-for-kubernetes, oneapi-src/level-zero 69), and made by
hand where a comment says so. `VENDOR` has the conditions of the vendor's rules, and our engine evaluates them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nfd.discovery import Plan, discover
from nfd.rules.compile import compile_rule
from nfd.rules.evaluate import run_custom
from nfd.rules.parse import parse_custom
from nfd.sources import cpu, intel, kernel, pci
from tests.sources.hosts import make_host, scan

PCI = "sys/bus/pci/devices"
HAS, GPUS = "intel.feature.node.kubernetes.io", "gpu.intel.com"
Files = dict[str, str]


def device(address: str, device: str, kind: str, driver: str = "", *below: str, vendor: str = "8086") -> Files:
    """Files of a function; `below` are names of empty folders in it."""
    made = {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": f"0x{kind}00", "revision": "0x00"}
    made |= {"subsystem_vendor": "0x8086", "subsystem_device": "0x0000"}
    made["uevent"] = f"DRIVER={driver}\n" if driver else "PCI_CLASS=1\n"
    folders = {f"{PCI}/{address}/{name}/": "" for name in below}
    return {f"{PCI}/{address}/{name}": text for name, text in made.items()} | folders


def modules(*names: str) -> Files:
    """Loaded, as both of the kernel's lists have it."""
    return {f"sys/module/{name}/initstate": "live\n" for name in names} | {
        "proc/modules": "".join(f"{name} 1 0 - Live 0x0\n" for name in names)
    }


def machine(*parts: Files) -> Files:
    return {path: text for part in parts for path, text in part.items()}


TIGER_LAKE = machine(device("0000:00:02.0", "9a49", "0300", "i915"), modules("i915"))
HYBRID = machine(
    device("0000:00:02.0", "591b", "0380", "i915"),
    device("0000:01:00.0", "694c", "0300", "amdgpu", vendor="1002"),
    modules("i915", "amdgpu"),
)
ARC_750 = machine(
    device("0000:00:02.0", "4680", "0300", "i915"), device("0000:03:00.0", "56a1", "0300", "i915"), modules("i915")
)
ARC_310 = machine(
    device("0000:00:02.0", "1912", "0380", "i915"), device("0000:03:00.0", "56a6", "0300", "i915"), modules("i915")
)
MAX_1550 = machine(  # by hand
    *(device(f"0000:{bus:02x}:00.0", "0bd5", "0380", "xe", "tile0", "tile1") for bus in range(4)), modules("xe")
)
FLEX = machine(  # by hand
    *(device(f"0000:{bus:02x}:00.0", "56c1", "0380", "i915") for bus in (1, 2)),
    device("0000:03:00.0", "56c0", "0380", "i915"),
    modules("i915"),
)
SERVER = machine(  # by hand: Sapphire Rapids
    device("0000:6a:01.0", "0b25", "0880", "idxd"),
    device("0000:6a:02.0", "0cfe", "0880", "idxd"),
    device("0000:6b:00.0", "4940", "0b40", "4xxx"),
    device("0000:6c:00.0", "2710", "0b40", "dlb2"),
    device("0000:6d:00.0", "09c4", "1200", "dfl-pci"),
    modules("idxd", "intel_qat", "vfio_pci", "dlb2", "dfl_pci"),
)
METEOR_LAKE = machine(  # by hand
    device("0000:00:02.0", "7d55", "0300", "i915"),
    device("0000:00:0b.0", "7d1d", "1200", "intel_vpu"),
    modules("i915", "intel_vpu"),
)


def of(devices: list[str] | None, classes: list[str], *alternatives: dict[str, Any], **given: Any) -> dict[str, Any]:
    condition = {"vendor": {"op": "In", "value": ["8086"]}, "class": {"op": "In", "value": classes}}
    condition |= {"device": {"op": "In", "value": devices}} if devices else {}
    rule = {"name": "r", "matchFeatures": [{"feature": "pci.device", "matchExpressions": condition}], **given}
    return rule | ({"matchAny": [{"matchFeatures": [one]} for one in alternatives]} if alternatives else {})


def loaded(name: str) -> dict[str, Any]:
    return {"feature": "kernel.loadedmodule", "matchExpressions": {name: {"op": "Exists"}}}


def has(name: str) -> dict[str, Any]:
    return {"labels": {f"{HAS}/{name}": "true"}}


def product(name: str, device: str, **labels: str) -> dict[str, Any]:
    given = {"labels": {f"{GPUS}/product": name} | {f"{GPUS}/{key}": value for key, value in labels.items()}}
    return of([device], ["0380"], **given, labelsTemplate=f"{GPUS}/device.count={{{{ len .pci.device }}}}")


def template(text: str) -> str:
    """A line for each device; `<.name>` is an attribute of it."""
    line = text.replace("<", "{{ ").replace(">", " }}")
    return f"{{{{ range .pci.device }}}}{line}\n{{{{ end }}}}"


COUNT = f"{GPUS}/device-id.KIND-" + "{{ (index .pci.device 0).device }}.count={{ len .pci.device }}"
A_SERIES = (
    "56a6 56a5 56a1 56a0 5694 5693 5692 5691 5690 56b3 56b2 56a4 56a3 5697 5696 5695 56b1 56b0 56a2 56ba 56bc 56bd 56bb"
)
VENDOR = (
    of(None, ["0300", "0380"], loaded("i915"), loaded("xe"), **has("gpu")),
    of(["643e", "ad1d", "7d1d", "b03e", "fd3e", "d71d"], ["1200"], loaded("intel_vpu"), **has("npu")),
    of(["2710"], ["0b40"], loaded("dlb2"), **has("dlb")),
    of(["0b25", "11fb", "1212"], ["0880"], loaded("idxd"), **has("dsa")),
    of(["0cfe", "1216"], ["0880"], loaded("idxd"), **has("iaa")),
    of(["37c8", "4940", "4942", "4944", "4946", "4948"], ["0b40"], loaded("intel_qat"), **has("qat")),
    of(["09c4"], ["1200"], loaded("dfl_pci"), loaded("intel_fpga_pci"), **has("fpga-arria10")),
    of(None, ["0300", "0380"], labelsTemplate=template(f"{GPUS}/device-id.<.class>-<.device>.present=true")),
    *(of(None, [kind], labelsTemplate=COUNT.replace("KIND", kind)) for kind in ("0300", "0380")),
    product("Max_1100", "0bda"),
    product("Max_1550", "0bd5"),
    product("Flex_170", "56c0", family="Flex_Series"),
    product("Flex_140", "56c1", family="Flex_Series"),
    of(
        ["0bda", "0bd5", "0bd9", "0bdb", "0bd7", "0bd6", "0bd0"],
        ["0380"],
        labels={f"{GPUS}/family": "Max_Series"},
    ),
    of(A_SERIES.split(), ["0300"], labels={f"{GPUS}/family": "A_Series"}),
)


def of_vendor(root: Path, files: Files) -> dict[str, str]:
    """What Intel's rules give on the machine."""
    wide = pci.SOURCE.config.model_validate({"deviceClassWhitelist": ["03", "08", "0b40", "12"]})
    configs = {"pci": wide, "kernel": kernel.SOURCE.config(), "cpu": cpu.SOURCE.config()}
    found = discover(make_host(root, files), Plan((cpu.SOURCE, kernel.SOURCE, pci.SOURCE), (), configs))
    given = run_custom([compile_rule(one) for one in parse_custom(VENDOR)], found.features)
    assert not given.errors
    return dict(given.labels)


def ours(root: Path, files: Files, **options: Any) -> dict[str, str]:
    found = scan(make_host(root, files), intel.SOURCE, **options)
    assert not found.failed
    return dict(found.labels)


@pytest.mark.parametrize(
    ("files", "number"),
    [(TIGER_LAKE, 3), (HYBRID, 3), (ARC_310, 6), (MAX_1550, 6), (SERVER, 5), (METEOR_LAKE, 4)],
    ids=["Tiger Lake", "hybrid", "Arc 310", "Max 1550", "server", "Meteor Lake"],
)
def test_equal_to_the_vendors_rules(tmp_path: Path, files: Files, number: int) -> None:
    theirs = of_vendor(tmp_path / "a", files)
    assert len(theirs) == number
    found = ours(tmp_path / "b", files)
    assert {key: value for key, value in found.items() if key != f"{GPUS}/tiles"} == theirs


def test_each_id_has_its_own_number(tmp_path: Path) -> None:
    """The vendor's rule counts all GPUs under the id of the first one (truecharts 29531)."""
    assert of_vendor(tmp_path / "a", ARC_750)[f"{GPUS}/device-id.0300-4680.count"] == "2"
    found = ours(tmp_path / "b", ARC_750)
    assert found[f"{GPUS}/device-id.0300-4680.count"] == found[f"{GPUS}/device-id.0300-56a1.count"] == "1"
    assert found[f"{GPUS}/family"] == "A_Series"


def test_several_products(tmp_path: Path) -> None:
    """Of the vendor's rules the last one wins (intel/helm-charts PR 68)."""
    theirs = of_vendor(tmp_path / "a", FLEX)
    assert (theirs[f"{GPUS}/product"], theirs[f"{GPUS}/device.count"]) == ("Flex_140", "2")
    found = ours(tmp_path / "b", FLEX)
    assert (found[f"{GPUS}/product.Flex_140"], found[f"{GPUS}/product.Flex_170"]) == ("2", "1")
    assert (found[f"{GPUS}/device.count"], found[f"{GPUS}/family"]) == ("3", "Flex_Series")
    assert f"{GPUS}/product" not in found


def test_tiles(tmp_path: Path) -> None:
    assert ours(tmp_path / "a", MAX_1550)[f"{GPUS}/tiles"] == "8"
    assert f"{GPUS}/tiles" not in ours(tmp_path / "b", METEOR_LAKE)
    mixed = machine(device("0000:03:00.0", "e20b", "0300", "xe", "tile0"), TIGER_LAKE)
    assert f"{GPUS}/tiles" not in ours(tmp_path / "c", mixed)


@pytest.mark.parametrize("driver", ["", "vfio-pci"])
def test_a_gpu_without_its_driver(tmp_path: Path, driver: str) -> None:
    """It is known, and nobody can use it (intel/intel-device-plugins-for-kubernetes 1907)."""
    found = ours(tmp_path, device("0000:03:00.0", "56a6", "0300", driver))
    assert found[f"{GPUS}/device-id.0300-56a6.count"] == "1"
    assert f"{HAS}/gpu" not in found


def test_a_driver_that_is_built_in(tmp_path: Path) -> None:
    """No list of loaded modules has it (intel/intel-device-plugins-for-kubernetes 1688)."""
    files = machine(device("0000:00:02.0", "9a49", "0300", "i915"), {"sys/module/i915/parameters/modeset": "-1\n"})
    assert ours(tmp_path, files)[f"{HAS}/gpu"] == "true"


def test_virtual_functions_are_not_counted(tmp_path: Path) -> None:
    """Unless the machine has nothing else: then it is a virtual machine."""
    virtual = device("0000:03:00.1", "56c0", "0380", "vfio-pci", "physfn")
    both = machine(device("0000:03:00.0", "56c0", "0380", "i915"), virtual)
    assert ours(tmp_path / "a", both)[f"{GPUS}/device-id.0380-56c0.count"] == "1"
    guest = device("0000:03:00.0", "56c0", "0380", "i915")
    assert ours(tmp_path / "b", guest)[f"{GPUS}/device.count"] == "1"


def test_qat_needs_vfio(tmp_path: Path) -> None:
    files = machine(device("0000:6b:00.0", "4940", "0b40", "4xxx"), modules("intel_qat"))
    assert ours(tmp_path, files) == {}


def test_a_neural_function_without_driver_is_no_npu(tmp_path: Path) -> None:
    """The vendor's rule has the id 7e4c, which is a Gaussian and neural accelerator that no NPU driver binds."""
    assert ours(tmp_path, machine(device("0000:00:08.0", "7e4c", "1200"), modules("intel_vpu"))) == {}


SGX_LEAVES = """\
00000000 00000000 00000012 756e6547 6c65746e 49656e69
00000007 00000000 00000000 00000004 40000000 00000000
00000012 00000000 00000001 00000000 00000000 00000000
00000012 00000002 10000001 00000000 80000001 00000000
xcr0 3
"""


@pytest.mark.parametrize(("option", "expected"), [("CONFIG_X86_SGX=y\n", {f"{HAS}/sgx": "true"}), ("", {})])
def test_sgx(tmp_path: Path, option: str, expected: Files) -> None:
    files = {"cpuid": SGX_LEAVES, "proc/sys/kernel/osrelease": "6.1.0\n", "boot/config-6.1.0": f"CONFIG_X=y\n{option}"}
    sources = (cpu.SOURCE, kernel.SOURCE, intel.SOURCE)
    plan = Plan(sources, (intel.SOURCE,), {one.name: one.config() for one in sources})
    assert discover(make_host(tmp_path, {**files, "proc/sys/kernel/arch": "x86_64\n"}), plan).labels == expected


def test_off(tmp_path: Path) -> None:
    assert ours(tmp_path, TIGER_LAKE, gpuDevices=False) == {f"{HAS}/gpu": "true"}
