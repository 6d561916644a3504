"""NVIDIA's driver libraries as a machine of ours would have them: real shared objects, compiled from the C beside this.

`build(machine, directory)` writes the machine as JSON, puts the libraries it has into `directory/lib`, and tells the
environment a process needs to meet them. What a machine may say: tests/cases/gfd/README.md, and `hang` as below.

    libraries = build({"devices": [{"name": "Tesla T4"}], "hang": {"nvmlDeviceGetName": 5}}, tmp_path)
    subprocess.run([...], env=os.environ | libraries.env)
    libraries.calls()  # [Call("nvmlInitWithFlags", 0), Call("nvmlDeviceGetCount_v2", 0), ...]

A symbol in `missing` is truly absent, so each set of them is a library of its own, kept under the user's cache. The
keys `libraries` and `missing` hold for a whole process: they are read from the machine or, if it lacks them, from its
first state, while `states` replace everything else. See machine.h for steps, hanging and the log.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.controlplane.build import locked, print_line, user_cache

Machine = Mapping[str, Any]

SOURCES = Path(__file__).parent
MACHINE_VARIABLE = "NFD_TEST_NVML_MACHINE"
LOG_VARIABLE = "NFD_TEST_NVML_LOG"

FLAGS = ("-std=gnu11", "-O1", "-g", "-fPIC", "-shared", "-Wall", "-Wextra")


class Product(NamedTuple):
    """One shared library: its file name, the sources it is made of, and which symbols it shows."""

    soname: str
    sources: tuple[str, ...]
    symbols: str


PRODUCTS = {
    "nvml": Product(
        "libnvidia-ml.so.1",
        (
            "json.c",
            "machine.c",
            "devices.c",
            "nvml_system.c",
            "nvml_handles.c",
            "nvml_device.c",
            "nvml_events.c",
            "nvml_health.c",
            "nvml_mig.c",
            "nvml_profiles.c",
        ),
        "nvml*",
    ),
    "cuda": Product("libcuda.so.1", ("json.c", "machine.c", "cuda.c", "cuda_errors.c"), "cu*"),
    "dxcore": Product("libdxcore.so", ("dxcore.c",), "DXCore*"),
}


class Call(NamedTuple):
    """A call as the library logged it, and the code the machine ordered for it."""

    function: str
    code: int


@dataclass(frozen=True)
class Libraries:
    """A machine's libraries, laid out in one directory."""

    folder: Path
    """What is to be on the loader's path; holds the libraries this machine has."""
    nvml: Path
    """libnvidia-ml.so.1; nothing is there if the machine has none."""
    machine: Path
    """The JSON file; may be replaced between two inits of a process."""
    log: Path
    env: Mapping[str, str]
    """Variables to lay over a process's environment."""

    def calls(self) -> list[Call]:
        """The calls logged so far, of all processes, in their order; [] if there was none."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [Call(function, int(code)) for function, code in map(str.split, lines)]


def compiler() -> str | None:
    """Path of the C compiler: $CC, or cc, gcc or clang; None where there is none."""
    names = (os.environ.get("CC", ""), "cc", "gcc", "clang")
    return next((path for name in names if name and (path := shutil.which(name))), None)


def build(machine: Machine, directory: Path) -> Libraries:
    """Lay out the libraries of `machine` in `directory`, which need not exist yet.

    Raises: RuntimeError if there is no C compiler, or it rejects our sources.
    """
    folder = directory / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    compiled = compile_libraries(lasting(machine, "missing", ()))
    for name in lasting(machine, "libraries", ("nvml",)):
        link = folder / PRODUCTS[name].soname
        link.unlink(missing_ok=True)
        link.symlink_to(versioned(compiled / link.name, folder, machine.get("library", "")))
    libraries = Libraries(
        folder=folder,
        nvml=folder / PRODUCTS["nvml"].soname,
        machine=directory / "machine.json",
        log=directory / "calls.log",
        env={
            "NFD_NVML_LIBRARY": str(folder / PRODUCTS["nvml"].soname),
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("LD_LIBRARY_PATH")))),
            MACHINE_VARIABLE: str(directory / "machine.json"),
            LOG_VARIABLE: str(directory / "calls.log"),
        },
    )
    write_machine(machine, libraries.machine)
    return libraries


def versioned(library: Path, folder: Path, version: str) -> Path:
    """The library itself, or a copy in `folder` whose file name has a version, as an installed driver has it."""
    if not version:
        return library
    copied = folder / f"libnvidia-ml.so.{version}"
    shutil.copy(library, copied)
    return copied


def write_machine(machine: Machine, path: Path) -> None:
    """Write the JSON file in one step, so that a running process never reads half of it.

    A lone surrogate stands for a byte that is no UTF-8, as `surrogateescape` has it: a driver may give any.
    """
    temporary = path.with_suffix(".new")
    temporary.write_bytes(json.dumps(machine, ensure_ascii=False).encode("utf-8", "surrogateescape"))
    temporary.replace(path)


def lasting(machine: Machine, key: str, default: Sequence[str]) -> Sequence[str]:
    """A key that cannot change while a process runs: the machine's own, or its first state's."""
    first: Machine = next(iter(machine.get("states") or ()), {})
    value: Sequence[str] | None = machine.get(key, first.get(key))
    return default if value is None else value


def compile_libraries(missing: Sequence[str] = ()) -> Path:
    """Folder with all three libraries, without the symbols in `missing`; compiled if the cache has it not."""
    compiler_path = compiler()
    if compiler_path is None:
        raise RuntimeError("no C compiler: set CC, or install gcc or clang")
    cache = user_cache() / "nfd-nvml"
    folder = cache / digest(compiler_path, missing)
    if folder.is_dir():
        return folder
    with locked(cache / "lock", print_line):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix="new-", dir=cache) as temporary:
                fresh = Path(temporary, "libraries")
                fresh.mkdir()
                for product in PRODUCTS.values():
                    compile_library(compiler_path, product, missing, fresh)
                fresh.rename(folder)
    return folder


def digest(compiler_path: str, missing: Sequence[str]) -> str:
    """Names a variant: other sources, compiler, flags, products or missing symbols give another name."""
    state = hashlib.sha256(repr((compiler_path, FLAGS, PRODUCTS, sorted(set(missing)))).encode())
    for source in sorted(SOURCES.glob("*.[ch]")):
        state.update(source.name.encode() + b"\0" + source.read_bytes())
    return state.hexdigest()[:24]


def compile_library(compiler_path: str, product: Product, missing: Sequence[str], folder: Path, *flags: str) -> None:
    """Compile one library into `folder`. The version script hides the missing symbols from dlsym."""
    script = folder / f"{product.soname}.map"
    hidden = "".join(f" {symbol};" for symbol in sorted(set(missing)))
    script.write_text(f"{{ global: {product.symbols}; local:{hidden} *; }};\n")
    command = [
        compiler_path,
        *FLAGS,
        *flags,
        f"-Wl,-soname,{product.soname},--version-script,{script},-Bsymbolic",
        "-o",
        str(folder / product.soname),
        *(str(SOURCES / source) for source in product.sources),
        "-lpthread",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{product.soname} does not compile:\n{done.stderr}")
