"""How GPUs are connected: features of each GPU, and two labels."""

from pathlib import Path
from typing import Any

import pytest

from nfd.discovery import Discovery
from nfd.host import Host
from nfd.host.record import Recorder
from nfd.host.replay import Replay
from tests.gfd.machines import H100, at, laid
from tests.gfd.test_source import scan
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

ATTRIBUTES = ("numa.node", "pcie.root", "nvlink.count", "nvlink.version", "nvlink.peers", "vbios", "gsp")
DEVICES = "sys/bus/pci/devices"


def gpu(bus: int, node: int, **more: Any) -> dict[str, Any]:
    device = at(bus, H100, **more)
    return {**device, "pci": {**device["pci"], "numa_node": node}}


def links(*peers: int) -> list[dict[str, Any]]:
    """To GPUs on these buses."""
    return [{"peer": 0, "version": 4, "bus_id": f"00000000:{bus:02X}:00.0"} for bus in peers]


def told(found: Discovery) -> tuple[list[list[str | None]], list[str | None]]:
    """The attributes of each GPU, and the labels."""
    gpus = [[one.get(name) for name in ATTRIBUTES] for one in found.features.instances["nvidia.gpu"]]
    return gpus, [found.labels.get(f"nvidia.com/gpu.{name}") for name in ("nvlink.version", "numa.aligned")]


def attach(root: Path, bus: int, pci_root: str) -> None:
    """Make the folder of a device a link, as the kernel has it."""
    name = f"0000:{bus:02x}:00.0"
    folder = root / DEVICES / name
    place = root / "sys/devices" / pci_root / name
    place.parent.mkdir(parents=True, exist_ok=True)
    driver = (folder / "driver").readlink()
    (folder / "driver").unlink()
    folder.rename(place)
    (place / "driver").symlink_to(root / "sys/bus/pci/drivers" / driver.name)
    folder.symlink_to(f"../../../devices/{pci_root}/{name}")


def test_gpus_behind_switches(tmp_path: Path) -> None:
    more = {"nvlinks": [{}] * 18, "vbios": "96.00.74.00.1A", "gsp": "580.159.04"}
    with laid({"devices": [gpu(1, 0, **more), gpu(2, 1, **more), gpu(3, 1)]}, tmp_path) as one:
        for bus in (1, 2, 3):
            attach(one.root, bus, f"pci0000:{bus:02x}")
        found = scan(one.host)
        recorder = Recorder(Host(one.root))
        recorded = scan(recorder)
        recorder.write(tmp_path / "recording")
    replayed = scan(Replay(tmp_path / "recording"))
    expected = [
        ["0", "pci0000:01", "18", "4.0", "1", "96.00.74.00.1A", "580.159.04"],
        ["1", "pci0000:02", "18", "4.0", "1", "96.00.74.00.1A", "580.159.04"],
        ["1", "pci0000:03", None, None, None, None, None],
    ]
    for discovery in (found, recorded, replayed):
        assert told(discovery) == (expected, ["4.0", "false"])


def test_gpus_that_bridges_connect(tmp_path: Path) -> None:
    devices = [gpu(1, 0, nvlinks=links(2, 2, 3)), gpu(2, 0, nvlinks=links(1, 1)), gpu(3, 0, nvlinks=links(1))]
    with laid({"devices": devices}, tmp_path) as one:
        gpus, labels = told(scan(one.host))
    assert [[one[2], one[3], one[4]] for one in gpus] == [["3", "3.0", "2"], ["2", "3.0", "1"], ["1", "3.0", "1"]]
    assert labels == ["3.0", "true"]


@pytest.mark.parametrize(
    ("nodes", "aligned"), [((0,), None), ((0, 0), "true"), ((0, 1), "false"), ((0, -1), None), ((-1, -1), None)]
)
def test_numa_nodes(nodes: tuple[int, ...], aligned: str | None, tmp_path: Path) -> None:
    with laid({"devices": [gpu(bus, node) for bus, node in enumerate(nodes, 1)]}, tmp_path) as one:
        assert told(scan(one.host))[1] == [None, aligned]


def test_several_versions_of_nvlink_have_no_label(tmp_path: Path) -> None:
    devices = [gpu(1, 0, nvlinks=[{"version": 6}]), gpu(2, 0, nvlinks=[{"version": 7}])]
    with laid({"devices": devices}, tmp_path) as one:
        gpus, labels = told(scan(one.host))
    assert [one[3] for one in gpus] == ["4.0", "5.0"]
    assert labels[0] is None


def test_no_address_of_a_peer_is_in_the_features(tmp_path: Path) -> None:
    with laid({"devices": [gpu(1, 0, nvlinks=links(0x7E))]}, tmp_path) as one:
        found = scan(one.host)
    assert "7e:" not in str(found.features).lower()
