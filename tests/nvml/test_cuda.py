"""The CUDA driver library, called as software without a binding calls it: through ctypes."""

from pathlib import Path
from typing import Any

from tests.nvml.asking import H100, ask, needs_compiler
from tests.nvml.library import build

pytestmark = needs_compiler

ORIN = {"name": "Orin (nvgpu)", "cuda_name": "Orin", "compute": "8.7", "cuda_memory_bytes": 3286896640}

CUDA = """
cuda = ctypes.CDLL("libcuda.so.1")
number, size, legacy = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_uint()
name, uuid, text = ctypes.create_string_buffer(96), (ctypes.c_ubyte * 16)(), ctypes.c_char_p()
def get(function, out, *arguments):
    status = getattr(cuda, function)(ctypes.byref(out), *arguments)
    return out.value if status == 0 else -status
"""
DEVICES = """
answer = [cuda.cuInit(0), get("cuDriverGetVersion", number), get("cuDeviceGetCount", number)]
for ordinal in range(answer[-1]):
    device = get("cuDeviceGet", number, ordinal)
    cuda.cuDeviceGetName(name, 96, device)
    cuda.cuDeviceGetUuid(uuid, device)
    answer.append([name.value.decode(), get("cuDeviceTotalMem_v2", size, device),
                   get("cuDeviceTotalMem", legacy, device), get("cuDeviceGetAttribute", number, 75, device),
                   get("cuDeviceGetAttribute", number, 76, device), bytes(uuid).hex()])
"""


def ask_cuda(directory: Path, machine: dict[str, Any], script: str) -> Any:
    """Ask a machine that has only the CUDA library."""
    return ask(build({"libraries": ["cuda"], **machine}, directory), CUDA + script)


def test_devices(tmp_path: Path) -> None:
    """Names and memory are CUDA's own where the machine tells them; the old memory query saturates at 32 bits."""
    assert ask_cuda(tmp_path, {"cuda": 12060, "devices": [ORIN, H100]}, DEVICES) == [
        0,
        12060,
        2,
        ["Orin", 3286896640, 3286896640, 8, 7, "5f6e6664000040008000000000000001"],
        [H100["name"], 85520809984, 0xFFFFFFFF, 9, 0, "0a1b2c3d111122223333444455556666"],
    ]


def test_refusals(tmp_path: Path) -> None:
    """Before cuInit only the version can be had; afterwards a wrong device or attribute is refused."""
    script = """
answer = [get("cuDriverGetVersion", number), get("cuDeviceGetCount", number), get("cuDeviceGet", number, 0)]
answer += [cuda.cuInit(1), cuda.cuInit(0), get("cuDeviceGet", number, 1), get("cuDeviceGet", number, -1)]
answer += [get("cuDeviceGetAttribute", number, 9999, 0), get("cuDeviceTotalMem_v2", size, 0)]
"""
    machine = {"devices": [{"name": "Orin"}]}
    assert ask_cuda(tmp_path, machine, script) == [13000, -3, -3, 1, 0, -101, -101, -1, -801]


def test_errors(tmp_path: Path) -> None:
    """Errors are ordered with CUDA's codes, on the machine or on a device; symbols can be missing too."""
    machine = {
        "errors": {"cuDriverGetVersion": 34},
        "devices": [ORIN, ORIN | {"errors": {"cuDeviceTotalMem": 999, "nvmlDeviceGetName": 15}}],
        "missing": ["cuDeviceGetUuid_v2"],
    }
    script = """
answer = [cuda.cuInit(0), get("cuDriverGetVersion", number)]
answer += [get("cuDeviceTotalMem_v2", size, 0), get("cuDeviceTotalMem_v2", size, 1), cuda.cuDeviceGetName(name, 96, 1)]
answer += [hasattr(cuda, "cuDeviceGetUuid"), hasattr(cuda, "cuDeviceGetUuid_v2")]
"""
    assert ask_cuda(tmp_path, machine, script) == [0, -34, 3286896640, -999, 0, True, False]


def test_init(tmp_path: Path) -> None:
    """cuInit fails as ordered or without a device; each is a step through the states."""
    script = "answer = [cuda.cuInit(0), cuda.cuInit(0), cuda.cuInit(0), get('cuDeviceGetCount', number)]"
    states = [{"errors": {"cuInit": 100}}, {"devices": []}, {}]
    assert ask_cuda(tmp_path, {"devices": [ORIN], "states": states}, script) == [100, 100, 0, 1]


def test_error_texts(tmp_path: Path) -> None:
    """A known code has a name and a text, an unknown one neither."""
    script = """
ask = lambda function, code: [getattr(cuda, function)(code, ctypes.byref(text)), (text.value or b"").decode()]
answer = [ask("cuGetErrorName", 100), ask("cuGetErrorString", 100), ask("cuGetErrorName", 12345)]
"""
    assert ask_cuda(tmp_path, {}, script) == [
        [0, "CUDA_ERROR_NO_DEVICE"],
        [0, "no CUDA-capable device is detected"],
        [1, ""],
    ]


def test_dxcore(tmp_path: Path) -> None:
    """libdxcore.so can be loaded where the machine has it."""
    libraries = build({"libraries": ["dxcore"]}, tmp_path)
    assert ask(libraries, 'answer = ctypes.CDLL("libdxcore.so")._name') == "libdxcore.so"
