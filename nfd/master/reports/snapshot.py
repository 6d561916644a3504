"""A file with the latest report of each node, for a master whose process has ended and starts again.

The file is a line, messages of `nfd.rpc.replication_messages` with their lengths, and an HMAC (RFC 2104, SHA-256) over
both with the masters' key. It contains no token.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from nfd.errors import said
from nfd.master.node.proof import Proof
from nfd.master.reports.store import ReportStore
from nfd.rpc.convert import Content
from nfd.rpc.replication_messages import Copy, Decoder, Digests, Encoder
from nfd.runtime import log
from nfd.runtime.files import replace_file

FORMAT = b"nfd-master reports 1\n"
LARGEST = 64 * 1024 * 1024
"""Bytes. 5,000 alike nodes take 1.5 MB."""
INTERVAL = 5.0
"""The least seconds between two snapshots."""
SHARE = 0.01
"""The largest share of a core that snapshots take."""
_LENGTH = struct.Struct(">I")
_SEAL = 32
_log = log.get("master")


class Snapshot:
    """Writes the reports to `path` when `changed` was called. Without a lasting key there is no file.

    `written` is the time of the last one, in seconds since the epoch; None without one.
    """

    def __init__(self, path: Path, reports: ReportStore, proof: Proof) -> None:
        self.written: float | None = None
        self._path = path
        self._reports = reports
        self._proof = proof
        self._digests = Digests()
        self._changed = asyncio.Event()
        self._problem = ""

    def changed(self) -> None:
        """A report says something new."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            began = time.process_time()
            await self._write()
            await asyncio.sleep(max(INTERVAL, (time.process_time() - began) / SHARE))

    def load(self, known: Callable[[bytes], Content | None]) -> list[Copy]:
        """The reports in the file; none if it does not exist, or cannot be used, which is logged."""
        try:
            data, self.written = read_private(self._path)
            return list(decode(data, self._proof, known))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            self.written = None
            _log.warning("snapshot ignored", path=str(self._path), error=said(error))
            return []

    async def _write(self) -> None:
        if not self._proof.lasting or not len(self._reports):
            return
        try:
            data = await self._encode()
            await asyncio.to_thread(replace_file, self._path, data, 0o600)
        except OSError as error:
            if (problem := said(error)) != self._problem:
                self._problem = problem
                _log.warning("cannot write snapshot; trying again", path=str(self._path), error=problem)
            self._changed.set()
            return
        self._problem, self.written = "", time.time()

    async def _encode(self) -> bytes:
        """In slices, so that reports are answered meanwhile. Raises: OSError if it is too large."""
        data, encoder, copies = bytearray(FORMAT), Encoder(self._digests), self._copies()
        while (one := next(copies, None)) is not None:
            message = encoder.encode(chain((one,), copies))
            data += _LENGTH.pack(len(message)) + message
            if len(data) > LARGEST:
                raise OSError(errno.EFBIG, f"would be larger than {LARGEST // 1024 // 1024} MiB", str(self._path))
            await asyncio.sleep(0)
        return bytes(data) + self._proof.seal(bytes(data))

    def _copies(self) -> Iterator[Copy]:
        for name in self._reports.names():
            if (one := self._reports.inherited(name)) is not None:
                yield Copy(one.report, one.uid)


def decode(data: bytes, proof: Proof, known: Callable[[bytes], Content | None]) -> Iterator[Copy]:
    """The reports of a snapshot. Raises: ValueError."""
    if not data.startswith(FORMAT):
        raise ValueError("it is not a snapshot of this version")
    content, seal = data[:-_SEAL], data[-_SEAL:]
    if not proof.lasting or not hmac.compare_digest(proof.seal(content), seal):
        raise ValueError("it is damaged, or another cluster's")
    decoder, at = Decoder(known), len(FORMAT)
    while at < len(content):
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        yield from decoder.decode(content[at : at + length]).copies
        at += length


def read_private(path: Path) -> tuple[bytes, float]:
    """The content and time of a regular file that only its owner, this user, may read or write. Raises: OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise OSError(errno.EACCES, "is not a file that only this user may read and write", str(path))
        if found.st_size > LARGEST + _SEAL:
            raise OSError(errno.EFBIG, "is too large", str(path))
        return file.read(LARGEST + _SEAL + 1), found.st_mtime
