"""Runs targets in blocks of inputs that depend on seed, target and block alone, and keeps what they found."""

from __future__ import annotations

import hashlib
import json
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz.target import Broken, Made, Target, check, outcome

BLOCK = 10_000
KEPT = 2_000
"""Inputs with a new outcome that a block goes on from."""
TWICE = 32
"""Of so many inputs one is run again, to the same end."""
HANGS = 30, 600
"""Seconds, of CPU and by the clock, after which an input is given up: a busy machine is no finding."""
ROOM = 512
"""MiB by which a target's process may grow."""


@dataclass
class Tally:
    """How far a target is; `found` are the signatures of what went wrong."""

    seed: str = ""
    inputs: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    grown: float = 0.0
    outcomes: set[str] = field(default_factory=set)
    found: dict[str, str] = field(default_factory=dict)

    def line(self, target: Target) -> str:
        rate = self.inputs / self.seconds if self.seconds else 0.0
        return (
            f"{target.name:16} {self.inputs:>9,} {self.seconds:>7.0f} {rate:>7,.0f} {len(self.outcomes):>8,}"
            f" {self.slowest * 1000:>7.1f} {self.grown:>6.0f} {len(self.found):>5}"
        )


_NUMBER = re.compile(r"\d+")

HEAD = f"{'target':16} {'inputs':>9} {'seconds':>7} {'1/s':>7} {'outcomes':>8} {'max ms':>7} {'+MiB':>6} {'found':>5}"


def run_block(target: Target, tally: Tally, number: int, size: int, folder: Path) -> None:
    """The inputs of one block, each on its own: what one of them brings out does not stop the others."""
    with giving_up():
        _run_block(target, tally, number, size, folder)


def _run_block(target: Target, tally: Tally, number: int, size: int, folder: Path) -> None:
    chance = Random(f"{tally.seed} {target.name} {number}")
    corpus = list(target.seeds())
    known: set[str] = set()
    before, began = memory(), time.perf_counter()
    for index in range(size):
        data = corpus[index] if index < len(corpus) and number == 0 else target.make(chance, corpus)
        try:
            kind, seconds = run_input(target, data, again=index % TWICE == 0)
        except Exception as error:
            report(target, tally, data, error, folder)
            continue
        tally.slowest = max(tally.slowest, seconds)
        if kind not in known:
            known.add(kind)
            if len(corpus) < KEPT:
                corpus.append(data)
    tally.outcomes |= known
    tally.inputs += size
    tally.seconds += time.perf_counter() - began
    tally.grown = max(tally.grown, memory() - before)


def run_input(target: Target, data: bytes, *, again: bool = False) -> tuple[str, float]:
    """The outcome's kind, and CPU seconds. Raises: whatever is a finding."""
    signal.setitimer(signal.ITIMER_PROF, HANGS[0])
    signal.setitimer(signal.ITIMER_REAL, HANGS[1])
    made, seconds = timed(target, data)
    if seconds > target.seconds:  # once more: it may have been the garbage of others that was collected
        made, seconds = timed(target, data)
    check(seconds <= target.seconds, f"takes {target.seconds} s at most, not {seconds:.2f}")
    if again:
        check(_same(outcome(target, data), made), "the same input has the same outcome")
    return made[0], seconds


def timed(target: Target, data: bytes) -> tuple[Made, float]:
    start = time.thread_time()
    made = outcome(target, data)
    return made, time.thread_time() - start


def _same(one: Made, other: Made) -> bool:
    return one == other or repr(one) == repr(other)  # NaN differs from itself


def report(target: Target, tally: Tally, data: bytes, error: Exception, folder: Path) -> None:
    """Write the input down, the smallest one for each place where something went wrong, and say how to run it again."""
    signature = signature_of(error)
    name = f"{target.name}-{hashlib.sha256(signature.encode()).hexdigest()[:8]}"
    path = folder / name
    if signature in tally.found and path.exists() and path.stat().st_size <= len(data):
        return
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if signature not in tally.found:
        print(f"found: {signature}\n  again: {sys.executable} -m tests.fuzz --input {path} {target.name}", flush=True)
    tally.found[signature] = str(path)


def signature_of(error: Exception) -> str:
    """The kind of error and the last place in our own code."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if "/nfd/" in one.filename or "/gfd/" in one.filename] or frames
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
    return (
        f"Broken {_NUMBER.sub('_', str(error)[:100])!r}"
        if isinstance(error, Broken)
        else f"{type(error).__name__} {place}"
    )


def minimised(target: Target, data: bytes) -> bytes:
    """A shorter input that fails at the same place, by taking out parts."""
    wanted, part = _failure(target, data), len(data) // 2
    while part:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + part :]
            if _failure(target, shorter) == wanted:
                data = shorter
            else:
                at += part
        part //= 2
    return data


def _failure(target: Target, data: bytes) -> str:
    try:
        run_input(target, data)
    except Exception as error:
        return signature_of(error).partition(" ")[0]
    return ""


def load(path: Path) -> Tally:
    """What an earlier piece came to; a fresh one if there is none."""
    if not path.exists():
        return Tally()
    data = json.loads(path.read_text())
    return Tally(**{**data, "outcomes": set(data["outcomes"])})


def save(path: Path, tally: Tally) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({**asdict(tally), "outcomes": sorted(tally.outcomes)}))
    fresh.replace(path)


def memory() -> float:
    """MiB that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def giving_up() -> Iterator[None]:
    """Inputs in the block that take longer than HANGS raise Broken; in the main thread alone."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise Broken(f"does not end within {HANGS[0]} s of CPU, {HANGS[1]} by the clock")

    before = {number: signal.signal(number, give_up) for number in (signal.SIGPROF, signal.SIGALRM)}
    try:
        yield
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
