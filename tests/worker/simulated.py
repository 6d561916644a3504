"""A machine whose sysfs umockdev simulates: devices, drivers and kernel events that reach a worker as a process.

The worker runs with umockdev's preloaded library, which gives libudev a socket of this machine in place of netlink's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.children import run
from tests.nvml.library import compiler

PCI, BRIDGE = "sys/bus/pci/devices", "/devices/pci0000:00"
_PRELOADED = "libumockdev-preload.so.0"
_DENIER = Path(__file__).with_name("kfd_denied.c")


def wrapper() -> str:
    found = shutil.which("umockdev-wrapper")
    if found is None:
        assert os.environ.get("CI") != "true", "the Debian package umockdev is missing"
        pytest.skip("needs the Debian package umockdev")
    return found


class Simulated:
    """`root` is the machine's root directory; `variables` are those of a process that shall hear its events.

    With `folder`, such a process gets EPERM for the files of KFD's nodes of GPUs while `deny_kfd` says so.
    """

    def __init__(self, folder: Path | None = None) -> None:
        command = [wrapper(), sys.executable, "-m", "tests.worker.testbed"]
        self._testbed = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.root = Path(self._answer())
        self._switch = self.root / "kfd-denied"
        preloaded = [_PRELOADED, *([str(_make_denier(folder))] if folder else [])]
        self.variables = {"LD_PRELOAD": ":".join(preloaded), "UMOCKDEV_DIR": str(self.root)}
        self.variables["KFD_DENIED"] = str(self._switch)

    def write(self, path: str, text: str) -> None:
        """One file, at once."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.root / "new"
        beside.write_text(f"{text}\n")
        beside.rename(file)

    def plug(self, address: str, ids: str, kind: str, **files: str) -> None:
        """A PCI function `vendor:device` of a class, without a driver, and the kernel's event.

        Two underscores in the name of a file stand for a slash.
        """
        vendor, device = ids.split(":")
        texts = {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": f"0x{kind}", "revision": "0x00"}
        texts |= {"subsystem_vendor": f"0x{vendor}", "subsystem_device": f"0x{device}"}
        lines = [f"P: {BRIDGE}/{address}", "E: SUBSYSTEM=pci", f"E: PCI_ID={ids.upper()}"]
        lines += [f"A: {name}={text}\\n" for name, text in texts.items()]
        self._ask("add", "\n".join([*lines, "", ""]))
        self._write_files(address, files)
        self.send(address, "add")

    def load(self, module: str, state: str, **files: str) -> None:
        """A kernel module that is `coming` or `live`; the kernel sends its event when it is coming."""
        self.write(f"sys/module/{module}/initstate", state)
        for name, text in files.items():
            self.write(f"sys/module/{module}/{name}", text)
        listed = self.root / "proc/modules"
        lines = listed.read_text() if listed.exists() else ""
        if f"{module} " not in lines:
            self.write("proc/modules", f"{lines}{module} 1 0 - Live 0x0")
            self._add_module(module)

    def bind(self, address: str, driver: str, **files: str) -> None:
        """A driver gets the function, or loses it if its name is empty."""
        self._write_files(address, files)
        uevent = self.root / f"sys{BRIDGE}/{address}/uevent"
        rest = [line for line in uevent.read_text().splitlines() if not line.startswith("DRIVER=")]
        self.write(f"sys{BRIDGE}/{address}/uevent", "\n".join([*([f"DRIVER={driver}"] if driver else []), *rest]))
        self.send(address, "bind" if driver else "unbind")

    def _write_files(self, address: str, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            self.write(f"sys{BRIDGE}/{address}/{name.replace('__', '/')}", text)

    def pull(self, address: str) -> None:
        self.send(address, "remove")
        self._ask("remove", f"/sys{BRIDGE}/{address}")

    def send(self, address: str, action: str) -> None:
        """The kernel's event about a PCI function."""
        self._ask("event", f"/sys{BRIDGE}/{address}", action)

    def close(self) -> None:
        self._testbed.communicate()

    def _ask(self, *words: str) -> None:
        assert self._testbed.stdin is not None
        self._testbed.stdin.write(f"{json.dumps(words)}\n")
        self._testbed.stdin.flush()
        assert self._answer() == "done", words

    def _answer(self) -> str:
        assert self._testbed.stdout is not None
        return self._testbed.stdout.readline().strip()

    def _add_module(self, module: str) -> None:
        self.write(f"sys/module/{module}/uevent", "SUBSYSTEM=module")
        link = self.root / f"sys/module/{module}/subsystem"
        if not link.is_symlink():
            link.symlink_to(self.root / "sys/module")
        self._ask("event", f"/sys/module/{module}", "add")

    def deny_kfd(self, *, denied: bool) -> None:
        """The kernel asks the device cgroup of who reads (Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c)."""
        self._switch.touch() if denied else self._switch.unlink()

    def kfd(self, nodes: Mapping[str, str]) -> None:
        """The compute driver's topology, all files at once: path below `nodes` → text. It sends no event."""
        topology = self.root / "sys/class/kfd/kfd/topology"
        for path, text in nodes.items():
            self.write(f"fresh/{path}", text)
        topology.mkdir(parents=True, exist_ok=True)
        if (topology / "nodes").exists():
            (topology / "nodes").rename(self.root / "old")
        (self.root / "fresh").rename(topology / "nodes")
        shutil.rmtree(self.root / "old", ignore_errors=True)
        counter = topology / "generation_id"
        self.write(str(counter.relative_to(self.root)), str(int(counter.read_text()) + 1 if counter.exists() else 1))


def _make_denier(folder: Path) -> Path:
    made = folder / "kfd_denied.so"
    command = [compiler() or "cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(made), str(_DENIER), "-ldl"]
    run(command, timeout=60)
    return made
