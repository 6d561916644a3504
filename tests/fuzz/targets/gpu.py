"""What the driver, PCI and recordings say of GPUs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from gfd.families import built_in
from gfd.inventory import Driver, Gpu, Inventory, MigDevice, Node, from_features, from_json, to_features, to_json
from gfd.labels import label
from gfd.labels.settings import LabelSettings
from gfd.last_reading import gaps, resume
from gfd.nvml import NvmlReading
from gfd.pci import parse_names, parse_vgpu
from gfd.sharing import Sharing
from nfd import labels as naming
from nfd.labels import Naming
from tests.fuzz import legal
from tests.fuzz.mutate import Bytes, either
from tests.fuzz.target import Made, Target, check
from tests.fuzz.trees import Trees, encoded
from tests.nvml.library import MACHINE_VARIABLE, build

H100 = Gpu(
    0, "NVIDIA H100 80GB HBM3", "GPU-0a1b2c3d", "0000:3b:00.0", "0x030200", 81559, False, 9, 0, True, True,
    clique="7f3c0102-0304-0506-0708-090a0b0c0dff.32766",
)  # fmt: skip
SETTINGS = [
    LabelSettings(
        strategy, Sharing.model_validate({"timeSlicing": {"resources": [{"name": "gpu", "replicas": 4}]}}), built_in()
    )
    for strategy in ("none", "single", "mixed")
]
LAST = Inventory("nvml", Driver("570.124.06", 12080), (H100,), (MigDevice(0, "1g.10gb", memory=9728),))


def some_inventories() -> Sequence[bytes]:
    node = Node(
        "DGX H100", 1_700_000_000, 1_700_000_000, 1, vgpu_present=True, vgpu_version="550.54", vgpu_branch="r550"
    )
    t4 = Gpu(
        1, "Tesla T4", "GPU-b", "0000:3c:00.0", "0x030200", 15360, compute_major=7, compute_minor=5, mig_capable=False
    )
    broken = Gpu(2, failing="Unknown Error", mute=1)
    whole = Inventory("nvml", LAST.driver, (H100, t4, broken), LAST.migs, node)
    return encoded(to_json(whole), to_json(LAST), {"backend": "nvml", "trouble": "no-driver", "reason": "no library"})


def run_inventory(data: bytes) -> Made:
    return labelled(from_json(json.loads(data)))


def labelled(inventory: Inventory) -> Made:
    """Its labels with one of the strategies, also by way of features, and what a reading before makes of it."""
    settings = SETTINGS[len(inventory.driver.version) % len(SETTINGS)]
    found = label(inventory, settings)
    legal.check_labels(naming.derive(Naming("nvidia", namespaced=True), found.labels).labels)
    if inventory.backend and len(found.labels) % 2:
        again = from_features(to_features(inventory))
        check(again is not None and label(again, settings) == found, "features give the same labels")
    resumed = resume(inventory, LAST)
    gaps(resumed)
    return f"{len(found.labels)} {len(found.notes)} {inventory.trouble}", (found, resumed)


@dataclass(frozen=True)
class Library:
    """The C library of the tests, loaded into this process, and the file that it reads its machine from."""

    path: str
    machine: Path


_TEMPLATE: Mapping[str, Any] = {
    "driver": "@0@",
    "cuda": 12080,
    "devices": [
        {
            "name": "@1@",
            "uuid": "@2@",
            "memory_bytes": 85520809984,
            "compute": "9.0",
            "minor": 4,
            "pci": {"bus_id": "@3@", "device": "0x2330", "subsystem": "0x16C1", "class": "0x030200"},
            "mig": {"current": 0},
        },
        {"name": "Tesla @4@", "compute": "7.5", "uuid": "GPU-b"},
    ],
}
_QUOTED = re.compile(rb'[\x00-\x1f"\\]')


@cache
def _library() -> Library:
    folder = TemporaryDirectory(prefix="nfd-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    libraries = build(_TEMPLATE, Path(folder.name))
    _KEPT.append(folder)
    return Library(str(libraries.nvml), libraries.machine)


_KEPT: list[TemporaryDirectory[str]] = []


def run_nvml(data: bytes) -> Made:
    """Texts of the driver, one a line, any bytes."""
    library, text = _library(), json.dumps(_TEMPLATE).encode()
    words = data.split(b"\n")
    for place in range(5):
        word = words[place] if place < len(words) else b""
        text = text.replace(b"@%d@" % place, _QUOTED.sub(lambda found: b"\\u%04x" % found[0][0], word[:300]))
    library.machine.write_bytes(text)
    reading = NvmlReading(library.path)
    with patch.dict(os.environ, {MACHINE_VARIABLE: str(library.machine)}):
        reading.run()
    inventory = reading.inventory()
    check(inventory.trouble is not None or len(inventory.gpus) == 2, "both devices are listed")
    return labelled(inventory)


def spaces() -> Sequence[bytes]:
    """A vGPU's configuration space, and an ordinary one."""
    space = bytearray(256)
    space[0:8] = b"\xde\x10\x30\x23\x07\x05\x10\x00"
    space[0x34] = 0x60
    plain = bytes(space)
    space[0x60:0x70] = b"\x09\x00\x40VF" + bytes((1, 4, 0, 0, 0, 24)) + b"550.5"
    space[0x70:0x85] = b"4.14\0" + b"r550_00\0\0\0" + bytes(6)
    return [bytes(space), plain, plain[:64]]


def run_vgpu(data: bytes) -> Made:
    space = data[:256].ljust(256, b"\0")
    found = parse_vgpu(space)
    if found is None:
        return "none", None
    node = Node(vgpu_present=True, vgpu_version=found.version, vgpu_branch=found.branch)
    kind, made = labelled(Inventory("nvml", node=node))
    return f"vgpu {found.version is None} {kind}", made


def run_pci_ids(data: bytes) -> Made:
    names = parse_names(data.decode("utf-8", "replace"))
    named = tuple(Gpu(index, name, mig_capable=False) for index, name in enumerate(list(names.values())[:4]))
    return labelled(Inventory("vfio", gpus=named))


DRIVER = (
    b"570.124.06\nNVIDIA H100 80GB HBM3\nGPU-0a1b2c3d-1111-2222-3333-444455556666\n00000000:3B:00.0\nT4",
    b"535.183.01\nNVIDIA A100-SXM4-40GB MIG 1g.5gb\nGPU-1\nFFFFFFFF:00:1F.7\n",
)
PCI_IDS = (
    b"10de  NVIDIA Corporation\n\t2330  GH100 [H100 SXM5]\n\t\t10de 16c1  x\n# c\n15b3  Mellanox\n\t1021  MT2910\n",
)
_fields = tuple(to_json(LAST)["gpus"][0])

TARGETS = (
    Target(
        "inventory",
        "recorded GPU inventories",
        some_inventories,
        Trees("gpus", "migs", "driver", "node", "trouble", "driver-error", "index", *_fields),
        run_inventory,
        (ValueError,),
    ),
    Target(
        "nvml",
        "texts of the driver, through the C library",
        lambda: DRIVER,
        Bytes("NVIDIA ", "MIG ", "-", "GPU-", "Graphics Device", longest=1200),
        run_nvml,
        (),
    ),
    Target(
        "pci-config",
        "PCI configuration space",
        spaces,
        either(Bytes("VF", "\x09", longest=300), Bytes(longest=256)),
        run_vgpu,
        (),
    ),
    Target("pci-ids", "pci.ids", lambda: PCI_IDS, Bytes("10de  ", "\n\t", "  ", "[", "]"), run_pci_ids, ()),
)
