"""A small machine for the command line's tests, laid out as a directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MACHINE = {
    "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
    "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
    "boot/config-6.1.0-18-amd64": "CONFIG_NO_HZ=y\nCONFIG_HZ=250\n",
    "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
    "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:01:00.0/device": "0x1eb8\n",
    "sys/bus/pci/devices/0000:01:00.0/subsystem_vendor": "0x0001\n",
    "sys/bus/pci/devices/0000:01:00.0/subsystem_device": "0x0002\n",
    "sys/bus/pci/devices/0000:02:00.0/class": "0x020000\n",
    "sys/bus/pci/devices/0000:02:00.0/vendor": "0x8086\n",
    "sys/bus/pci/devices/0000:02:00.0/device": "0x1000\n",
    "sys/bus/pci/devices/0000:02:00.0/subsystem_vendor": "0x0001\n",
    "sys/bus/pci/devices/0000:02:00.0/subsystem_device": "0x0002\n",
    "etc/kubernetes/node-feature-discovery/features.d/a": "mine=1\nbad/one/two=x\nother.kubernetes.io/x=1\n",
    "host.json": '{"time": 1700000000}\n',
    "cpuid": "00000000 00000000 0000000d 756e6547 6c65746e 49656e69\n",
}


def make(root: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root
