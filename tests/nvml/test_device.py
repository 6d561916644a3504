"""What pynvml reads of a whole GPU, struct by struct."""

from pathlib import Path

from tests.nvml.asking import BOTH, H100, ask_machine, needs_compiler

pytestmark = needs_compiler


def test_system(tmp_path: Path) -> None:
    """Versions of the machine as a whole, through the names pynvml asks for."""
    script = """
answer = [nvmlSystemGetDriverVersion(), nvmlSystemGetNVMLVersion(), nvmlSystemGetCudaDriverVersion(),
          nvmlSystemGetCudaDriverVersion_v2(), nvmlDeviceGetCount()]
"""
    assert ask_machine(tmp_path, BOTH, script) == ["570.124.06", "12.570.124.06", 12080, 12080, 2]
    assert ask_machine(tmp_path, {}, script) == ["580.159.04", "13.580.159.04", 13000, 13000, 0]
    assert ask_machine(tmp_path, {"nvml": "odd"}, script)[1] == "odd"


def test_device(tmp_path: Path) -> None:
    """Every plain query on a whole GPU."""
    answer = ask_machine(
        tmp_path,
        BOTH,
        """
gpu = nvmlDeviceGetHandleByIndex(0)
answer = [get(gpu) for get in (nvmlDeviceGetName, nvmlDeviceGetUUID, nvmlDeviceGetIndex, nvmlDeviceGetMinorNumber,
    nvmlDeviceGetCudaComputeCapability, nvmlDeviceGetBrand, nvmlDeviceGetArchitecture, nvmlDeviceGetMigMode,
    nvmlDeviceGetMaxMigDeviceCount, nvmlDeviceGetVirtualizationMode, nvmlDeviceGetAddressingMode)]
answer.append(nvmlDeviceIsMigDeviceHandle(gpu).value)
""",
    )
    assert answer == [H100["name"], H100["uuid"], 0, 4, [9, 0], 14, 9, [0, 0], 0, 0, 0, 0]


def test_memory_and_pci(tmp_path: Path) -> None:
    """The reserved part is used in version 1, apart in version 2."""
    old, new, pci = ask_machine(
        tmp_path,
        BOTH,
        """
gpu = nvmlDeviceGetHandleByIndex(0)
answer = [fields(nvmlDeviceGetMemoryInfo(gpu)), fields(nvmlDeviceGetMemoryInfo(gpu, nvmlMemory_v2)),
          fields(nvmlDeviceGetPciInfo(gpu))]
""",
    )
    assert old == {"total": 85520809984, "free": 85017493504, "used": 503316480}
    assert new == {
        "version": 0x02000028,
        "total": 85520809984,
        "reserved": 503316480,
        "free": 85017493504,
        "used": 0,
    }
    assert pci == {
        "busIdLegacy": "0000:3B:00.0",
        "domain": 0,
        "bus": 0x3B,
        "device": 0,
        "pciDeviceId": 0x233010DE,
        "pciSubSystemId": 0x16C110DE,
        "busId": "00000000:3B:00.0",
    }


def test_not_supported(tmp_path: Path) -> None:
    """What a machine does not tell of a GPU is code 3."""
    answer = ask_machine(
        tmp_path,
        BOTH,
        """
gpu = nvmlDeviceGetHandleByIndex(1)
calls = (nvmlDeviceGetMemoryInfo, nvmlDeviceGetPciInfo, nvmlDeviceGetMigMode, nvmlDeviceGetAttributes,
         nvmlDeviceGetGpuInstanceId, nvmlDeviceGetHostVgpuMode, nvmlDeviceGetSerial)
answer = [code(call, gpu) for call in calls]
answer += [code(nvmlDeviceGetMigDeviceHandleByIndex, gpu, 0), code(nvmlDeviceGetGpuInstanceProfileInfo, gpu, 0)]
answer += [code(nvmlDeviceGetGpuFabricInfo, gpu, ctypes.byref(c_nvmlGpuFabricInfo_t()))]
""",
    )
    assert answer == [3] * 10


def test_handles(tmp_path: Path) -> None:
    """A GPU is found by index, UUID and bus id; what is none of ours is refused."""
    answer = ask_machine(
        tmp_path,
        BOTH,
        """
ways = [(nvmlDeviceGetHandleByUUID, "GPU-0A1B2C3D-1111-2222-3333-444455556666"),
        (nvmlDeviceGetHandleByUUID, nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(1))),
        (nvmlDeviceGetHandleByPciBusId, "0000:3b:00.0"), (nvmlDeviceGetHandleByPciBusId, "3B:00.0")]
answer = [nvmlDeviceGetIndex(way(key)) for way, key in ways]
answer += [code(nvmlDeviceGetHandleByIndex, 2), code(nvmlDeviceGetHandleByUUID, "GPU-no"),
           code(nvmlDeviceGetHandleByPciBusId, "0000:00:00.0"), code(nvmlDeviceGetHandleByPciBusId, "x"),
           code(nvmlDeviceGetName, c_nvmlDevice_t())]
""",
    )
    assert answer == [0, 1, 0, 0, 2, 6, 6, 2, 2]


