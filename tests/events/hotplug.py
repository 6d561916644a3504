"""Run below `umockdev-wrapper`: plugs a simulated PCI device in and prints what woke us."""

from __future__ import annotations

import ctypes

from nfd.config.section import Section
from nfd.events.wakes import Events
from nfd.features import Features
from nfd.host import Host
from nfd.runtime.signals import Signals
from nfd.source import Source

DEVICE = b"P: /devices/pci0000:00/0000:00:1f.0\nE: SUBSYSTEM=pci\nA: class=0x030000\\n\nA: vendor=0x10de\\n\n"

SOURCES = [
    Source(name, Section, lambda host, config: Features(), lambda features, config: {}, wakes=frozenset({name}))
    for name in ("pci", "usb")
]

library = ctypes.CDLL("libumockdev.so.0")
library.umockdev_testbed_new.restype = ctypes.c_void_p
testbed = ctypes.c_void_p(library.umockdev_testbed_new())

host = Host("/")
events = Events(host, SOURCES, Signals(), poll=60)
assert not host.names("sys/bus/pci/devices")
library.umockdev_testbed_add_from_string(testbed, DEVICE, ctypes.byref(ctypes.c_void_p()))
library.umockdev_testbed_uevent(testbed, b"/sys/devices/pci0000:00/0000:00:1f.0", b"add")
wake = events.wait(5)
with events.scan(wake.sources):
    assert host.names("sys/bus/pci/devices") == ("0000:00:1f.0",)
print(",".join(wake.sources), "|", ",".join(wake.reasons), "|", events.wait(0.5).reasons)
