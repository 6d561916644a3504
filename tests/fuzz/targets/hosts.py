"""Whole sources on a machine of which one file is odd, and recordings whose `host.json` is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from gfd.source import SOURCE as NVIDIA
from nfd import labels as naming
from nfd.errors import ConfigError, HostError
from nfd.host.record import Recorder
from nfd.host.replay import RECORD, Replay
from nfd.labels import Naming
from nfd.source import Labelled, Partial, Source
from nfd.sources import BUILT_IN
from tests.fuzz import legal
from tests.fuzz.mutate import Bytes, pick
from tests.fuzz.target import Made, Target
from tests.fuzz.targets.machine import HOSTS
from tests.fuzz.trees import Trees, encoded

MACHINES = ("notebook", "raspberry-pi-4-xen")
LARGEST = 4096
SOURCES = {source.name: source for source in (*BUILT_IN, NVIDIA) if source.name not in ("custom", "fake", "local")}


@dataclass(frozen=True)
class Machine:
    """What one source reads of a recorded machine, in a folder of its own, its files small enough to be changed."""

    source: Source
    folder: Path
    files: tuple[str, ...]


@cache
def machines() -> dict[str, Machine]:
    folder = TemporaryDirectory(prefix="nfd-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    _KEPT.append(folder)
    found = {}
    for recording in MACHINES:
        for source in SOURCES.values():
            place = Path(folder.name, f"{recording}-{source.name}")
            recorder = Recorder(Replay(HOSTS / recording))
            source.discover(recorder, source.config())
            recorder.write(place)
            (place / RECORD).unlink()
            paths = (path for path in place.rglob("*") if path.is_file() and path.stat().st_size <= LARGEST)
            files = tuple(sorted(str(path.relative_to(place)) for path in paths))
            found[place.name] = Machine(source, place, files)
    return {name: machine for name, machine in found.items() if machine.files}


_KEPT: list[TemporaryDirectory[str]] = []


def some_files() -> Sequence[bytes]:
    """MACHINE PATH, a line break, and the content."""
    return [
        f"{name} {path}\n".encode() + (machine.folder / path).read_bytes()
        for name, machine in machines().items()
        for path in machine.files
    ]


def changed_file(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """The content changes, the place stays."""
    place, _, content = pick(chance, corpus).partition(b"\n")
    return place + b"\n" + _content(chance, (content, pick(chance, corpus).partition(b"\n")[2]))


def run_file(data: bytes) -> Made:
    place, _, content = data.partition(b"\n")
    name, _, path = place.decode().partition(" ")
    machine = machines()[name]
    file = machine.folder / path
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        return scan(machine.source, Replay(machine.folder))
    finally:
        file.write_bytes(before)


def scan(source: Source, host: Replay) -> Made:
    """The source alone; unlike in a pass over all, what it raises comes through."""
    try:
        found = source.discover(host, source.config())
        features = found.features if isinstance(found, Partial) else found
        made = source.labels(features, source.config())
    finally:
        host._tree.close()
    labels = made.labels if isinstance(made, Labelled) else made
    rules = Naming(source.name, source.verbatim, source.namespaced, source.cleaned, source.written)
    derived = naming.derive(rules, labels)
    legal.check_labels(derived.labels)
    counts = [len(derived.labels), len(derived.problems), len(host.take_notes())]
    return f"{source.name} {isinstance(found, Partial)} {counts}", (features, derived.labels)


def run_record(data: bytes) -> Made:
    """A recording that is nothing but a `host.json`: its probes, failures and variables."""
    folder = _KEPT[0].name if machines() else ""
    place = Path(folder, "record")
    place.mkdir(exist_ok=True)
    (place / RECORD).write_bytes(data)
    kinds = [scan(SOURCES[name], Replay(place))[0] for name in ("cpu", "system")]
    return " ".join(kinds), kinds


_content = Bytes("0x", "-", ",", "0-", "enabled", "Y", "[", "]", "ffff", "DRIVER=nvidia\n", "DRIVER=vfio-pci\n", "10de")
RECORDS = encoded(
    {
        "probes": {
            "cpuid": "0 0 1 2 3 4\nxcr0 7",
            "auxv": "HWCAP ff",
            "nvml": '{"backend": "nvml", "gpus": [{"index": 0, "name": "T4"}]}',
        },
        "failures": {"proc/cpuinfo": [13, "Permission denied"], "sys/bus/pci/devices/": [5, "I/O error"]},
        "unreachable": {"sys/fs": [13, "no"]},
        "environment": {"NODE_NAME": "n"},
        "time": 1.7e9,
    }
)

TARGETS = (
    Target("sysfs", "single files of /proc and /sys", some_files, changed_file, run_file, (HostError,), 1.0),
    Target(
        "host.json",
        "recorded machines",
        lambda: RECORDS,
        Trees("probes", "failures", "unreachable", "environment", "time", "probe:cpuid"),
        run_record,
        (ConfigError, HostError),
        1.0,
    ),
)
