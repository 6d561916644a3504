"""Files that are named by somebody: pipes with and without a writer, and what nobody should wait for."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nfd.config import named_files
from nfd.config.named_files import read_bytes
from nfd.errors import ConfigError, KubeError, ReportError
from nfd.kube.client import connect
from nfd.report import Report
from nfd.rpc.client import Reporter
from nfd.rpc.tls import TlsFiles
from nfd.store.file import FileStore


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_pipe_without_a_writer_is_not_waited_for(pipe: Path) -> None:
    """For as long as a command beside ours needs to start, and no longer."""
    begun = time.monotonic()
    with pytest.raises(OSError, match="is a pipe without a writer"):
        read_bytes(pipe, pipes=True)
    assert time.monotonic() - begun >= named_files.PATIENCE


def test_one_who_writes_is_waited_for(pipe: Path) -> None:
    """However long it takes: here longer than somebody who never comes."""

    def write() -> None:
        with pipe.open("wb") as file:
            file.write(b"a")
            file.flush()
            time.sleep(named_files.PATIENCE + 0.5)
            file.write(b"b")

    with ThreadPoolExecutor() as pool:
        written = pool.submit(write)
        assert read_bytes(pipe, pipes=True) == b"ab"
        written.result(10)


def test_one_who_thinks_first_is_waited_for(pipe: Path) -> None:
    read, write = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), os.open(pipe, os.O_WRONLY)
    os.close(read)
    timer = threading.Timer(named_files.PATIENCE + 0.5, lambda: (os.write(write, b"ab"), os.close(write)))
    timer.start()
    assert read_bytes(pipe, pipes=True) == b"ab"
    timer.join()


def test_one_who_writes_nothing_has_written_an_empty_file(pipe: Path) -> None:
    with ThreadPoolExecutor() as pool:
        written = pool.submit(pipe.write_bytes, b"")
        assert read_bytes(pipe, pipes=True) == b""
        written.result(10)


async def test_daemons_take_no_pipe(pipe: Path, tmp_path: Path) -> None:
    """Whatever they read again and again: tokens, certificates, kubeconfigs, Nodes in files."""
    with pytest.raises(OSError, match="not a regular file"):
        TlsFiles(ca=str(pipe)).read()
    with pytest.raises(ReportError, match="not a regular file"):
        Reporter("localhost:1", token_file=str(pipe)).send(Report("node-1"))
    with pytest.raises(ConfigError, match="not a regular file"):
        await connect(str(pipe))
    os.mkfifo(tmp_path / "node-1.yaml")
    with pytest.raises(KubeError, match="not a regular file"):
        await FileStore(tmp_path).read("node-1")
