"""The functions that one label passes on its way from the machine to the patch of its Node, in a real pass.

`nfd up --oneshot` runs worker and master in one process, with gRPC on loopback between them. Every function of nfd and
gfd that returns the label, or the feature from which it is made, is a step. The walk ends with the patch: the node
store after it, and the screen of `nfd up`, are no part of it.

ARCHITECTURE.md has a table for each of `LABELS`. `python -m tests.docs.walk` prints the walks as JSON. With `--write`
it writes the tables anew, and keeps what they say of each file.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from google.protobuf.message import Message

from nfd.cli import main as nfd
from tests.nvml.library import build

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
LABELS = {
    "feature.node.kubernetes.io/pci-10de.present": ("pci-10de", "10de"),
    "nvidia.com/gpu.memory": ("nvidia.com/gpu.memory", "85520809984", "81559"),
}
"""Label -> texts by which a value is known to hold it, or what it is made from."""
MACHINE = ROOT / "tests/hosts/dgx-h100"
DRIVER = {
    "devices": [
        {"name": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "compute": "9.0", "pci": {"bus_id": "00000000:1B:00.0"}}
    ]
}
"""What the NVML test library reports."""
BESIDE = ("nfd/cli/", "nfd/store/", "nfd/config/")
"""What the walk does not count: it runs after the patch, or for `nfd up` alone."""
SOURCES = "all,-accelerator,-amd,-intel"
"""Not those that read the same PCI devices for labels of their own."""
DEPTH = 8
VALUES = 20_000
"""How far into one value we look."""
COMPREHENSIONS = frozenset(("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>"))


@dataclass
class Walk:
    """The steps of one walk, as file -> names of functions, in the order in which they first returned it."""

    texts: tuple[str, ...]
    steps: dict[str, list[str]] = field(default_factory=dict)

    @property
    def functions(self) -> int:
        return sum(map(len, self.steps.values()))


def trace(nodes: Path, *walks: Walk) -> None:
    """Run one pass over a recorded machine with a driver, and fill the walks."""
    config = nodes.with_name("worker.conf")
    config.write_text("sources: {nvidia: {profile: device-plugin}}\n")  # else the first report lacks GPU labels
    arguments = ["--host-root", str(MACHINE), "--nodes", str(nodes), "--sources", SOURCES, "--config", str(config)]
    with redirect_stdout(sys.stderr), _profiled(walks):
        status = nfd(["up", *arguments, "--oneshot"])
    assert status == 0


@contextmanager
def _profiled(walks: Sequence[Walk]) -> Iterator[None]:
    busy = threading.local()

    def on_event(frame: FrameType, event: str, value: Any) -> None:
        name = frame.f_code.co_filename
        if event != "return" or not name.startswith(str(ROOT)) or getattr(busy, "looking", False):
            return
        file = name.removeprefix(f"{ROOT}/")
        if not file.startswith(("nfd/", "gfd/")) or file.startswith(BESIDE) or frame.f_code.co_name in COMPREHENSIONS:
            return
        busy.looking = True
        try:
            for walk in walks:
                step = frame.f_code.co_qualname.replace(".<locals>", "")
                if step not in walk.steps.get(file, ()) and Looker(walk.texts).holds(value, DEPTH):
                    walk.steps.setdefault(file, []).append(step)
        finally:
            busy.looking = False

    before = sys.getprofile()
    threading.setprofile(on_event)
    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


class Looker:
    """Whether a value holds one of the texts, somewhere inside."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._texts = texts
        self._left = VALUES

    def holds(self, value: Any, depth: int) -> bool:
        self._left -= 1
        if depth < 0 or self._left < 0:
            return False
        if isinstance(value, str):
            return any(text in value for text in self._texts)
        if isinstance(value, int):
            return str(value) in self._texts
        if isinstance(value, Message):
            value = value.SerializeToString()
        if isinstance(value, bytes | bytearray):
            return any(text.encode() in value for text in self._texts)
        return any(self.holds(part, depth - 1) for part in _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key in value:
            yield key
            yield value[key]
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, one.name, None) for one in fields(value))


def tables(page: str) -> dict[str, dict[str, list[str]]]:
    """Label -> file -> functions, as the page says."""
    found: dict[str, dict[str, list[str]]] = {}
    for label, body in _sections(page).items():
        rows = [re.split(r" *\| *", line.strip("| ")) for line in body.splitlines() if line.startswith("| `")]
        found[label] = {row[0].strip("`"): re.findall(r"`([^`]+)`", row[1]) for row in rows}
    return found


def rewritten(page: str, walks: Mapping[str, Walk]) -> str:
    """The page with the tables as the walks are; a file that is new has an empty third column."""
    for label, body in _sections(page).items():
        about = dict(re.findall(r"^\| `([^`]+)` \|[^|]*\| ?(.*?) ?\|$", body, re.MULTILINE))
        walk = walks[label]
        rows = [
            f"| `{file}` | {', '.join(f'`{name}`' for name in names)} | {about.get(file, '')} |"
            for file, names in walk.steps.items()
        ]
        count = f"{walk.functions} functions in {len(walk.steps)} files."
        heading = f"### `{label}`"
        table = [heading, "", count, "", "| file | functions | what happens |", "| --- | --- | --- |", *rows, ""]
        page = page.replace(heading + body, "\n".join(table))
    return page


def _sections(page: str) -> dict[str, str]:
    """Label -> what stands below its heading, to the next heading or the end."""
    return {
        label: match[1]
        for label in LABELS
        if (match := re.search(rf"^### `{re.escape(label)}`$(.*?\n)(?=\n#|\Z)", page, re.MULTILINE | re.DOTALL))
    }


def main(*words: str) -> int:
    """Trace the walks, and print them or write them into the page."""
    walks = {label: Walk(texts) for label, texts in LABELS.items()}
    with tempfile.TemporaryDirectory() as folder:
        libraries = build(DRIVER, Path(folder, "driver"))
        os.environ.update(libraries.env)
        trace(Path(folder, "nodes"), *walks.values())
    if "--write" in words:
        PAGE.write_text(rewritten(PAGE.read_text(), walks))
    else:
        sys.stdout.write(json.dumps({label: walk.steps for label, walk in walks.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
