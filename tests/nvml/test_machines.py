"""Machines laid out as trees, and every case of ours laid out and asked."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.nvml.asking import ask, needs_compiler
from tests.nvml.library import build
from tests.nvml.machines import PCI_DEVICES, lay_out

CASES = sorted((Path(__file__).parent.parent / "cases" / "gfd").glob("*.yaml"))

GPU = {
    "bus_id": "00000008:3B:00.0",
    "device": "0x2330",
    "subsystem": "0x16C1",
    "class": "0x030200",
}


def device(**pci: Any) -> dict[str, Any]:
    """A case with one GPU."""
    return {"machine": {"devices": [{"name": "x", "pci": GPU | pci}]}}


def test_pci_folder(tmp_path: Path) -> None:
    """Every file the kernel has for a GPU that a reader of ours looks at."""
    folder = lay_out(device(), tmp_path) / PCI_DEVICES / "0008:3b:00.0"
    texts = {path.name: path.read_text() for path in folder.iterdir() if path.name not in ("config", "driver")}
    assert texts == {
        "vendor": "0x10de\n",
        "device": "0x2330\n",
        "class": "0x030200\n",
        "subsystem_vendor": "0x10de\n",
        "subsystem_device": "0x16c1\n",
        "numa_node": "0\n",
        "resource": "0x0000000000000000 0x0000000000000000 0x0000000000000000\n" * 13,
    }
    config = (folder / "config").read_bytes()
    assert len(config) == 256
    assert config[:12].hex() == "de103023" + "00000000" + "00000203"
    assert config[0x2C:0x30].hex() == "de10c116"
    assert (folder / "driver").resolve() == tmp_path / "sys/bus/pci/drivers/nvidia"


def test_pci_folder_as_told(tmp_path: Path) -> None:
    """What `pci` tells stands instead; a domain of five digits keeps them."""
    told = {"bus_id": "00010000:C1:00.0", "driver": "vfio-pci", "numa_node": -1, "bars": [[4096, 8191, 0x20C]]}
    folder = lay_out(device(**told, **{"class": 0x030000}), tmp_path) / PCI_DEVICES / "10000:c1:00.0"
    assert (folder / "driver").readlink().name == "vfio-pci"
    assert (folder / "numa_node").read_text() == "-1\n"
    assert (folder / "class").read_text() == "0x030000\n"
    assert (folder / "resource").read_text() == "0x0000000000001000 0x0000000000001fff 0x000000000000020c\n"


def test_no_folder_without_class(tmp_path: Path) -> None:
    """/sys/bus/pci/devices is there all the same, also without GPUs."""
    for name, case in (("pci", device(**{"class": None})), ("none", {"machine": {}})):
        assert list((lay_out(case, tmp_path / name) / PCI_DEVICES).iterdir()) == []


def test_files(tmp_path: Path) -> None:
    """Text, bytes, links, folders; and what is taken away, a single file or all."""
    files = {
        "sys/class/dmi/id/product_name": "DGXH100\n",
        "/etc/bytes": {"hex": "00ff 10"},
        "etc/link": {"link": "/sys/class"},
        "etc/empty": {"dir": True},
        "etc": {"dir": True},
        f"{PCI_DEVICES}/0008:3b:00.0/vendor": None,
    }
    root = lay_out(device() | {"files": files}, tmp_path / "one")
    assert (root / "sys/class/dmi/id/product_name").read_text() == "DGXH100\n"
    assert (root / "etc/bytes").read_bytes() == b"\x00\xff\x10"
    assert str((root / "etc/link").readlink()) == "/sys/class"
    assert list((root / "etc/empty").iterdir()) == []
    assert not (root / PCI_DEVICES / "0008:3b:00.0/vendor").exists()
    assert (root / PCI_DEVICES / "0008:3b:00.0/device").exists()
    root = lay_out(device() | {"files": {PCI_DEVICES: None}}, tmp_path / "all")
    assert not (root / PCI_DEVICES).exists()


@needs_compiler
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_cases(path: Path, tmp_path: Path) -> None:
    """Every case can be laid out, and NVML counts the GPUs its file tells; one process per file does."""
    cases = [case for case in yaml.safe_load(path.read_text()) if "nvml" in case["machine"].get("libraries", ["nvml"])]
    machines = {}
    for number, case in enumerate(cases):
        lay_out(case, tmp_path / str(number) / "root")
        libraries = build({**case["machine"], "missing": []}, tmp_path / str(number))
        machines[str(libraries.machine)] = case["machine"]
    script = f"""
answer = {{}}
for path in {list(machines)}:
    os.environ["NFD_TEST_NVML_MACHINE"] = path
    failed = code(nvmlInit)
    answer[path] = failed or nvmlDeviceGetCount()
    failed or nvmlShutdown()
"""
    counted = ask(build({}, tmp_path), script) if machines else {}
    assert counted == {
        path: machine.get("errors", {}).get("nvmlInit") or len(machine.get("devices", ()))
        for path, machine in machines.items()
    }
