"""What pods ask of GPU resources (Kubernetes documentation, "Resource Management for Pods", "Sidecar Containers")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nfd.fleet.accelerators import unit_of
from nfd.host.blanks_and_numbers import parse_natural
from nfd.names import NVIDIA_NS
from nfd.quantity import parse_quantity

GPU_MEMORY = "aliyun.com/gpu-mem"
"""The resource of gpushare: memory of the node's GPUs, in GiB (or MiB, as its plug-in is started)."""
GPU_COUNT = "aliyun.com/gpu-count"
GPU_INDEX = "ALIYUN_COM_GPU_MEM_IDX"
"""Annotation of gpushare's scheduler extender: the GPU that a pod's memory is on; negative while it is on none."""

_OVER = ("Succeeded", "Failed")
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """A pod on a node. `gpu` is the index of the GPU that its gpushare memory is on, None if unknown."""

    node: str
    namespace: str
    name: str
    resources: Mapping[str, int] = field(default_factory=dict)
    gpu: int | None = None


def is_gpu_resource(name: str) -> bool:
    """`nvidia.com/gpu`, `.shared`, `mig-…` and whatever else NVIDIA's plug-ins offer, and gpushare's memory."""
    return name.startswith(f"{NVIDIA_NS}/") or name == GPU_MEMORY


def is_accelerator_resource(name: str) -> bool:
    """The same for every vendor. What only monitors devices is none."""
    return is_gpu_resource(name) or ("/" in name and unit_of(name) is not None)


def ask_of(pod: Json) -> Ask | None:
    """What a pod holds; None for one that is on no node, is over, or asks for no accelerator."""
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    node = spec.get("nodeName") or ""
    if not node or status.get("phase") in _OVER:
        return None
    through_dra = mapped_to_dra(status)
    resources = {name: amount for name, amount in _effective(spec).items() if name not in through_dra}
    if not resources:
        return None
    index = str((metadata.get("annotations") or {}).get(GPU_INDEX, ""))
    return Ask(node, metadata.get("namespace") or "", metadata.get("name") or "", resources, parse_natural(index))


def mapped_to_dra(status: Json) -> frozenset[str]:
    """Resources for which the scheduler made a claim, which counts instead (KEP-5004)."""
    mappings = (status.get("extendedResourceClaimStatus") or {}).get("requestMappings") or ()
    return frozenset(str(one.get("resourceName", "")) for one in mappings)


def _effective(spec: Json) -> dict[str, int]:
    """Containers and sidecars together, or the greatest init container with the sidecars before it, if that is more."""
    total, sidecars = Counter[str](), Counter[str]()
    for container in spec.get("containers") or ():
        total.update(_requests(container))
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars.update(asked)
            total.update(asked)
            asked = {}
        for name in {*asked, *sidecars}:
            peak[name] = max(peak.get(name, 0), asked.get(name, 0) + sidecars.get(name, 0))
    return {name: most for name in {*total, *peak} if (most := max(total.get(name, 0), peak.get(name, 0)))}


def _requests(container: Json) -> dict[str, int]:
    """A limit without a request is a request."""
    resources = container.get("resources")
    amounts = resources if isinstance(resources, Mapping) else {}
    asked: dict[str, Any] = {}
    for kind in ("limits", "requests"):
        asked |= amounts[kind] if isinstance(amounts.get(kind), Mapping) else {}
    return {name: whole(text) for name, text in asked.items() if is_accelerator_resource(name)}


def whole(text: Any) -> int:
    """An extended resource's amount; 0 for what is no quantity."""
    return int(parse_quantity(str(text)) or 0)
