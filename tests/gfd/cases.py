"""The cases of tests/cases/gfd: laid out, run and compared as its README says."""

import fnmatch
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.nvml.library import build
from tests.nvml.machines import lay_out

FOLDER = Path(__file__).parents[1] / "cases" / "gfd"
PROGRAM = Path(sys.executable).with_name("gpu-feature-discovery")
STAMP = "nvidia.com/gfd.timestamp"

GFD_OWN = re.compile(
    r"nvidia\.com/("
    r"gfd\.timestamp|cuda\.(driver|runtime)(-version)?\.(major|minor|rev|revision|full)|(mig|mps)\.capable"
    r"|mig\.strategy|vgpu\.(present|host-driver-(version|branch))|gpu\.(machine|mode|clique|family|compute\.(major|minor))"
    r"|(gpu|mig-.+)\.(count|product|memory|replicas|sharing-strategy|multiprocessors|slices\.[gc]i"
    r"|engines\.(copy|decoder|encoder|jpeg|ofa))"
    r")"
)
"""Keys that GFD itself may write."""
OURS = re.compile(
    r"nvidia\.com/gpu\.(model\..*|memory\.unified|count\.present|count\.failing|state|present|mixed"
    r"|recovery|remap|xid|fabric\.state|nvlink\.version|numa\.aligned)"
)

Case = Mapping[str, Any]


@dataclass(frozen=True)
class Start:
    """How to start the program for a case."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    out: Path


@dataclass(frozen=True)
class Outcome:
    code: int
    stdout: str
    stderr: str


def load_cases(folder: Path = FOLDER) -> dict[str, Case]:
    """All cases by name."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {
        case["name"]: case for file in sorted(folder.glob("*.yaml")) for case in yaml.load(file.read_bytes(), loader)
    }


def prepare(case: Case, folder: Path) -> Start:
    """Make the machine and the files of a case below `folder`."""
    out, config = folder / "gfd", folder / "config.yaml"

    def fill(text: str) -> str:
        return text.replace("{OUT}", str(out)).replace("{DIR}", str(folder))

    libraries = build(case.get("machine") or {}, folder / "machine")
    root = lay_out(case, folder / "root")
    argv = [] if case.get("plain") else ["--oneshot", "--output-file", str(out), "--use-node-feature-api=false"]
    if "config" in case:
        config.write_text(fill(case["config"]))
        argv += [] if case.get("plain") else ["--config-file", str(config)]
    argv += [fill(word) for word in case.get("flags") or ()]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    given = {name: fill(str(value)) for name, value in (case.get("env") or {}).items()}
    return Start(argv, {**kept, **libraries.env, "NFD_HOST_ROOT": str(root), **given}, out)


def run_process(start: Start, timeout: float = 60) -> Outcome:
    """The installed program, in a process of its own."""
    done = subprocess.run(
        [str(PROGRAM), *start.argv],
        env=dict(start.environment),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def run_batch(starts: Sequence[Start], timeout: float = 300) -> list[Outcome]:
    """The program's `run`, one start after the other in a single process (`tests.gfd.batch`)."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.gfd.batch"],
        input=json.dumps([{"argv": list(one.argv), "environment": dict(one.environment)} for one in starts]),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Outcome(**one) for one in json.loads(done.stdout)]


def read_labels(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def differences(case: Case, outcome: Outcome, out: Path) -> list[str]:
    """What is not as the case wants it; empty if all is."""
    allowed = case.get("expect_exit", 0)
    allowed = allowed if isinstance(allowed, list) else [allowed]
    found: list[str] = []
    if outcome.code not in allowed:
        found.append(f"exit status {outcome.code}, not in {allowed}: {outcome.stderr[-800:]}")
    if str(case.get("expect_error", "")).lower() not in outcome.stderr.lower():
        found.append(f"standard error lacks {case['expect_error']!r}: {outcome.stderr[-800:]}")
    if outcome.code != 0 or allowed != [0]:
        return found
    text = outcome.stdout if case.get("output") == "stdout" else out.read_text()
    return found + compare(case, read_labels(text))


def compare(case: Case, labels: Mapping[str, str]) -> list[str]:
    expect: Mapping[str, str] = case.get("expect") or {}
    like: Mapping[str, str] = case.get("expect_like") or {}
    ignore: Sequence[str] = case.get("ignore") or ()
    found = [f"{key}: {labels.get(key)!r}, not {value!r}" for key, value in expect.items() if labels.get(key) != value]
    for key, pattern in like.items():
        if not re.fullmatch(pattern, labels.get(key, "")):
            found.append(f"{key}: {labels.get(key)!r} is not like {pattern}")
    for pattern in case.get("expect_absent") or ():
        found += [f"{key} is there" for key in labels if fnmatch.fnmatchcase(key, pattern)]
    for key in labels.keys() - expect.keys() - like.keys() - {STAMP}:
        if not OURS.fullmatch(key) and not any(fnmatch.fnmatchcase(key, pattern) for pattern in ignore):
            found.append(f"{key}={labels[key]} is not expected")
    return found
