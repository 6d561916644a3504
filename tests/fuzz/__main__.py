"""Fuzzing at length: `python -m tests.fuzz [--inputs N] [--seed TEXT] [TARGET…]`, or `make fuzz`.

Each target is a process of its own. What was interrupted goes on where it was; what was finished begins anew, with the
next seed. A finding is written to a file, with the command that runs it again: `--input FILE TARGET`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
import traceback
from math import inf
from pathlib import Path

from tests.fuzz.run import BLOCK, HEAD, ROOM, Tally, load, minimised, run_block, run_input, save
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

FOLDER = Path(".state/fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of each target")
    parser.add_argument("--seed", default="", help="any text; default: the day, or that of what was interrupted")
    parser.add_argument("--seconds", type=float, default=inf, help="of each target; call again to go on")
    parser.add_argument("--input", type=Path, help="run this one input, and show what it comes to")
    parser.add_argument("--minimise", action="store_true", help="and write the shortest one that fails alike beside it")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    args = parser.parse_args()
    if unknown := [name for name in args.targets if name not in TARGETS]:
        parser.error(f"no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    if args.input:
        return run_one(TARGETS[args.targets[0]], args.input, minimise=args.minimise)
    if len(args.targets) == 1:
        return run_target(TARGETS[args.targets[0]], args.inputs, args.seed, args.seconds)
    print(HEAD, flush=True)
    common = (
        sys.executable,
        "-m",
        "tests.fuzz",
        f"--inputs={args.inputs}",
        f"--seed={args.seed}",
        f"--seconds={args.seconds}",
    )
    return max([subprocess.run((*common, name), check=False).returncode for name in args.targets or TARGETS])


def run_target(target: Target, inputs: int, seed: str, seconds: float) -> int:
    """All blocks that are missing, or those for which there is time; one line at the end."""
    path = FOLDER / f"{target.name}.json"
    tally = load(path)
    if tally.inputs >= inputs or (seed and seed != tally.seed):
        tally = Tally()
    tally.seed = tally.seed or seed or time.strftime("%Y%m%d-%H%M")
    target.seeds()
    until = time.monotonic() + seconds
    while tally.inputs < inputs and time.monotonic() < until:
        size = min(BLOCK, inputs - tally.inputs)
        status = in_a_process(target, tally, size, path)
        if status == 0:
            tally = load(path)
            continue
        place = f"block {tally.inputs // BLOCK} of seed {tally.seed} ended with status {status}"
        print(f"found: {target.name}: {place}", flush=True)
        tally.found[place] = ""
        tally.inputs += size
        save(path, tally)
    print(tally.line(target), flush=True)
    return 1 if tally.found else 0


def in_a_process(target: Target, tally: Tally, size: int, path: Path) -> int:
    """One block, which saves what it came to; the exit status, negative for a signal: C code may crash."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        limit_memory()
        run_block(target, tally, tally.inputs // BLOCK, size, FOLDER / "found")
        save(path, tally)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def limit_memory() -> None:
    """An input that wants more than ROOM is a MemoryError, which no target has among its errors."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def run_one(target: Target, path: Path, *, minimise: bool) -> int:
    data = path.read_bytes()
    if minimise:
        data = minimised(target, data)
        path.with_suffix(".min").write_bytes(data)
    print(repr(data[:2000]))
    kind, seconds = run_input(target, data, again=True)
    print(f"{kind}\n{seconds * 1000:.1f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
