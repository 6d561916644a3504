"""`nfd` as a process: closed pipes, interrupts, terminals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def call(*words: str, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "nfd.cli", *words], **options)  # type: ignore[call-overload, no-any-return]


def test_a_closed_pipe_is_no_error(machine: str) -> None:
    read, write = os.pipe()
    os.close(read)
    process = call("discover", "--replay", machine, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"Traceback" not in err


@pytest.mark.parametrize("words", [("discover", "-o", "json"), ("discover", "-o", "labels"), ("--help",)])
def test_a_full_disk_is_one_line(machine: str, words: tuple[str, ...]) -> None:
    replay = ("--replay", machine) if words[0] == "discover" else ()
    with Path("/dev/full").open("wb") as full:
        process = call(*words, *replay, stdout=full, stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err == b"nfd: standard output: No space left on device\n"


@pytest.mark.parametrize("program", ["nfd.worker", "nfd.master.cli", "gfd.cli"])
def test_help_into_a_closed_pipe_is_no_error(program: str) -> None:
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen([sys.executable, "-m", program, "--help"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert b"Traceback" not in err
    assert process.returncode == 0


@pytest.mark.parametrize(
    "program", ["nfd-worker", "nfd-master", "nfd-gc", "nfd-topology-updater", "gpu-feature-discovery"]
)
def test_a_program_that_cannot_answer_says_so_in_one_line(program: str) -> None:
    for redirection, reason in ((">/dev/full", "No space left on device"), (">&-", "is closed")):
        words = ["sh", "-c", f'exec "$@" {redirection}', "sh", Path(sys.executable).with_name(program), "--version"]
        done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert done.returncode == 1
        assert done.stderr.endswith(f": standard output: {reason}\n")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("module", ["nfd.worker.cli", "nfd.master.cli", "nfd.gc.cli", "nfd.topology.cli"])
def test_a_daemon_is_not_ended_by_signals_that_mean_nothing(module: str) -> None:
    """Nor are NFD's."""
    code = f"import os, sys, {module} as one; sys.argv[1:] = ['--version']; one.main(); os.kill(os.getpid(), {{}})"
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        words = [sys.executable, "-c", code.format(int(number))]
        assert subprocess.run(words, stdout=subprocess.DEVNULL, timeout=60, check=False).returncode == 0


def test_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it, and so do its children
    try:
        process = call("config", "validate", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    deadline, seen = time.monotonic() + 60, 0
    while seen < 5:
        assert time.monotonic() < deadline, "it does not read its standard input"
        seen = seen + 1 if waits(process.pid) else 0
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")


def waits(pid: int) -> bytes:
    """R once the process waits for its standard input."""
    try:
        return b"R" if b"pipe" in Path(f"/proc/{pid}/wchan").read_bytes() else b""
    except OSError:
        return b""


def test_colours_on_a_terminal_only(machine: str) -> None:
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        ours, theirs = pty.openpty()
        rest = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        process = call("discover", "--replay", machine, stdout=theirs, env={**rest, "TERM": "xterm", **environment})
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 65536):
                seen += part
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        assert process.wait(60) == 0
        assert (b"\x1b[" in seen) is coloured
        assert b"labels from" in seen


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("up", "--oneshot"), "nfd up: the following arguments are required: --nodes (see nfd up --help)\n"),
        (("up", "--help"), ""),
        (("nodes",), "nfd nodes: no --kubeconfig or KUBECONFIG, and not in a pod"),
    ],
)
def test_a_user_without_a_home(words: tuple[str, ...], said: str) -> None:
    """A container's user that no passwd file knows, and no HOME."""
    env = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH")}
    command = ["unshare", "--user", "--map-user=12345", sys.executable, "-m", "nfd.cli", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
