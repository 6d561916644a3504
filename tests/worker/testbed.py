"""Run below `umockdev-wrapper`: a testbed of umockdev whose root it prints, and which does what lines of JSON ask for.

umockdev looks devices up by libudev, so that only a process with its preloaded library can send their events.
"""

from __future__ import annotations

import ctypes
import json
import sys

library = ctypes.CDLL("libumockdev.so.0")
library.umockdev_testbed_new.restype = ctypes.c_void_p
library.umockdev_testbed_get_root_dir.restype = ctypes.c_char_p
testbed = ctypes.c_void_p(library.umockdev_testbed_new())


def add(text: str) -> None:
    """A device as `umockdev-record` prints one."""
    if not library.umockdev_testbed_add_from_string(testbed, text.encode(), ctypes.byref(ctypes.c_void_p())):
        raise ValueError(text)


def event(device: str, action: str) -> None:
    library.umockdev_testbed_uevent(testbed, device.encode(), action.encode())


def remove(device: str) -> None:
    library.umockdev_testbed_remove_device(testbed, device.encode())


print(library.umockdev_testbed_get_root_dir(testbed).decode(), flush=True)
for line in sys.stdin:
    name, *values = json.loads(line)
    {"add": add, "event": event, "remove": remove}[name](*values)
    print("done", flush=True)