def test_fabric(tmp_path: Path) -> None:
    """All struct versions; only one byte of the state is written, so the caller has to clear it."""
    answer = ask_machine(
        tmp_path,
        BOTH,
        """
gpu = nvmlDeviceGetHandleByIndex(0)
answer = []
for call, info in ((nvmlDeviceGetGpuFabricInfo, c_nvmlGpuFabricInfo_t()),
                   (nvmlDeviceGetGpuFabricInfoV, c_nvmlGpuFabricInfo_v2_t()),
                   (nvmlDeviceGetGpuFabricInfoV, c_nvmlGpuFabricInfo_v3_t())):
    call(gpu, ctypes.byref(info))
    answer.append([bytes(info.clusterUuid).hex(), info.status, info.cliqueId, info.state])
dirty = c_nvmlGpuFabricInfo_t(state=0xFFFFFFFF)
nvmlDeviceGetGpuFabricInfo(gpu, ctypes.byref(dirty))
wrong = c_nvmlGpuFabricInfo_v2_t()
wrong.version = 7
answer += [dirty.state, code(nvmlDeviceGetGpuFabricInfoV, gpu, ctypes.byref(wrong))]
""",
    )
    assert answer == [["7f3c0102030405060708090a0b0c0dff", 0, 32766, 3]] * 3 + [0xFFFFFF03, 25]


def test_structs_end_where_they_should(tmp_path: Path) -> None:
    """No call writes behind the struct as pynvml lays it out."""
    mig = {"gi": 1, "gi_enum": 0, "gi_profile_id": 19, "gi_slices": 1, "memory_mb": 9984, "profile": "1g.10gb"}
    answer = ask_machine(
        tmp_path,
        {"devices": [H100 | {"mig": {"current": 1, "devices": [mig]}}]},
        """
gpu = nvmlDeviceGetHandleByIndex(0)
mig = nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
gi = nvmlDeviceGetGpuInstanceById(gpu, 1)
ci = nvmlGpuInstanceGetComputeInstanceById(gi, 0)
answer = {}
for name, struct, *arguments in (
    ("nvmlDeviceGetMemoryInfo", c_nvmlMemory_t, gpu), ("nvmlDeviceGetMemoryInfo_v2", c_nvmlMemory_v2_t, gpu),
    ("nvmlDeviceGetPciInfo", nvmlPciInfo_v2_t, gpu), ("nvmlDeviceGetPciInfo_v3", nvmlPciInfo_t, gpu),
    ("nvmlDeviceGetAddressingMode", c_nvmlDeviceAddressingMode_t, gpu),
    ("nvmlDeviceGetGpuFabricInfo", c_nvmlGpuFabricInfo_t, gpu),
    ("nvmlDeviceGetGpuFabricInfoV", c_nvmlGpuFabricInfo_v2_t, gpu),
    ("nvmlDeviceGetGpuFabricInfoV", c_nvmlGpuFabricInfo_v3_t, gpu),
    ("nvmlDeviceGetAttributes_v2", c_nvmlDeviceAttributes, mig),
    ("nvmlGpuInstanceGetInfo", c_nvmlGpuInstanceInfo_t, gi),
    ("nvmlComputeInstanceGetInfo_v2", c_nvmlComputeInstanceInfo_t, ci),
    ("nvmlDeviceGetGpuInstanceProfileInfo", c_nvmlGpuInstanceProfileInfo_t, gpu, 0),
    ("nvmlDeviceGetGpuInstanceProfileInfoV", c_nvmlGpuInstanceProfileInfo_v2_t, gpu, 0),
    ("nvmlGpuInstanceGetComputeInstanceProfileInfo", c_nvmlComputeInstanceProfileInfo_t, gi, 0, 0),
    ("nvmlGpuInstanceGetComputeInstanceProfileInfoV", c_nvmlComputeInstanceProfileInfo_v2_t, gi, 0, 0),
):
    size = ctypes.sizeof(struct)
    buffer = (ctypes.c_ubyte * (size + 64))(*[0xAA] * (size + 64))
    empty = struct()
    empty.version = nvmlMemory_v2 if struct is c_nvmlMemory_v2_t else getattr(empty, "version", 0)
    ctypes.memmove(buffer, ctypes.byref(empty), 4 if hasattr(struct, "version") else 0)
    result = getattr(pynvml.nvmlLib, name)(*arguments, ctypes.byref(buffer))
    struct_bytes, behind = bytes(buffer)[:size], bytes(buffer)[size:]
    answer[f"{name} {size}"] = [result, behind == bytes([0xAA] * 64), struct_bytes.count(0xAA) < 8]
""",
    )
    assert {name: result for name, result in answer.items() if result != [0, True, True]} == {}
    assert len(answer) == 15
