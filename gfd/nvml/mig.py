"""One MIG device, and the names of MIG profiles as the driver's tools show them and labels repeat them.

A name is `<G>g.<GB>gb<suffix>`, or `<C>c.<G>g.<GB>gb<suffix>` for a compute instance smaller than its GPU instance.
G and the suffix follow from the number by which NVML is asked for the GPU-instance profile, C from that of the compute
instance (NVML API reference, "Multi Instance GPU Management": NVML_GPU_INSTANCE_PROFILE_*).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pynvml

from gfd.inventory import MigDevice
from gfd.nvml.library import attempt, error_text, optional, read_text, read_uuid, text_of

GPU_INSTANCES: tuple[tuple[int, str], ...] = (
    (1, ""),
    (2, ""),
    (3, ""),
    (4, ""),
    (7, ""),
    (8, ""),
    (6, ""),
    (1, ".me"),
    (2, ".me"),
    (1, ""),
    (1, ".gfx"),
    (2, ".gfx"),
    (4, ".gfx"),
    (1, "-me"),
    (2, "-me"),
    (1, ".me.all"),
    (2, ".me.all"),
    (3, ".gfx"),
)
"""(slices, suffix) by profile number; where the driver's tools show `+`, labels have a dot."""

COMPUTE_INSTANCES: tuple[int, ...] = (1, 2, 3, 4, 7, 8, 6, 1, 7)
"""Slices by profile number."""

_EIGHTHS = 8
_MIB = 1024 * 1024
_GIB = 1024 * _MIB


_PROFILE = re.compile(r"(?:MIG )?((?:\d+c\.)?\d+g\.\d+gb(?:[+.-][a-z0-9.+-]*)?)$", re.ASCII)


def profile_name(gi_profile: int, ci_profile: int, memory_mb: int, total_bytes: int) -> str:
    """The name of a MIG device, from its profile numbers, its memory in MB and that of its GPU in bytes."""
    slices, suffix = GPU_INSTANCES[gi_profile]
    return f"{compute_prefix(gi_profile, ci_profile)}{slices}g.{gigabytes(memory_mb, total_bytes)}gb{suffix}"


def compute_prefix(gi_profile: int, ci_profile: int) -> str:
    """`1c.` for a compute instance of one slice in a GPU instance of several; empty for one that is all of it."""
    computing = COMPUTE_INSTANCES[ci_profile]
    return "" if computing == GPU_INSTANCES[gi_profile][0] else f"{computing}c."


def parse_profile(text: str) -> str:
    """The profile's name at the end of a name of the driver's, `MIG 1g.10gb+me`, as labels have it; "" if none is."""
    found = _PROFILE.search(text)
    return found[1].replace("+", ".") if found else ""


def gigabytes(memory_mb: int, total_bytes: int) -> int:
    """The memory in a profile's name: eighths of the GPU, rounded up, of its GiB, rounded up; halves go up."""
    eighths = -(-memory_mb * _MIB * _EIGHTHS // total_bytes)
    total = -(-total_bytes // _GIB)
    return (2 * eighths * total + _EIGHTHS) // (2 * _EIGHTHS)


_NO_PROFILE = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT})
_SHARED_ENGINES = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
_NAME = pynvml.NVML_DEVICE_NAME_V2_BUFFER_SIZE


class Profiles(NamedTuple):
    """What a MIG device is made from: the numbers of its two profiles, and what NVML says of them."""

    parent: Any
    gi_number: int
    gi: Any
    ci_number: int
    ci: Any


def read_mig(gpu: int, mig: Any, memory_bytes: int) -> tuple[MigDevice, list[str]]:
    """One MIG device, and the failed calls whose value came from another call.

    Its attributes are those of its profiles, and its name is part of what the driver calls it; so either is enough.
    `memory_bytes` of its GPU: 0 if they are not known.

    Raises: NVMLError, or LookupError if its profile has no name, when what is missing cannot be derived otherwise.
    """
    failing: list[str] = []
    try:
        profiles = read_profiles(mig)
    except (pynvml.NVMLError, LookupError) as error:
        attributes = pynvml.nvmlDeviceGetAttributes(mig)
        name = read_device_name(mig)
        if not name:
            raise
        failing.append(f"profile: {error_text(error)}")
        return make_device(gpu, mig, name, attributes), failing
    attributes = attempt("attributes", failing, lambda: pynvml.nvmlDeviceGetAttributes(mig)) or derive(profiles)
    return make_device(gpu, mig, read_name(mig, profiles, attributes, memory_bytes), attributes), failing


