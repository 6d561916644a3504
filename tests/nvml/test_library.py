"""NVML as a library: the errors and symbols that can be ordered, init and its states, the log, hanging."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.nvml.asking import BOTH, H100, ORIN, ask, ask_machine, needs_compiler
from tests.nvml.library import PRODUCTS, Call, build, compile_libraries, compile_library, compiler, write_machine

pytestmark = needs_compiler


@pytest.mark.parametrize(
    ("errors", "call", "expected"),
    [
        ({"nvmlDeviceGetMemoryInfo": 15}, "nvmlDeviceGetMemoryInfo, gpu", 15),
        ({"nvmlDeviceGetMemoryInfo": 15}, "nvmlDeviceGetMemoryInfo, gpu, nvmlMemory_v2", 15),
        ({"nvmlDeviceGetMemoryInfo_v2": 15}, "nvmlDeviceGetMemoryInfo, gpu", 15),
        ({"nvmlDeviceGetPciInfo": 17}, "nvmlDeviceGetPciInfo_v3, gpu", 17),
        ({"nvmlDeviceGetGpuFabricInfo": 4}, "nvmlDeviceGetGpuFabricInfoV, gpu, byref(c_nvmlGpuFabricInfo_v2_t())", 4),
        ({"nvmlDeviceGetGpuInstanceProfileInfo": 4}, "nvmlDeviceGetGpuInstanceProfileInfo, gpu, 0", 4),
        ({"nvmlDeviceGetUUID": 999}, "nvmlDeviceGetUUID, gpu", 999),
        ({"nvmlDeviceGetUUID": 999}, "nvmlDeviceGetName, gpu", 0),
        ({"*": 999}, "nvmlDeviceGetName, gpu", 999),
        ({"*": 999, "nvmlDeviceGetName": 15}, "nvmlDeviceGetName, gpu", 15),
        ({"*": 999}, "nvmlDeviceGetHandleByIndex, 0", 0),
    ],
)
def test_errors(tmp_path: Path, errors: dict[str, int], call: str, expected: int) -> None:
    """An error is ordered by the call's name, its version aside, on one device, and nothing else changes."""
    script = f"gpu = nvmlDeviceGetHandleByIndex(0)\nanswer = [code({call}), nvmlDeviceGetCount()]"
    assert ask_machine(tmp_path, {"devices": [H100 | {"errors": errors}, ORIN]}, script) == [expected, 2]


def test_errors_of_the_machine_and_of_handles(tmp_path: Path) -> None:
    """On the machine an error holds for every device; a handle that cannot be had cannot be had in any way."""
    machine: dict[str, Any] = {
        "errors": {"nvmlDeviceGetName": 15, "nvmlSystemGetDriverVersion": 999},
        "devices": [H100 | {"errors": {"nvmlDeviceGetHandleByIndex": 15}}, ORIN],
    }
    answer = ask_machine(
        tmp_path,
        machine,
        """
answer = [code(nvmlDeviceGetHandleByIndex, 0), code(nvmlDeviceGetHandleByPciBusId, "0000:3B:00.0"),
          code(nvmlDeviceGetName, nvmlDeviceGetHandleByIndex(1)), code(nvmlSystemGetDriverVersion)]
""",
    )
    assert answer == [15, 15, 15, 999]


def test_error_texts(tmp_path: Path) -> None:
    """The library's own texts, also before init."""
    script = """
pynvml._LoadNvmlLibrary()
answer = [nvmlErrorString(number) for number in (0, 9, 15, 18, 28, 999, 12345)]
"""
    assert ask(build({}, tmp_path), script) == [
        "Success",
        "Driver Not Loaded",
        "GPU is lost",
        "Driver/library version mismatch",
        "No supported GPUs were found",
        "Unknown Error",
        "Unknown Error",
    ]


def test_missing_symbols(tmp_path: Path) -> None:
    """A missing symbol is not there for the loader; its other versions are, and variants do not mix."""
    script = """
gpu = nvmlDeviceGetHandleByIndex(0)
answer = [code(nvmlDeviceGetMigMode, gpu), code(nvmlDeviceGetMemoryInfo, gpu),
          code(nvmlDeviceGetMemoryInfo, gpu, nvmlMemory_v2), hasattr(pynvml.nvmlLib, "nvmlDeviceGetMigMode")]
"""
    without = BOTH | {"missing": ["nvmlDeviceGetMigMode", "nvmlDeviceGetMemoryInfo_v2"]}
    assert ask_machine(tmp_path / "without", without, script) == [13, 0, 13, False]
    assert ask_machine(tmp_path / "whole", BOTH, script) == [0, 0, 0, True]


def test_only_the_libraries_the_machine_has(tmp_path: Path) -> None:
    """NFD_NVML_LIBRARY is always set; without NVML nothing is there."""
    names = {}
    for libraries in ([], ["nvml"], ["cuda", "dxcore"]):
        built = build({"libraries": libraries}, tmp_path / "-".join(["lib", *libraries]))
        names[tuple(libraries)] = sorted(path.name for path in built.folder.iterdir())
        assert built.nvml.exists() is ("nvml" in libraries)
        assert built.env["NFD_NVML_LIBRARY"] == str(built.nvml)
    assert names == {
        (): [],
        ("nvml",): ["libnvidia-ml.so.1"],
        ("cuda", "dxcore"): ["libcuda.so.1", "libdxcore.so"],
    }


def test_no_warnings(tmp_path: Path) -> None:
    """The compiler has nothing to say about our C; other tests do not depend on that."""
    for product in PRODUCTS.values():
        compile_library(compiler() or "", product, (), tmp_path, "-Werror", "-Wshadow", "-Wpedantic")


