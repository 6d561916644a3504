"""The master of `nfd up`."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from nfd.master.node.reconcile import ReconcileOptions as MasterSettings
from nfd.master.security.proof_key import file_key
from nfd.master.service import Options, Service
from nfd.runtime import tasks
from nfd.runtime.threads import start_thread
from nfd.store.file import FileStore

LOOPBACK = "127.0.0.1"


class LocalMaster:
    """A master on loopback with the embedded node store, in its own thread while the context is open."""

    def __init__(self, folder: Path) -> None:
        self.port = 0
        self.failed = False
        self._folder = folder
        self._ready = threading.Event()
        self._error: Exception | None = None
        self._end: Callable[[], object] = lambda: None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> LocalMaster:
        self._thread = start_thread("nfd-master", self._run)
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            tasks.run(self._serve())
        except Exception as error:  # `__enter__` raises it during the start
            if self._ready.is_set():
                self.failed = True
                os.kill(os.getpid(), signal.SIGTERM)  # without a master, end the program
                raise
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        settings = MasterSettings(proof=file_key(self._folder))
        options = Options(host=LOOPBACK, port=0, http_port=None, settings=settings)
        service = Service(FileStore(self._folder), options)
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._end = lambda: loop.call_soon_threadsafe(stop.set)
        try:
            await service.start()
            self.port = service.port
            self._ready.set()
            await stop.wait()
        finally:
            await service.stop()
