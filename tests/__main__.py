"""`make test`: all tests, in two pytest processes side by side, since tests wait for most of their time.

Each process has a control plane of its own. The output of the second is printed when both have ended. With arguments
it is one plain pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FIRST = ("chaos", "kube", "rpc", "events", "topology", "worker", "master", "faults", "e2e")
"""The folders of the first process. Those of the second are all others, so that none is left out."""
LATE = ("consumers", "page", "release", "deploy")
"""They need programs and images that others build meanwhile."""
LAST = "e2e/test_session_rights.py"
"""It looks back at what a process asked its API server for, so each runs it."""


def halves() -> tuple[list[str], list[str]]:
    """The paths for each process. The halves take about the same time."""
    others = {path.name for path in HERE.iterdir() if path.name.startswith("test_") or any(path.rglob("test_*.py"))}
    if missing := {*FIRST, *LATE} - others:
        raise FileNotFoundError(f"no tests in {', '.join(sorted(missing))}")
    second = [*sorted(others - {*FIRST, *LATE}), *LATE, LAST]
    return [str(HERE / name) for name in FIRST], [str(HERE / name) for name in second]


def main(arguments: list[str]) -> int:
    pytest = [sys.executable, "-m", "pytest"]
    if arguments:
        return subprocess.call([*pytest, *arguments])
    first, second = halves()
    with tempfile.TemporaryFile() as output:
        running = subprocess.Popen([*pytest, *second], stdout=output, stderr=subprocess.STDOUT)
        try:
            status = subprocess.call([*pytest, *first])
            print("the other half of the tests:", flush=True)
            status = running.wait() or status
        except KeyboardInterrupt:  # both have been interrupted
            status = running.wait()
        output.seek(0)
        os.write(1, output.read())
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
