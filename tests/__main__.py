"""`make test`: all tests, in two pytest processes side by side, since tests wait for most of their time.

Each process has a control plane of its own. The output of the second goes into a file, and is printed at the end. With
arguments it is one plain pytest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.controlplane.process import TETHER

HERE = Path(__file__).parent
OUTPUT = HERE.parent / ".state/tests.log"
OWN_CACHE = ("-o", "cache_dir=.pytest_cache/second")
"""The second process does not write over what the first one says of its failures."""
FIRST = ("chaos", "kube", "rpc", "events", "topology", "worker", "master", "faults", "e2e")
"""The folders of the first process. Those of the second are all others, so that none is left out."""
LATE = ("consumers", "page", "release", "deploy")
"""They need programs and images that others build meanwhile."""
LAST = "e2e/test_session_rights.py"
"""It looks back at what a process asked its API server for, so each runs it."""


def halves() -> tuple[list[str], list[str]]:
    """The paths for each process. The halves take about the same time."""
    everything = {path.name for path in HERE.iterdir() if path.name.startswith("test_") or any(path.rglob("test_*.py"))}
    if missing := {*FIRST, *LATE} - everything:
        raise FileNotFoundError(f"no tests in {', '.join(sorted(missing))}")
    second = [*sorted(everything - {*FIRST, *LATE}), *LATE, LAST]
    return [str(HERE / name) for name in FIRST], [str(HERE / name) for name in second]


def main(arguments: list[str]) -> int:
    pytest = [sys.executable, "-m", "pytest"]
    if arguments:
        os.execv(sys.executable, [*pytest, *arguments])
    tethered = [sys.executable, "-I", "-S", "-c", TETHER, str(os.getpid()), *pytest]
    first, second = halves()
    OUTPUT.parent.mkdir(exist_ok=True)
    print(f"half of the tests write to {OUTPUT}", flush=True)
    with OUTPUT.open("wb+") as output:
        running = [
            subprocess.Popen([*tethered, *first]),
            subprocess.Popen([*tethered, *OWN_CACHE, *second], stdout=output, stderr=output),
        ]
        statuses = list(map(ended, running))
        output.seek(0)
        print("the other half of the tests:", flush=True)
        sys.stdout.buffer.write(output.read())
    return next(filter(None, statuses), 0)


def ended(process: subprocess.Popen[bytes]) -> int:
    """Its exit status. Ctrl-C interrupts both processes, which then end by themselves, with a status that is not 0."""
    interrupted = False
    while True:
        try:
            return process.wait() or (128 + signal.SIGINT if interrupted else 0)
        except KeyboardInterrupt:
            interrupted = True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
