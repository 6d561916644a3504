"""Break each guard in a copy of the tree and see its test fail. Exit status 1 if one does not.

Each broken copy gets a process and, where its test needs one, a control plane of its own: half a minute each.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from tests.guards.guard import Guard
from tests.guards.lines import GUARDS

ROOT = Path(__file__).parents[2]
PARTS = ("nfd", "gfd", "tests", "bench", "deploy", "pyproject.toml")
JOBS = min(os.cpu_count() or 1, 4)
LIMIT = 300.0
"""Seconds for one test, with the start of pytest and of a control plane."""
_FAILED = re.compile(r"^FAILED ", re.MULTILINE)


def main(words: list[str]) -> int:
    chosen = [guard for guard in GUARDS if not words or any(word in guard.file + guard.test for word in words)]
    if not chosen:
        print(f"no guard has {' or '.join(map(repr, words))} in its file or its test", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="nfd-guards-") as folder:
        trees: Queue[Path] = Queue()
        for number in range(JOBS):
            trees.put(copy_tree(Path(folder, str(number))))
        tree = trees.queue[0]
        tests = sorted({guard.test for guard in chosen})
        status, said = run(tree, *tests)
        if status:
            print(said)
            print("the tests fail although nothing is broken")
            return 1
        print(f"{len(tests)} tests pass as the code is; breaking {len(chosen)} guards", flush=True)
        with ThreadPoolExecutor(JOBS) as threads:
            found = list(threads.map(lambda guard: notices(trees, guard), chosen))
        unnoticed = found.count(False)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} broken guards were noticed")
    return 1 if unnoticed else 0


def copy_tree(folder: Path) -> Path:
    folder.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=ignore)
        else:
            shutil.copy(ROOT / part, folder / part)
    return folder


def notices(trees: Queue[Path], guard: Guard) -> bool:
    """Whether the test fails, as a test, while the guard is broken in one of the trees, which nobody else has then."""
    tree, began = trees.get(), time.monotonic()
    file = tree / guard.file
    whole = file.read_text()
    file.write_text(broken(guard, whole))
    try:
        status, said = run(tree, guard.test)
    finally:
        file.write_text(whole)
        trees.put(tree)
    noticed = status == 1 and _FAILED.search(said) is not None
    first = guard.text.strip().splitlines()[0].strip()
    verdict = "noticed" if noticed else "NOT NOTICED"
    lines = f"{verdict} in {time.monotonic() - began:.0f} s: {guard.file}: {first}\n    {guard.test}"
    print(lines if noticed else f"{lines}\n{said[-2000:]}", flush=True)
    return noticed


def broken(guard: Guard, text: str) -> str:
    """The file's text without the guard. Raises: ValueError if it is not there, or more than once."""
    if (count := text.count(guard.text)) != 1:
        raise ValueError(
            f"{guard.file}: {guard.text!r} is there {count} times; the list of guards has to follow the code"
        )
    return text.replace(guard.text, guard.broken)


def run(tree: Path, *tests: str) -> tuple[int, str]:
    """Exit status and output of pytest in the copy; our programs, too, run from there."""
    limit = LIMIT * len(tests)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x", "--tb=short", *tests]
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return -1, f"not over within {limit:.0f} s"
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
