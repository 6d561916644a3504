"""`python -m tests.docs.newcomer [REPOSITORY]` takes the steps of docs/getting-started.md in a fresh clone, and tells
how long each took. REPOSITORY is this checkout unless given; only what is committed is in a clone of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.children import run
from tests.docs.cluster import READY

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/getting-started.md"
_STEP = re.compile(r"^## (\d+\. .*?)$(.*?)(?=^## )", re.M | re.S)
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
_CLUSTER = "make cluster"
_AGE = re.compile(r"(?<=  )\d+[smhd](?: +|$)", re.M)


@dataclass(frozen=True)
class Block:
    """Commands of a step, and what they print."""

    step: str
    commands: tuple[str, ...]
    output: str


@dataclass
class Shell:
    """Runs commands in a folder, with what earlier ones exported."""

    folder: Path
    exported: list[str] = field(default_factory=list)

    def run(self, commands: tuple[str, ...]) -> str:
        """What they print to standard output. Raises: ChildError."""
        script = "\n".join(["set -e", *self.exported, *commands])
        self.exported += [line for line in commands if line.startswith("export ")]
        answer = run(["bash", "-c", script], cwd=self.folder, stderr=None)
        return _AGE.sub(lambda found: "2m".ljust(len(found[0])) if found[0].endswith(" ") else "2m", answer.stdout)


def blocks() -> Iterator[Block]:
    for step, text in _STEP.findall(PAGE.read_text()):
        for block in _BLOCK.findall(text):
            lines = block.splitlines(keepends=True)
            commands = tuple(line[2:].rstrip() for line in lines if line.startswith("$ "))
            yield Block(step, commands, "".join(line for line in lines if not line.startswith("$ ")))


def start_cluster(folder: Path) -> subprocess.Popen[str]:
    """`make cluster`, until it says that the cluster is ready."""
    command = ["make", "--no-print-directory", "cluster"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, start_new_session=True)
    for line in process.stdout or ():
        print(f"    {line}", end="", flush=True)
        if line.strip() == READY:
            return process
    raise SystemExit("make cluster ended too early")


def main(repository: str = str(ROOT)) -> int:
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        shell, cluster = Shell(Path(temporary)), None
        try:
            for block in blocks():
                print(f"{block.step}: {'; '.join(block.commands)}", flush=True)
                start = time.monotonic()
                if _CLUSTER in block.commands:
                    cluster = start_cluster(shell.folder)
                else:
                    commands = tuple(one.replace("REPOSITORY", repository) for one in block.commands)
                    check(block, shell.run(commands))
                seconds[block.step] = seconds.get(block.step, 0.0) + time.monotonic() - start
                if "cd node-features" in block.commands:
                    shell.folder /= "node-features"
        finally:
            if cluster is not None:
                os.killpg(cluster.pid, signal.SIGINT)
                cluster.wait(60)
    print("".join(f"{taken:7.1f} s  {step}\n" for step, taken in [*seconds.items(), ("all", sum(seconds.values()))]))
    return 0


def check(block: Block, printed: str) -> None:
    if block.output and printed.splitlines() != block.output.splitlines():
        raise SystemExit(f"step {block.step} printed:\n{printed}where the page has:\n{block.output}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
