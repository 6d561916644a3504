"""A program that waits for Xid events, and prints each as a line. `gfd.xid_events` runs it in a process of its own.

Who waits has NVML open, which blocks unloading the driver, MIG changes and a GPU reset. A process can be ended at any
moment, whatever the driver is at.

    python -m gfd.nvml.events PARENT LIBRARY XID,XID

Lines: `ready WATCHED ALL` (numbers of GPUs), `xid NUMBER UUID`, `error REASON`. Events before `ready` are lost
(NVML API reference, "Event Handling Methods").
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

import pynvml

from gfd.nvml.library import LIBRARY, UNKNOWN_HERE, error_text, load, read_uuid

XID = pynvml.nvmlEventTypeXidCriticalError
UNKNOWN_GPU = "-"
"""The UUID of a GPU that does not say it."""
WAIT = 5000
"""Milliseconds of one wait, as in NVIDIA's device plugin (NVIDIA/k8s-device-plugin, internal/rm/health.go)."""

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """The kernel kills this process when its parent ends (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(0)


def leave(number: int, frame: FrameType | None) -> NoReturn:
    """A signal also ends a wait: NVML then returns as after a timeout."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


def say(line: str) -> None:
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def run(library: str, wanted: frozenset[int]) -> None:
    """Print listed Xids until a signal comes. Raises: OSError, NVMLError."""
    load(library)
    pynvml.nvmlInit()
    try:
        events = pynvml.nvmlEventSetCreate()
        try:
            known = register(events)
            say(f"ready {len(known)} {pynvml.nvmlDeviceGetCount()}")
            while True:
                report(events, wanted, known)
        finally:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(events)
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def register(events: Any) -> dict[int | None, str]:
    """The GPUs that report Xids, by handle, with their UUIDs. Raises: NVMLError if there is none."""
    known: dict[int | None, str] = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            if not pynvml.nvmlDeviceGetSupportedEventTypes(handle) & XID:
                continue
            pynvml.nvmlDeviceRegisterEvents(handle, XID, events)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_UNKNOWN:  # the set must not be used any more
                raise
            continue
        known[address_of(handle)] = read_uuid(handle, UNKNOWN_GPU)
    if not known:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return known


def report(events: Any, wanted: frozenset[int], known: Mapping[int | None, str]) -> None:
    """Wait for one event, and print it if it is a listed Xid. Raises: NVMLError."""
    try:
        event = pynvml.nvmlEventSetWait_v2(events, WAIT)
    except pynvml.NVMLError_Timeout:
        return
    if event.eventType == XID and event.eventData in wanted:
        uuid = read_uuid(event.device, known.get(address_of(event.device), UNKNOWN_GPU))
        say(f"xid {event.eventData} {uuid}")


def address_of(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def reason_of(error: Exception) -> str:
    if isinstance(error, pynvml.NVMLError):
        absent = error.value in UNKNOWN_HERE
        return f"NVML: {error_text(error)}" + (": no GPU reports Xid events" if absent else "")
    return str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def main() -> int:
    parent, library, xids = sys.argv[1:]
    signal.signal(signal.SIGTERM, leave)
    for stray in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):  # a terminal sends them to all processes of a program
        signal.signal(stray, signal.SIG_IGN)
    end_with(int(parent))
    try:
        run(library or LIBRARY, frozenset(map(int, xids.split(","))))
    except BrokenPipeError:
        return 0
    except Exception as error:
        say(f"error {reason_of(error)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
