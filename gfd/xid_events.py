"""Xid events in `gpu-feature-discovery`: a child process waits for them, and a thread keeps it running.

The child has NVML open, so it must be gone before MIG manager, driver manager or the GPU operator change the GPUs: they
delete the pod. It ends within `END` seconds of the signal that ends the program, and never outlives it. Whatever it
does, a scan is not affected.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from threading import Lock, Thread
from typing import NamedTuple

from gfd.inventory import Inventory
from gfd.recent_xids import Xids
from nfd.runtime import log
from nfd.runtime.threads import start_thread

CHILD = "gfd.nvml.events"
END = 0.5
"""Seconds that the child has to shut NVML down, before it is killed."""
AGAIN = (1.0, 300.0)
"""Seconds until a child that has ended is started again: at first, and at most."""
LASTING = 60.0
"""Seconds of running after which a child that ends is started again as if it had been the first."""
_PIECE = 65536

_log = log.get("gfd")


class Wanted(NamedTuple):
    """What to wait for."""

    xids: tuple[int, ...]
    uuids: frozenset[str]
    """The GPUs that answer; with a further one, the child begins anew."""


class XidEvents:
    """What GPUs had. Until `follow` names GPUs and Xids there is neither child nor thread."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._xids, self._lock = Xids(), Lock()
        self._wanted: Wanted | None = None
        self._closing = False
        self._thread: Thread | None = None
        self._orders, self._news = Bell(), Bell()
        self._reason = self._watched = ""
        self.child = 0
        """Its process id; 0 if there is none."""

    def fileno(self) -> int:
        """Readable when a GPU has a new Xid."""
        return self._news.fileno()

    def take(self) -> bool:
        """Whether a GPU has had a new Xid since the last call."""
        return self._news.take()

    def due(self) -> float:
        """Seconds until a reading may show that an Xid is over."""
        with self._lock:
            return self._xids.due(time.monotonic())

    def follow(self, xids: tuple[int, ...], fresh: Inventory) -> None:
        """Wait for these Xids of the GPUs of a reading; without either, the child is ended."""
        with self._lock:
            self._xids.keep(xids)
            self._xids.review(fresh, time.monotonic())
        asked = fresh.backend == "nvml" and fresh.trouble is None
        uuids = frozenset(gpu.uuid for gpu in fresh.gpus if gpu.uuid and asked)
        before = self._wanted
        if not xids or not uuids:
            wanted = None
        elif before is not None and xids == before.xids and before.uuids >= uuids:
            wanted = before  # one that is silent for a moment is no reason to miss events of the others
        else:
            wanted = Wanted(xids, uuids)
        if wanted != before:
            self._wanted = wanted
            self._orders.ring()
        if wanted is not None and self._thread is None and not self._closing:
            self._thread = start_thread("xid events", self._run, again=True)

    def mark(self, inventory: Inventory, xids: tuple[int, ...]) -> Inventory:
        """The inventory with the Xids of each GPU."""
        with self._lock:
            return self._xids.mark(inventory, xids)

    def stop(self) -> None:
        """End the child at once; may be called by a signal handler."""
        self._closing = True
        self._orders.ring()

    def close(self) -> None:
        """End the child, and wait until it has ended."""
        self.stop()
        if self._thread is not None:
            self._thread.join(4 * END)

    def _run(self) -> None:
        """Start the child whenever there is something to wait for, less often while it fails."""
        pause = AGAIN[0]
        while not self._closing:
            wanted = self._wanted
            if wanted is None:
                self._rest(None)
                continue
            began = time.monotonic()
            reason = self._watch(wanted)
            lasted = time.monotonic() - began >= LASTING
            pause = AGAIN[0] if lasted or not reason else pause
            if reason:
                self._complain("" if lasted else self._reason, reason)
                self._rest(pause)
                pause = min(pause * 2, AGAIN[1])

    def _complain(self, before: str, reason: str) -> None:
        """Once for as long as the child fails for the same reason."""
        self._reason = reason
        if reason != before:
            _log.warning("cannot wait for Xid events; trying again", error=reason)

    def _confirm(self, gpus: str) -> None:
        """Once for as long as it waits for the same number of GPUs."""
        if gpus != self._watched:
            self._watched = gpus
            _log.info("waiting for Xid events", gpus=gpus)

    def _rest(self, seconds: float | None) -> None:
        """That long, or until something else is wanted."""
        self._orders.wait(seconds)
        self._orders.take()

    def _watch(self, wanted: Wanted) -> str:
        """Run the child. Returns: why it ended; empty if it was to end."""
        words = (str(os.getpid()), self._library, ",".join(map(str, wanted.xids)))
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", CHILD, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.child = child.pid
        try:
            return self._read(child, wanted)
        finally:
            end(child)
            self.child = 0

    def _read(self, child: subprocess.Popen[bytes], wanted: Wanted) -> str:
        """Take what the child prints, until it ends or is to end."""
        assert child.stdout is not None
        output, rest, reason = child.stdout.fileno(), b"", ""
        while self._wanted == wanted and not self._closing:
            readable = self._orders.wait(None, output)
            self._orders.take()
            if output not in readable:
                continue
            piece = os.read(output, _PIECE)
            if not piece:
                return reason or f"the process that waits for them ended, status {child.wait()}"
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                reason = self._hear(line.decode(errors="replace")) or reason
        return ""

    def _hear(self, line: str) -> str:
        """Take one line of the child. Returns: the reason, if it says why it ends."""
        kind, _, rest = line.partition(" ")
        if kind == "error":
            return rest
        first, _, second = rest.partition(" ")
        if kind == "ready":
            self._confirm(f"{first} of {second}")
        elif kind == "xid":
            with self._lock:
                new = self._xids.add(second, int(first), time.monotonic())
            if new:
                self._news.ring()
        return ""


class Bell:
    """A descriptor that is readable from `ring` to `take`."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._descriptor

    def ring(self) -> None:
        os.eventfd_write(self._descriptor, 1)

    def take(self) -> bool:
        """Whether it rang."""
        try:
            return os.eventfd_read(self._descriptor) > 0
        except BlockingIOError:
            return False

    def wait(self, seconds: float | None, *others: int) -> set[int]:
        """Until it rings, or one of the other descriptors is readable; that long at most. Returns: those that are."""
        arrival = select.poll()
        for descriptor in (self._descriptor, *others):
            arrival.register(descriptor, select.POLLIN)
        return {descriptor for descriptor, _ in arrival.poll(None if seconds is None else seconds * 1000)}


def end(child: subprocess.Popen[bytes]) -> None:
    """End a process: first it may shut NVML down."""
    with suppress(ProcessLookupError):
        child.terminate()
    try:
        child.wait(END)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdout is not None:
        child.stdout.close()
