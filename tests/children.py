"""Child processes of tests and measurements. One that fails raises an error that says what it complained about.

`subprocess.CalledProcessError` names the command and the exit status alone. `tests.test_children` sees to it that no
other file asks `subprocess` for a check.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

END = 3000
"""Characters of a child's output that an error has at most; the last ones, which tell why it ended."""


LOGS: dict[Path, str] = {}
"""Files that children started in the background write to, with the name of each: a test that fails shows their ends."""


class ChildError(Exception):
    """A child failed, or was not over in time: the command, how it ended, and the end of what it printed."""


def run(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` with both outputs as text. Raises: ChildError."""
    return _run(command, {"text": True, "errors": "replace", **options})


def run_binary(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The same with outputs, and `input`, as bytes."""
    return _run(command, options)


def ends_of_logs(since: float) -> list[tuple[str, str]]:
    """Name and last characters of each log written to since then, in seconds since the epoch."""
    there = ((path, name) for path, name in LOGS.items() if path.exists() and path.stat().st_mtime >= since)
    return [(name, path.read_text(errors="replace")[-END:]) for path, name in there]


def _run(command: Sequence[str | Path], options: dict[str, Any]) -> subprocess.CompletedProcess[Any]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    words = shlex.join(map(str, command))
    try:
        done = subprocess.run(list(command), **{**pipes, **options}, check=False)
    except subprocess.TimeoutExpired as error:
        raise ChildError(f"{words}: not over after {error.timeout:g} s{_said(error.stdout, error.stderr)}") from error
    if done.returncode:
        raise ChildError(f"{words}: exit status {done.returncode}{_said(done.stdout, done.stderr)}")
    return done


def _said(out: str | bytes | None, err: str | bytes | None) -> str:
    """Standard error, or the output of a child that had nothing to say there."""
    text = (_text(err).strip() or _text(out).strip())[-END:]
    return f":\n{text}" if text else ", without a word"


def _text(data: str | bytes | None) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data or ""
