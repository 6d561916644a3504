"""MIG devices: walked, attributed to their instances, and their profiles found as GFD finds them."""

from pathlib import Path
from typing import Any

from tests.nvml.asking import H100, ask_machine, needs_compiler

pytestmark = needs_compiler

ENGINES = {"copy": 3, "decoder": 2, "encoder": 4, "jpeg": 5, "ofa": 1}
WHOLE = {
    "profile": "2g.20gb",
    "gi": 5,
    "gi_enum": 1,
    "gi_profile_id": 14,
    "gi_slices": 2,
    "multiprocessors": 32,
    "memory_mb": 20096,
    "engines": ENGINES,
    "index": 4,
    "uuid": "MIG-aa000000-0000-0000-0000-000000000001",
}
PART = {
    "profile": "1c.3g.40gb",
    "gi": 1,
    "ci": 0,
    "gi_enum": 2,
    "gi_profile_id": 9,
    "gi_slices": 3,
    "ci_slices": 1,
    "ci_profile_id": 0,
    "multiprocessors": 16,
    "memory_mb": 40448,
    "engines": ENGINES,
}


def gpu(*devices: dict[str, Any], **mig: Any) -> dict[str, Any]:
    """A machine with one H100 that is cut into these."""
    return {"devices": [H100 | {"mig": {"current": 1, "devices": list(devices), **mig}}]}


WALK = """
gpu = nvmlDeviceGetHandleByIndex(0)
answer = {}
for index in range(nvmlDeviceGetMaxMigDeviceCount(gpu) + 1):
    failed = code(nvmlDeviceGetMigDeviceHandleByIndex, gpu, index)
    if failed:
        answer[index] = failed
        continue
    mig = nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
    answer[index] = [nvmlDeviceIsMigDeviceHandle(mig).value, nvmlDeviceGetGpuInstanceId(mig),
                     nvmlDeviceGetComputeInstanceId(mig), nvmlDeviceGetName(mig), nvmlDeviceGetUUID(mig)]
    parent = nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)
    assert nvmlDeviceGetUUID(parent) == nvmlDeviceGetUUID(gpu)
    assert nvmlDeviceGetUUID(nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(mig))) == nvmlDeviceGetUUID(mig)
"""


def test_walk(tmp_path: Path) -> None:
    """Up to the maximum, with gaps where no device has that index."""
    answer = ask_machine(tmp_path, gpu(PART, PART | {"ci": 1}, WHOLE, max=6), WALK)
    name = H100["name"]
    assert answer == {
        "0": [1, 1, 0, f"{name} MIG 1c.3g.40gb", "MIG-5f6e6664-0000-4000-8000-000001000001"],
        "1": [1, 1, 1, f"{name} MIG 1c.3g.40gb", "MIG-5f6e6664-0000-4000-8000-000001000002"],
        "2": 6,
        "3": 6,
        "4": [1, 5, 0, f"{name} MIG 2g.20gb", WHOLE["uuid"]],
        "5": 6,
        "6": 2,
    }


def test_walk_with_mig_off_or_unknown(tmp_path: Path) -> None:
    """No device to walk to; MIG devices of a GPU whose mode is off do not count."""
    script = """
gpu = nvmlDeviceGetHandleByIndex(0)
answer = [code(nvmlDeviceGetMigMode, gpu), nvmlDeviceGetMaxMigDeviceCount(gpu),
          code(nvmlDeviceGetMigDeviceHandleByIndex, gpu, 0), code(nvmlDeviceGetGpuInstanceById, gpu, 5)]
"""
    off = {"devices": [H100 | {"mig": {"current": 0, "pending": 1, "devices": [WHOLE]}}]}
    assert ask_machine(tmp_path / "off", off, script) == [0, 0, 6, 3]
    assert ask_machine(tmp_path / "none", {"devices": [{"name": "Tesla T4"}]}, script) == [3, 0, 3, 3]
    mode = "answer = nvmlDeviceGetMigMode(nvmlDeviceGetHandleByIndex(0))"
    assert ask_machine(tmp_path / "mode", off, mode) == [0, 1]
    assert ask_machine(tmp_path / "on", gpu(), mode) == [1, 1]


def test_attributes_and_memory(tmp_path: Path) -> None:
    """Of a compute instance that is smaller than its GPU instance, and of one that fills it."""
    answer = ask_machine(
        tmp_path,
        gpu(PART, WHOLE),
        """
gpu = nvmlDeviceGetHandleByIndex(0)
migs = [nvmlDeviceGetMigDeviceHandleByIndex(gpu, index) for index in (0, 4)]
answer = [[list(fields(nvmlDeviceGetAttributes(mig)).values()), nvmlDeviceGetMemoryInfo(mig).total,
           nvmlDeviceGetCudaComputeCapability(mig), code(nvmlDeviceGetMinorNumber, mig)] for mig in migs]
""",
    )
    assert answer == [
        [[16, 3, 2, 4, 5, 1, 3, 1, 40448], 40448 << 20, [9, 0], 3],
        [[32, 3, 2, 4, 5, 1, 2, 2, 20096], 20096 << 20, [9, 0], 3],
    ]