def test_only_nvml_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variant is compiled once, and no helper of ours can be met in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = compile_libraries(["nvmlDeviceGetName"])
    before = folder.stat().st_mtime_ns
    assert compile_libraries(["nvmlDeviceGetName"]) == folder
    assert folder.stat().st_mtime_ns == before
    assert [path.name for path in (tmp_path / "nfd-nvml").iterdir() if path.name.startswith("new-")] == []
    script = f"""
library = ctypes.CDLL({str(folder / "libnvidia-ml.so.1")!r})
answer = [hasattr(library, name) for name in ("nvmlInit_v2", "nvmlDeviceGetName", "json_parse", "machine_step")]
"""
    assert ask(build({}, tmp_path / "machine"), script) == [True, False, False, False]


def test_before_init_and_after_shutdown(tmp_path: Path) -> None:
    """Inits are counted; a call outside of them is refused."""
    answer = ask(
        build(BOTH, tmp_path),
        """
pynvml._LoadNvmlLibrary()
answer = [code(nvmlDeviceGetCount), code(nvmlShutdown)]
nvmlInit()
nvmlInit()
gpu = nvmlDeviceGetHandleByIndex(0)
nvmlShutdown()
answer += [code(nvmlDeviceGetCount), code(nvmlShutdown), code(nvmlDeviceGetCount), code(nvmlDeviceGetName, gpu)]
answer += [code(nvmlShutdown)]
""",
    )
    assert answer == [1, 1, 0, 0, 1, 1, 1]


STATES = """
answer = []
for turn in range(6):
    failed = code(nvmlInit)
    answer.append(failed or nvmlDeviceGetCount())
    if not failed:
        nvmlInit()  # one that is nested is no step
        nvmlShutdown()
        nvmlShutdown()
"""


def test_states(tmp_path: Path) -> None:
    """A step per init that is not nested, failed ones too; the last state stays; a new process starts anew."""
    states = [{"errors": {"nvmlInit": 9}, "inits": 2}, {"devices": []}, {"inits": 1}, {"devices": [ORIN]}]
    libraries = build({"devices": [H100, ORIN], "states": states}, tmp_path)
    assert ask(libraries, STATES) == [9, 9, 0, 2, 1, 1]
    assert ask(libraries, STATES) == [9, 9, 0, 2, 1, 1]


def test_handles_do_not_outlive_their_init(tmp_path: Path) -> None:
    """The machine is read anew at each init, and a handle from before is refused."""
    libraries = build(BOTH, tmp_path)
    changed = json.dumps(BOTH | {"driver": "1.2.3"})
    answer = ask(
        libraries,
        f"""
nvmlInit()
gpu = nvmlDeviceGetHandleByIndex(0)
nvmlShutdown()
open({str(libraries.machine)!r}, "w").write({changed!r})
nvmlInit()
answer = [code(nvmlDeviceGetName, gpu), nvmlSystemGetDriverVersion()]
""",
    )
    assert answer == [2, "1.2.3"]


def test_unreadable_machine(tmp_path: Path) -> None:
    """A machine file that is not JSON is an unknown error at init."""
    libraries = build({}, tmp_path)
    libraries.machine.write_text('{"devices": [}')
    assert ask(libraries, "answer = code(nvmlInit)") == 999
    libraries.machine.unlink()
    assert ask(libraries, "answer = code(nvmlInit)") == 999


def test_texts_of_any_kind(tmp_path: Path) -> None:
    """Escapes and characters of other planes come through as UTF-8."""
    name = 'A "quoted" \\ name\t\n/ é ☃ 😀'
    script = "answer = nvmlDeviceGetName(nvmlDeviceGetHandleByIndex(0))"
    assert ask_machine(tmp_path, {"devices": [{"name": name}]}, script) == name
    libraries = build({}, tmp_path)
    libraries.machine.write_text(json.dumps({"devices": [{"name": name}]}, ensure_ascii=False))
    assert ask(libraries, f"nvmlInit()\n{script}") == name


def test_log(tmp_path: Path) -> None:
    """Each call is logged with the code that was ordered, so that inits and shutdowns can be counted."""
    libraries = build(BOTH | {"errors": {"nvmlDeviceGetCount": 4}}, tmp_path)
    assert libraries.calls() == []
    ask(libraries, "nvmlInit(); code(nvmlDeviceGetCount); nvmlShutdown(); answer = code(nvmlDeviceGetCount)")
    assert libraries.calls() == [
        Call("nvmlInitWithFlags", 0),
        Call("nvmlDeviceGetCount_v2", 4),
        Call("nvmlShutdown", 0),
        Call("nvmlDeviceGetCount_v2", 1),
    ]


@pytest.mark.parametrize("where", ["machine", "device"])
def test_hang(tmp_path: Path, where: str) -> None:
    """A call takes the seconds it was told to, and another thread may go on meanwhile."""
    order = {"hang": {"nvmlDeviceGetName": 0.3}}
    machine = {"devices": [H100], **order} if where == "machine" else {"devices": [H100 | order]}
    libraries = build(machine, tmp_path)
    write_machine(machine, libraries.machine)
    script = """
import threading
nvmlInit()
gpu = nvmlDeviceGetHandleByIndex(0)
start = time.monotonic()
thread = threading.Thread(target=nvmlDeviceGetName, args=(gpu,))
thread.start()
answer = [nvmlDeviceGetCount(), time.monotonic() - start]
thread.join()
answer.append(time.monotonic() - start)
"""
    started = time.monotonic()
    count, other, hung = ask(libraries, script)
    assert (count, other < 0.3 <= hung <= time.monotonic() - started) == (1, True)
