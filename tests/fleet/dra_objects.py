"""ResourceSlices, ResourceClaims and pods in the shape of NVIDIA's DRA driver, and what is to be counted on each node.

Source: kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin (deviceinfo.go, partitions.go); Kubernetes API
reference, resource.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Row = tuple[str, int, int, int]
"""Resource, capacity, allocatable, allocated."""

DRIVER = "gpu.nvidia.com"
VERSION = "resource.k8s.io/v1"
PROFILES = {"1g.10gb": (1, 16), "3g.40gb": (4, 60)}
"""Memory slices, multiprocessors."""


def uid(text: str) -> str:
    return f"00000000-0000-4000-8000-{abs(hash(text)) % 10**12:012d}"


def device(name: str, kind: str = "gpu", uuid: str = "", **more: Any) -> Json:
    attributes = {
        "type": {"string": kind},
        "uuid": {"string": f"GPU-{uuid or name}"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "architecture": {"string": "Hopper"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "580.95.5"},
        **more.pop("attributes", {}),
    }
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "81559Mi"}}, **more}


def mig(gpu: str, profile: str, number: int, **more: Any) -> Json:
    name = f"{gpu}-mig-{profile.replace('.', '')}-{number}"
    own = {"profile": {"string": profile}, "parentUUID": {"string": f"GPU-{gpu}"}}
    return device(name, "mig", f"MIG-{name}", attributes=own, **more)


def resource_slice(node: str, devices: Sequence[Json], *, part: int = 0, of: int = 1, generation: int = 1) -> Json:
    return {
        "apiVersion": VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{generation}-{part}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": of},
            "devices": list(devices),
        },
    }


def claim(name: str, node: str, *devices: str, pods: Sequence[str] = (), namespace: str = "dra", **more: Any) -> Json:
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": one, **more} for one in devices]
    exactly: Json = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": len(devices)}
    if more.get("adminAccess"):
        exactly["adminAccess"] = True
    reserved = [{"resource": "pods", "name": pod, "uid": uid(pod)} for pod in pods]
    return {
        "apiVersion": VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": {"allocation": {"devices": {"results": results}}, **({"reservedFor": reserved} if reserved else {})},
    }


def pod(name: str, node: str, *, gpus: int, through: str = "") -> Json:
    """One that asks for `nvidia.com/gpu`; `through` is the claim that the scheduler has made for it."""
    limits = {"nvidia.com/gpu": str(gpus)}
    mapped = {
        "resourceClaimName": through,
        "requestMappings": [
            {"containerName": "c", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "dra"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]},
        "status": {"phase": "Running", **({"extendedResourceClaimStatus": mapped} if through else {})},
    }


@dataclass(frozen=True)
class Case:
    """One node. `holders` are pod, resource, amount, device."""

    slices: Sequence[Json]
    claims: Sequence[Json] = ()
    rows: Sequence[Row] = ()
    holders: Sequence[tuple[str, str, int, str]] = ()
    problems: Sequence[str] = ()
    pods: Sequence[Json] = ()
    allocatable: Mapping[str, str] = field(default_factory=dict)


def _gpus(count: int, first: int = 0, **more: Any) -> list[Json]:
    return [device(f"gpu-{number}", **more) for number in range(first, first + count)]


def _counters() -> Json:
    counters = {f"memory-slice-{number}": {"value": "1"} for number in range(8)}
    return {"name": "gpu-0-counter-set", "counters": {**counters, "multiprocessors": {"value": "132"}}}


def _consumes(start: int, slices: int, multiprocessors: int) -> list[Json]:
    counters = {f"memory-slice-{number}": {"value": "1"} for number in range(start, start + slices)}
    return [
        {
            "counterSet": "gpu-0-counter-set",
            "counters": {**counters, "multiprocessors": {"value": str(multiprocessors)}},
        }
    ]


def _on_demand(node: str) -> list[Json]:
    """One GPU whose MIG devices are made when a claim asks for them."""
    devices = [device("gpu-0", consumesCounters=_consumes(0, 8, 132))]
    devices += [mig("gpu-0", "1g.10gb", start, consumesCounters=_consumes(start, 1, 16)) for start in range(7)]
    devices += [mig("gpu-0", "3g.40gb", start, consumesCounters=_consumes(start, 4, 60)) for start in (0, 4)]
    counters = resource_slice(node, (), part=1, of=2)
    spec = {key: value for key, value in counters["spec"].items() if key != "devices"}
    return [resource_slice(node, devices, of=2), {**counters, "spec": {**spec, "sharedCounters": [_counters()]}}]


def _shared(name: str) -> Json:
    policy = {"default": "1Mi", "validRange": {"min": "1Mi", "step": "1Mi"}}
    capacity = {"memory": {"value": "80Gi", "requestPolicy": policy}}
    return {**device(name), "allowMultipleAllocations": True, "capacity": capacity}


def _share(name: str, node: str, size: str, *, pods: Sequence[str] = ()) -> Json:
    return claim(name, node, "gpu-0", pods=pods, shareID=uid(name), consumedCapacity={"memory": size})


CASES: dict[str, Case] = {
    "full-gpus": Case(
        [resource_slice("full-gpus", _gpus(8))],
        [
            claim("two", "full-gpus", "gpu-0", "gpu-1", pods=["a", "b"]),
            claim("kept", "full-gpus", "gpu-7"),
        ],
        [(DRIVER, 8, 8, 3)],
        [
            ("", DRIVER, 1, "gpu-7"),
            ("dra/a", DRIVER, 1, "gpu-0"),
            ("dra/a", DRIVER, 1, "gpu-1"),
            ("dra/b", DRIVER, 1, "gpu-0"),
            ("dra/b", DRIVER, 1, "gpu-1"),
        ],
    ),
    "static-mig": Case(
        [resource_slice("static-mig", [*_gpus(2), *(mig("gpu-1", "1g.10gb", n) for n in range(7))])],
        [
            claim("mig-a", "static-mig", "gpu-1-mig-1g10gb-0", pods=["m"]),
            claim("mig-b", "static-mig", "gpu-1-mig-1g10gb-3"),
        ],
        [(DRIVER, 1, 1, 0), (f"{DRIVER}/mig-1g.10gb", 7, 7, 2)],
        [
            ("", f"{DRIVER}/mig-1g.10gb", 1, "gpu-1-mig-1g10gb-3"),
            ("dra/m", f"{DRIVER}/mig-1g.10gb", 1, "gpu-1-mig-1g10gb-0"),
        ],
    ),
    "mig-on-demand": Case(
        _on_demand("mig-on-demand"),
        [claim("three", "mig-on-demand", "gpu-0-mig-3g40gb-0", pods=["t"])],
        [(DRIVER, 1, 1, 1), (f"{DRIVER}/mig-1g.10gb", 3, 3, 0), (f"{DRIVER}/mig-3g.40gb", 2, 2, 1)],
        [("dra/t", f"{DRIVER}/mig-3g.40gb", 1, "gpu-0-mig-3g40gb-0")],
    ),
    "time-sliced": Case(
        [resource_slice("time-sliced", _gpus(2))],
        [claim("sliced", "time-sliced", "gpu-0", pods=["s1", "s2", "s3"])],
        [(DRIVER, 2, 2, 1)],
        [(f"dra/s{n}", DRIVER, 1, "gpu-0") for n in (1, 2, 3)],
    ),
    "shared-capacity": Case(
        [resource_slice("shared-capacity", [_shared("gpu-0"), _shared("gpu-1")])],
        [_share("part-a", "shared-capacity", "20Gi", pods=["x"]), _share("part-b", "shared-capacity", "40Gi")],
        [(f"{DRIVER}/memory", 163840, 163840, 61440)],
        [("", f"{DRIVER}/memory", 40960, "gpu-0"), ("dra/x", f"{DRIVER}/memory", 20480, "gpu-0")],
    ),
    "admin-access": Case(
        [resource_slice("admin-access", _gpus(1))],
        [claim("monitor", "admin-access", "gpu-0", namespace="dra-admin", adminAccess=True)],
        [(DRIVER, 1, 1, 0)],
    ),
    "incomplete": Case(
        [resource_slice("incomplete", _gpus(4), of=2)],
        [claim("early", "incomplete", "gpu-0")],
        problems=["DRA pool incomplete is incomplete: 1 of 2 slices"],
    ),
    "two-generations": Case(
        [resource_slice("two-generations", _gpus(4)), resource_slice("two-generations", _gpus(2), generation=2)],
        [claim("newer", "two-generations", "gpu-1", pods=["g"])],
        [(DRIVER, 2, 2, 1)],
        [("dra/g", DRIVER, 1, "gpu-1")],
    ),
    "tainted": Case(
        [
            resource_slice(
                "tainted",
                [
                    device("gpu-0"),
                    device("gpu-1", taints=[{"key": f"{DRIVER}/xid", "value": "79", "effect": "NoSchedule"}]),
                ],
            )
        ],
        rows=[(DRIVER, 2, 1, 0)],
    ),
    "extended-resource": Case(
        [resource_slice("extended-resource", _gpus(2))],
        [claim("e-extended-resources", "extended-resource", "gpu-1", pods=["e"])],
        [(DRIVER, 2, 2, 1)],
        [("dra/e", DRIVER, 1, "gpu-1")],
        pods=[pod("e", "extended-resource", gpus=1, through="e-extended-resources")],
    ),
    "both-kinds": Case(
        [resource_slice("both-kinds", _gpus(1, first=3))],
        [claim("by-claim", "both-kinds", "gpu-3", pods=["d"])],
        [("nvidia.com/gpu", 3, 3, 2), (DRIVER, 1, 1, 1)],
        [("dra/d", DRIVER, 1, "gpu-3"), ("dra/p", "nvidia.com/gpu", 2, "")],
        pods=[pod("p", "both-kinds", gpus=2)],
        allocatable={"nvidia.com/gpu": "3"},
    ),
}
"""By the name of the node."""
