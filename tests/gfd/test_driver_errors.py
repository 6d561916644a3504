"""What the driver as a whole does not answer: it is said, the last good value stays, the devices keep their labels."""

from pathlib import Path

import pytest

from nfd.host import Host
from nfd.host.replay import LIBRARY_VARIABLE
from tests.children import run
from tests.gfd.cases import Start, prepare, read_labels, run_process
from tests.gfd.machines import H100, laid
from tests.gfd.test_no_driver import PCI, no_driver
from tests.gfd.test_source import scan, short
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

STAMP, STATE = "nvidia.com/gfd.timestamp", "nvidia.com/gpu.state"
CALLS = {
    "nvmlSystemGetDriverVersion": ("driver", "driver version: ", "nvidia.com/cuda.driver"),
    "nvmlSystemGetCudaDriverVersion": ("driver", "CUDA version: ", "nvidia.com/cuda.runtime"),
    "nvmlDeviceGetMemoryInfo": ("GPU 0", "memory: ", "nvidia.com/gpu.memory"),
    "nvmlDeviceGetCudaComputeCapability": ("GPU 0", "compute capability: ", "nvidia.com/gpu.compute."),
    "nvmlDeviceGetPciInfo": ("GPU 0", "PCI address: ", "nvidia.com/gpu.mode"),
}


def failing(call: str, code: int = 999) -> dict[str, object]:
    return {"devices": [H100], "errors": {call: code}}


@pytest.mark.parametrize("call", CALLS)
def test_the_first_reading_says_what_failed(call: str, tmp_path: Path) -> None:
    subject, reason, labels = CALLS[call]
    with laid(failing(call), tmp_path) as machine:
        found = scan(machine.host)
    assert short(found, "product", "count", "state") == ["NVIDIA-H100-80GB-HBM3", "1", "degraded"]
    assert [one.reason for one in found.problems if one.subject == subject] == [f"{reason}Unknown Error"]
    missing = [key for key in found.labels if key.startswith(labels)]
    assert not missing or call == "nvmlDeviceGetPciInfo"
    assert found.failed or call == "nvmlDeviceGetPciInfo", "what was known before must not go"


@pytest.mark.parametrize("call", CALLS)
def test_a_later_reading_keeps_what_was_known(call: str, tmp_path: Path) -> None:
    with laid({"states": [{"devices": [H100]}, failing(call), {"devices": [H100]}]}, tmp_path) as machine:
        first = scan(machine.host)
        second = scan(machine.host, first)
        third = scan(machine.host, second)
    ours = {STAMP: "", STATE: "degraded"} | ({"nvidia.com/gpu.count.failing": "1"} if "Device" in call else {})
    assert {**second.labels, STAMP: ""} == {**first.labels, **ours}
    assert not second.failed
    assert {**third.labels, STAMP: ""} == {**first.labels, STAMP: ""}


@pytest.mark.parametrize("symbol", [call for call in CALLS if call != "nvmlDeviceGetPciInfo"])
def test_a_missing_symbol_is_said(symbol: str, tmp_path: Path) -> None:
    names = [symbol, f"{symbol}_v2"]
    outcome = run_process(start := prepare({"machine": {"devices": [H100], "missing": names}}, tmp_path))
    assert outcome.code == 0
    labels = read_labels(start.out.read_text())
    assert labels[STATE] == "degraded"
    assert not [key for key in labels if key.startswith(CALLS[symbol][2])]
    told = [line for line in outcome.stderr.splitlines() if CALLS[symbol][1] in line]
    assert len(told) == 1
    assert "Function Not Found" in told[0]


@pytest.mark.parametrize("symbol", ["nvmlDeviceGetMigMode", "nvmlDeviceGetGpuFabricInfoV"])
def test_a_symbol_that_old_libraries_lack_is_no_failure(symbol: str, tmp_path: Path) -> None:
    outcome = run_process(start := prepare({"machine": {"devices": [H100], "missing": [symbol]}}, tmp_path))
    assert outcome.code == 0
    assert STATE not in read_labels(start.out.read_text())


@pytest.mark.parametrize("call", ["nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion"])
def test_a_new_process_goes_on_from_the_file(call: str, tmp_path: Path) -> None:
    start = prepare({"machine": {"devices": [H100]}}, tmp_path)
    assert run_process(start).code == 0
    before = read_labels(start.out.read_text())
    again = prepare({"machine": failing(call)}, tmp_path / "again")
    argv = [str(start.out) if word == str(again.out) else word for word in again.argv]
    outcome = run_process(Start(argv, again.environment, start.out))
    assert outcome.code == 0, "only a failing init ends the first pass"
    after = read_labels(start.out.read_text())
    assert {**after, STAMP: ""} == {**before, STAMP: "", STATE: "degraded"}
    assert outcome.stderr.count("Unknown Error") == 1


def unloadable(tmp_path: Path) -> dict[str, str]:
    """Libraries that are there: a text, an empty file, a folder."""
    found = {name: tmp_path / name for name in ("text", "empty", "folder")}
    found["text"].write_text("no library\n" * 100)
    found["empty"].write_text("")
    found["folder"].mkdir()
    return {name: str(path) for name, path in found.items()}


@pytest.mark.parametrize("kind", ["text", "empty", "folder"])
def test_a_library_that_is_none(kind: str, tmp_path: Path) -> None:
    path = unloadable(tmp_path)[kind]
    found = scan(Host(no_driver(tmp_path, PCI), {LIBRARY_VARIABLE: path}))
    assert short(found, "present", "state") == ["true", "driver-error"]
    assert [one.subject for one in found.problems if path in one.reason] == ["driver"]
    assert path in found.failed["nvidia"]


@pytest.mark.parametrize(("kind", "state"), [("text", "driver-error"), ("absent", "no-driver")])
def test_alone_the_reason_is_told(kind: str, state: str, tmp_path: Path) -> None:
    path = {**unloadable(tmp_path), "absent": "/nowhere/libnvidia-ml.so.1"}[kind]
    device = {"name": "x", "pci": PCI}
    flags = ["--fail-on-init-error=false"]
    start = prepare({"machine": {"devices": [device]}, "flags": flags}, tmp_path)
    environment = {**start.environment, LIBRARY_VARIABLE: path}
    outcome = run_process(Start(start.argv, environment, start.out))
    assert outcome.code == 0
    assert read_labels(start.out.read_text())[STATE] == state
    assert outcome.stderr.count(path) == 1
    outcome = run_process(Start([*start.argv, "--fail-on-init-error=true"], environment, start.out))
    assert outcome.code == 1
    assert path in outcome.stderr


def test_a_library_that_lacks_another_one(tmp_path: Path) -> None:
    """It is there; the reason names what is not."""
    other, main = tmp_path / "libother-gone.so", tmp_path / "libmain.so"
    for path, needed in ((other, []), (main, ["-Wl,--no-as-needed", f"-L{tmp_path}", "-lother-gone"])):
        line = ["cc", "-shared", "-fPIC", "-o", str(path), "-x", "c", "/dev/null", "-x", "none", *needed]
        run(line, timeout=60)
    other.unlink()
    found = scan(Host(no_driver(tmp_path, PCI), {LIBRARY_VARIABLE: str(main)}))
    assert short(found, "state") == ["driver-error"]
    assert "libother-gone.so" in found.failed["nvidia"]
