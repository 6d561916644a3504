"""Lets a process of its own ask the libraries, as software does: a loaded NVML stays for the life of a process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.nvml.library import Libraries, build, compiler

needs_compiler = pytest.mark.skipif(compiler() is None, reason="these libraries are compiled from C")

H100: dict[str, Any] = {
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-0a1b2c3d-1111-2222-3333-444455556666",
    "memory_bytes": 85520809984,
    "reserved_bytes": 503316480,
    "compute": "9.0",
    "minor": 4,
    "pci": {"bus_id": "00000000:3B:00.0", "device": "0x2330", "subsystem": "0x16C1", "class": "0x030200"},
    "mig": {"current": 0},
    "fabric": {"cluster_uuid": "7f3c0102-0304-0506-0708-090a0b0c0dff", "clique": 32766},
}
ORIN: dict[str, Any] = {"name": "Orin (nvgpu)", "compute": "8.7", "brand": 0}
BOTH: dict[str, Any] = {"driver": "570.124.06", "cuda": 12080, "devices": [H100, ORIN]}

PRELUDE = """
import ctypes, json, os, time
import pynvml
from pynvml import *

def code(function, *arguments):
    "The code a call ends with, 0 if it succeeds."
    try:
        function(*arguments)
    except NVMLError as error:
        return error.value
    return 0

def fields(struct):
    "The fields of a ctypes struct, texts decoded, handles left out."
    values = {name: getattr(struct, name) for name, *_ in struct._fields_}
    return {name: value.decode() if isinstance(value, bytes) else value
            for name, value in values.items() if isinstance(value, (bytes, int, str))}
"""


def ask(libraries: Libraries, script: str, timeout: float = 30) -> Any:
    """Run `script` after PRELUDE, with the libraries on the loader's path; what it leaves in `answer` comes back."""
    done = subprocess.run(
        [sys.executable, "-c", f"{PRELUDE}\n{script}\nprint(json.dumps(answer))"],
        env=os.environ | libraries.env,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ask_machine(directory: Path, machine: dict[str, Any], script: str) -> Any:
    """The same for a machine of which no more is wanted; NVML is initialised before."""
    return ask(build(machine, directory), f"nvmlInit()\n{script}")