def make_device(gpu: int, mig: Any, profile: str, attributes: Any) -> MigDevice:
    return MigDevice(
        gpu,
        profile,
        uuid=read_uuid(mig),
        memory=int(attributes.memorySizeMB),
        multiprocessors=attributes.multiprocessorCount,
        slices_gi=attributes.gpuInstanceSliceCount,
        slices_ci=attributes.computeInstanceSliceCount,
        engines_copy=attributes.sharedCopyEngineCount,
        engines_decoder=attributes.sharedDecoderCount,
        engines_encoder=attributes.sharedEncoderCount,
        engines_jpeg=attributes.sharedJpegCount,
        engines_ofa=attributes.sharedOfaCount,
    )


def derive(profiles: Profiles) -> Any:
    """The attributes of a MIG device made from these profiles."""
    gi, ci = profiles.gi, profiles.ci
    return pynvml.c_nvmlDeviceAttributes(
        multiprocessorCount=ci.multiprocessorCount,
        sharedCopyEngineCount=ci.sharedCopyEngineCount,
        sharedDecoderCount=ci.sharedDecoderCount,
        sharedEncoderCount=ci.sharedEncoderCount,
        sharedJpegCount=ci.sharedJpegCount,
        sharedOfaCount=ci.sharedOfaCount,
        gpuInstanceSliceCount=gi.sliceCount,
        computeInstanceSliceCount=ci.sliceCount,
        memorySizeMB=gi.memorySizeMB,
    )


def read_name(mig: Any, profiles: Profiles, attributes: Any, memory_bytes: int) -> str:
    """The profile's name, for which the GPU's memory is needed, or the driver's own word. Raises LookupError."""
    if memory_bytes:
        numbers = profiles.gi_number, profiles.ci_number
        return profile_name(*numbers, int(attributes.memorySizeMB), memory_bytes)
    name = read_profile_name(profiles) or read_device_name(mig)
    if not name:
        raise LookupError("no name, since the memory of its GPU is not known")
    return name


def read_profile_name(profiles: Profiles) -> str:
    """The name that the driver has for the profile; empty if it tells none.

    NVML API reference, `nvmlDeviceGetGpuInstanceProfileInfoV`: `nvmlGpuInstanceProfileInfo_v2_t.name`.
    """
    number = profiles.gi_number
    info = optional(lambda: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(profiles.parent, number, 2), None)
    name = parse_profile(text_of(info, "name")) if info is not None else ""
    return compute_prefix(number, profiles.ci_number) + name if name else ""


def read_device_name(mig: Any) -> str:
    """The profile in the name of a MIG device, `NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb`; empty if there is none."""
    return parse_profile(optional(lambda: read_text("nvmlDeviceGetName", _NAME, mig), ""))


def read_profiles(mig: Any) -> Profiles:
    """Its GPU-instance and compute-instance profiles. Raises NVMLError, and LookupError for one nobody knows."""
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)
    gi = pynvml.nvmlDeviceGetGpuInstanceById(parent, pynvml.nvmlDeviceGetGpuInstanceId(mig))
    ci = pynvml.nvmlGpuInstanceGetComputeInstanceById(gi, pynvml.nvmlDeviceGetComputeInstanceId(mig))
    gi_id = pynvml.nvmlGpuInstanceGetInfo(gi).profileId
    ci_id = pynvml.nvmlComputeInstanceGetInfo(ci).profileId
    gi_found = find_profile(
        gi_id, len(GPU_INSTANCES), lambda n: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(parent, n, 1)
    )
    ci_found = find_profile(
        ci_id,
        len(COMPUTE_INSTANCES),
        lambda n: pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, n, _SHARED_ENGINES, 1),
    )
    return Profiles(parent, *gi_found, *ci_found)


def find_profile(wanted: int, count: int, ask: Callable[[int], Any]) -> tuple[int, Any]:
    """The number under which a profile is known that has the wanted id, and what NVML says of it."""
    for number in range(count):
        try:
            info = ask(number)
        except pynvml.NVMLError as error:
            if error.value not in _NO_PROFILE:
                raise
            continue
        if info.id == wanted:
            return number, info
    raise LookupError(f"no profile has the id {wanted}")
