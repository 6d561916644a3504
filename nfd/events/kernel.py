"""Kernel uevents through pyudev: what the kernel itself sends, with or without a udev daemon.

They arrive in a pod without hostNetwork and without root; those of `net` only in the network namespace of the
device. In a user namespace nothing arrives and nothing fails, so that is looked up first.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nfd.runtime.file_watches import finding

UID_MAP = Path("/proc/self/uid_map")
WHOLE_MAP = ["0", "0", "4294967295"]
"""The only line of the initial user namespace (user_namespaces(7))."""

_LIBUDEV = "libudev.so.1"


class NoKernelEvents(Exception):
    """No kernel events can arrive here; the text says why."""


class KernelEvents:
    """The uevents of some subsystems; raises NoKernelEvents if none could ever arrive."""

    def __init__(self, subsystems: Iterable[str]) -> None:
        if UID_MAP.exists() and UID_MAP.read_text().split() != WHOLE_MAP:
            raise NoKernelEvents("the kernel sends no events into a user namespace")
        try:
            self._monitor = _monitor(subsystems)
        except (ImportError, OSError) as error:
            raise NoKernelEvents(str(error)) from error

    def fileno(self) -> int:
        return int(self._monitor.fileno())

    def read(self) -> Iterator[tuple[str, str]]:
        """Pending events as (subsystem, action), without waiting; raises OverflowError if some were lost."""
        try:
            while (device := self._monitor.poll(0)) is not None:
                yield device.subsystem, device.action or "change"
        except OSError as error:  # pyudev reports the error state of the socket, but leaves it there
            with socket.socket(fileno=os.dup(self.fileno())) as same:
                same.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            raise OverflowError("kernel events were lost") from error


def _monitor(subsystems: Iterable[str]) -> Any:
    import pyudev
    from pyudev._ctypeslib import utils

    with finding(utils, _find_libudev):
        context = pyudev.Context()
    monitor = pyudev.Monitor.from_netlink(context, source="kernel")
    for subsystem in sorted(subsystems):
        monitor.filter_by(subsystem)
    monitor.start()
    return monitor


def _find_libudev(name: str) -> str | None:
    """libudev by the name of its ABI, as the dynamic linker finds it; else as Python does."""
    try:
        ctypes.CDLL(_LIBUDEV)
    except OSError:
        from ctypes.util import find_library

        return find_library(name)
    return _LIBUDEV