def test_instances(tmp_path: Path) -> None:
    """From ids to instances and their infos, which lead back to the GPU."""
    answer = ask_machine(
        tmp_path,
        gpu(PART, PART | {"ci": 1}, WHOLE),
        """
gpu = nvmlDeviceGetHandleByIndex(0)
address = lambda handle: ctypes.cast(handle, ctypes.c_void_p).value
answer = []
for gi_id, ci_id in ((1, 1), (5, 0)):
    gi = nvmlDeviceGetGpuInstanceById(gpu, gi_id)
    ci = nvmlGpuInstanceGetComputeInstanceById(gi, ci_id)
    info, part = nvmlGpuInstanceGetInfo(gi), nvmlComputeInstanceGetInfo(ci)
    assert address(info.device) == address(part.device) == address(gpu) and address(part.gpuInstance) == address(gi)
    answer.append([info.id, info.profileId, info.placement.size, part.id, part.profileId, part.placement.size])
answer += [code(nvmlDeviceGetGpuInstanceById, gpu, 2), code(nvmlGpuInstanceGetComputeInstanceById, gi, 1),
           code(nvmlGpuInstanceGetInfo, c_nvmlGpuInstance_t())]
""",
    )
    assert answer == [[1, 9, 3, 1, 0, 1], [5, 14, 2, 0, 1, 2], 6, 6, 2]


PROFILES = """
gpu = nvmlDeviceGetHandleByIndex(0)
answer = {}
for number in range(20):
    failed = code(nvmlDeviceGetGpuInstanceProfileInfo, gpu, number)
    assert failed == code(nvmlDeviceGetGpuInstanceProfileInfo, gpu, number, 1)
    if not failed:
        new = fields(nvmlDeviceGetGpuInstanceProfileInfo(gpu, number))
        assert new == {**new, **fields(nvmlDeviceGetGpuInstanceProfileInfo(gpu, number, 1))}
        assert new == fields(nvmlDeviceGetGpuInstanceProfileInfoById(gpu, new["id"]))
        del new["version"]
    answer[number] = failed or list(new.values())
"""


def test_gpu_instance_profiles(tmp_path: Path) -> None:
    """Both struct versions tell the same; numbers nothing has are code 3, from 17 on code 2."""
    answer = ask_machine(tmp_path, gpu(PART, WHOLE), PROFILES)
    assert answer.pop("1") == [14, 0, 2, 3, 32, 3, 2, 4, 5, 1, 20096, "MIG 2g.20gb"]
    assert answer.pop("2") == [9, 0, 3, 2, 16, 3, 2, 4, 5, 1, 40448, "MIG 3g.40gb"]
    assert answer == {str(number): 2 if number > 16 else 3 for number in range(20) if number not in (1, 2)}


def test_listed_profiles(tmp_path: Path) -> None:
    """What the machine lists is known with MIG off too, and comes before what its MIG devices say."""
    listed = {"enum": 1, "id": 77, "slices": 2, "max": 1, "name": "2g.20gb+me", "memory_mb": 1, "engines": ENGINES}
    answer = ask_machine(tmp_path / "on", gpu(WHOLE, profiles=[listed, listed | {"enum": 17, "id": 78}]), PROFILES)
    assert answer["1"] == [77, 0, 2, 1, 0, 3, 2, 4, 5, 1, 1, "MIG 2g.20gb+me"]
    assert answer["17"][0] == 78
    assert answer["18"] == 2
    answer = ask_machine(tmp_path / "off", gpu(current=0, profiles=[listed]), PROFILES)
    assert answer["1"][0] == 77


def test_compute_instance_profiles(tmp_path: Path) -> None:
    """Numbered by size, unless the device tells another number."""
    answer = ask_machine(
        tmp_path,
        gpu(PART, WHOLE, PART | {"gi": 2, "ci_enum": 7, "ci_profile_id": 8}),
        """
gpu = nvmlDeviceGetHandleByIndex(0)
answer = []
for gi_id, number in ((1, 0), (5, 1), (2, 7)):
    gi = nvmlDeviceGetGpuInstanceById(gpu, gi_id)
    new = fields(nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, number, 0))
    assert new == {**new, **fields(nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, number, 0, 1))}
    answer.append([new.pop("version"), list(new.values())])
answer += [code(nvmlGpuInstanceGetComputeInstanceProfileInfo, gi, *numbers) for numbers in ((8, 0), (9, 0), (0, 1))]
""",
    )
    assert answer == [
        [0x02000088, [0, 1, 3, 16, 3, 2, 4, 5, 1, "MIG 1c.3g.40gb"]],
        [0x02000088, [1, 2, 1, 32, 3, 2, 4, 5, 1, "MIG 2g.20gb"]],
        [0x02000088, [8, 1, 3, 16, 3, 2, 4, 5, 1, "MIG 1c.3g.40gb"]],
        3,
        2,
        2,
    ]


def test_errors_of_mig_devices(tmp_path: Path) -> None:
    """An error on a MIG device holds for its handle, for getting that, and for its instances."""
    first = PART | {"errors": {"nvmlDeviceGetMigDeviceHandleByIndex": 6}}
    second = PART | {"ci": 1, "errors": {"nvmlDeviceGetAttributes": 999, "nvmlComputeInstanceGetInfo": 15}}
    third = WHOLE | {"errors": {"*": 17, "nvmlDeviceGetGpuInstanceById": 4}}
    answer = ask_machine(
        tmp_path,
        gpu(first, second, third),
        """
gpu = nvmlDeviceGetHandleByIndex(0)
answer = [code(nvmlDeviceGetMigDeviceHandleByIndex, gpu, index) for index in (0, 1, 4)]
second, third = (nvmlDeviceGetMigDeviceHandleByIndex(gpu, index) for index in (1, 4))
answer += [code(nvmlDeviceGetAttributes, second), code(nvmlDeviceGetUUID, second), code(nvmlDeviceGetUUID, third)]
gi = nvmlDeviceGetGpuInstanceById(gpu, 1)
answer += [code(nvmlComputeInstanceGetInfo, nvmlGpuInstanceGetComputeInstanceById(gi, 1))]
answer += [code(nvmlDeviceGetGpuInstanceById, gpu, 5), code(nvmlDeviceGetName, gpu)]
""",
    )
    assert answer == [6, 0, 0, 999, 0, 17, 15, 4, 0]
