"""One MIG device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from gfd.inventory import MigDevice
from gfd.mig import COMPUTE_INSTANCES, GPU_INSTANCES, profile_name
from gfd.nvml.library import optional

_NO_PROFILE = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT})
_SHARED_ENGINES = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED


def read_mig(gpu: int, mig: Any, memory_bytes: int) -> MigDevice:
    """One MIG device. Raises LookupError if its profile has no name."""
    attributes = pynvml.nvmlDeviceGetAttributes(mig)
    memory = int(attributes.memorySizeMB)
    gi_profile, ci_profile = read_profiles(mig)
    if not memory_bytes:
        raise LookupError("no name, since the memory of its GPU is not known")
    return MigDevice(
        gpu,
        profile_name(gi_profile, ci_profile, memory, memory_bytes),
        uuid=optional(lambda: pynvml.nvmlDeviceGetUUID(mig), "") or "",
        memory=memory,
        multiprocessors=attributes.multiprocessorCount,
        slices_gi=attributes.gpuInstanceSliceCount,
        slices_ci=attributes.computeInstanceSliceCount,
        engines_copy=attributes.sharedCopyEngineCount,
        engines_decoder=attributes.sharedDecoderCount,
        engines_encoder=attributes.sharedEncoderCount,
        engines_jpeg=attributes.sharedJpegCount,
        engines_ofa=attributes.sharedOfaCount,
    )


def read_profiles(mig: Any) -> tuple[int, int]:
    """The numbers of its GPU-instance and compute-instance profiles."""
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)
    gi = pynvml.nvmlDeviceGetGpuInstanceById(parent, pynvml.nvmlDeviceGetGpuInstanceId(mig))
    ci = pynvml.nvmlGpuInstanceGetComputeInstanceById(gi, pynvml.nvmlDeviceGetComputeInstanceId(mig))
    gi_id = pynvml.nvmlGpuInstanceGetInfo(gi).profileId
    ci_id = pynvml.nvmlComputeInstanceGetInfo(ci).profileId
    return (
        find_profile(gi_id, len(GPU_INSTANCES), lambda n: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(parent, n, 1)),
        find_profile(
            ci_id,
            len(COMPUTE_INSTANCES),
            lambda n: pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, n, _SHARED_ENGINES, 1),
        ),
    )


def find_profile(wanted: int, count: int, ask: Callable[[int], Any]) -> int:
    """The number under which a profile is known that has the wanted id."""
    for number in range(count):
        try:
            if ask(number).id == wanted:
                return number
        except pynvml.NVMLError as error:
            if error.value not in _NO_PROFILE:
                raise
    raise LookupError(f"no profile has the id {wanted}")
