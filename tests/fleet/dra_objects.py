"""ResourceSlices, ResourceClaims and pods in the shape of the vendors' DRA drivers, and what is to be counted on each
node.

Sources: kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin (deviceinfo.go, partitions.go);
ROCm/k8s-gpu-dra-driver, docs/driver-attributes.md; intel/intel-resource-drivers-for-kubernetes (GetResources of the
plug-ins for GPUs and Gaudi); Kubernetes API reference, resource.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nfd.fleet.dra_devices import OnNode, by_node, read_claim, read_slice

Json = dict[str, Any]
Row = tuple[str, int, int, int]
"""Resource, capacity, allocatable, allocated."""

DRIVER = "gpu.nvidia.com"
VERSION = "resource.k8s.io/v1"
PROFILES = {"1g.10gb": (1, 16), "3g.40gb": (4, 60)}
"""Memory slices, multiprocessors."""


def uid(text: str) -> str:
    return f"00000000-0000-4000-8000-{abs(hash(text)) % 10**12:012d}"


def count(slices: Iterable[Mapping[str, Any]], claims: Iterable[Mapping[str, Any]]) -> dict[str, OnNode]:
    """What objects of the API say of each node."""
    return by_node(filter(None, map(read_slice, slices)), (one for each in claims for one in read_claim(each)))


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


def resource_slice(
    node: str, devices: Sequence[Json], *, part: int = 0, of: int = 1, generation: int = 1, driver: str = DRIVER
) -> Json:
    return {
        "apiVersion": VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}-{generation}-{part}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": of},
            "devices": list(devices),
        },
    }


def claim(name: str, node: str, *devices: str, pods: Sequence[str] = (), namespace: str = "dra", **more: Any) -> Json:
    driver = more.pop("driver", DRIVER)
    results = [{"request": "r", "driver": driver, "pool": node, "device": one, **more} for one in devices]
    exactly: Json = {"deviceClassName": driver, "allocationMode": "ExactCount", "count": len(devices)}
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


AMD, INTEL, GAUDI = "gpu.amd.com", "gpu.intel.com", "gaudi.intel.com"
MODES = {"spx": 1, "cpx": 8}
"""Partitions of a GPU by compute mode."""


def _amd(node: str, devices: Sequence[Json], **more: Any) -> Json:
    return resource_slice(node, devices, driver=AMD, **more)


def amd_gpu(bus: int, profile: str = "", part: int = 0, **more: Any) -> Json:
    """A whole GPU, or with a profile one of its partitions."""
    attributes = {
        "type": {"string": "amdgpu-partition" if profile else "amdgpu"},
        "productName": {"string": "AMD_Instinct_MI300X_OAM"},
        "deviceID": {"string": "0x74a1"},
        "partitionProfile": {"string": profile or "spx_nps1"},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{bus:02x}:00.0"},
    }
    number = bus * (8 if profile else 1) + part
    capacity = {"memory": {"value": "24Gi" if profile else "192Gi"}, "computeUnits": {"value": "38"}}
    return {"name": f"gpu-{number}-{128 + number}", "attributes": attributes, "capacity": capacity, **more}


def _amd_on_demand(node: str) -> list[Json]:
    """Two GPUs with AutoPartition; NPS4 is in use, so that devices of another memory mode are tainted."""
    conflict = {"taints": [{"key": f"{AMD}/memory-partition-conflict", "value": "x", "effect": "NoExecute"}]}
    devices = []
    for bus in range(2):
        for compute, memory in (("spx", "nps1"), ("cpx", "nps1"), ("cpx", "nps4")):
            attributes = {
                "type": {"string": "amdgpu" if compute == "spx" else "amdgpu-partition"},
                "computePartition": {"string": compute},
                "memoryPartition": {"string": memory},
                "pciAddr": {"string": f"0000:{bus:02x}:00.0"},
                "resource.kubernetes.io/pciBusID": {"string": f"0000:{bus:02x}:00.0"},
            }
            policy = {"default": "1"}
            one = {
                "name": f"gpu-{bus}-{compute}-{memory}",
                "attributes": attributes,
                "allowMultipleAllocations": True,
                "capacity": {"partitions": {"value": str(MODES[compute]), "requestPolicy": policy}},
                "consumesCounters": [
                    {"counterSet": f"gpu-{bus}-mutex", "counters": {"partition-mode": {"value": "1"}}}
                ],
            }
            devices.append(one if memory == "nps4" else {**one, **conflict})
    sets = [{"name": f"gpu-{bus}-mutex", "counters": {"partition-mode": {"value": "1"}}} for bus in range(2)]
    counters = _amd(node, (), part=1, of=2)
    spec = {key: value for key, value in counters["spec"].items() if key != "devices"}
    return [_amd(node, devices, of=2), {**counters, "spec": {**spec, "sharedCounters": sets}}]


def _amd_part(name: str, node: str, amount: str, *, pods: Sequence[str]) -> Json:
    taken = {"partitions": amount}
    return claim(name, node, "gpu-0-cpx-nps4", pods=pods, driver=AMD, shareID=uid(name), consumedCapacity=taken)


def intel_gpu(bus: int) -> Json:
    attributes = {
        "model": {"string": "Arc Pro B60"},
        "family": {"string": "Arc Pro B-Series"},
        "driver": {"string": "xe"},
        "pciId": {"string": "0xe211"},
        "health": {"string": "Healthy"},
        "sriov": {"bool": True},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{bus:02x}:00.0"},
    }
    capacity = {"memory": {"value": "24480Mi"}, "millicores": {"value": "1000"}}
    return {"name": f"0000-{bus:02x}-00-0-0xe211", "attributes": attributes, "capacity": capacity}


def gaudi(bus: int) -> Json:
    attributes = {"model": {"string": "Gaudi2"}, "pciRoot": {"string": "00"}, "healthy": {"bool": True}}
    return {"name": f"0000-{bus:02x}-00-0-0x1020", "attributes": attributes}


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
    "missing-slice": Case(
        [resource_slice("missing-slice", _gpus(4), of=2)],
        [claim("early", "missing-slice", "gpu-0")],
        problems=[f"DRA pool missing-slice of {DRIVER} is incomplete: 1 of 2 slices"],
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
    "amd-gpus": Case(
        [_amd("amd-gpus", [amd_gpu(0), amd_gpu(1), amd_gpu(2, taints=[{"key": "x", "effect": "NoSchedule"}])])],
        [claim("amd-one", "amd-gpus", "gpu-1-129", pods=["a"], driver=AMD)],
        [(AMD, 3, 2, 1)],
        [("dra/a", AMD, 1, "gpu-1-129")],
    ),
    "amd-partitions": Case(
        [_amd("amd-partitions", [amd_gpu(bus, "cpx_nps4", part) for bus in range(2) for part in range(8)])],
        [claim("amd-parts", "amd-partitions", "gpu-0-128", "gpu-9-137", pods=["p"], driver=AMD)],
        [(f"{AMD}/cpx_nps4", 16, 16, 2)],
        [("dra/p", f"{AMD}/cpx_nps4", 1, "gpu-0-128"), ("dra/p", f"{AMD}/cpx_nps4", 1, "gpu-9-137")],
    ),
    "amd-partitions-on-demand": Case(
        _amd_on_demand("amd-partitions-on-demand"),
        [
            _amd_part("amd-part-a", "amd-partitions-on-demand", "1", pods=["a"]),
            _amd_part("amd-part-b", "amd-partitions-on-demand", "2", pods=["b"]),
        ],
        [(AMD, 2, 1, 1), (f"{AMD}/cpx_nps1", 8, 0, 0), (f"{AMD}/cpx_nps4", 16, 16, 3)],
        [("dra/a", f"{AMD}/cpx_nps4", 1, "gpu-0-cpx-nps4"), ("dra/b", f"{AMD}/cpx_nps4", 2, "gpu-0-cpx-nps4")],
    ),
    "intel-gpus": Case(
        [resource_slice("intel-gpus", [intel_gpu(bus) for bus in range(4)], driver=INTEL)],
        [claim("intel-two", "intel-gpus", "0000-01-00-0-0xe211", "0000-03-00-0-0xe211", pods=["i"], driver=INTEL)],
        [(INTEL, 4, 4, 2)],
        [("dra/i", INTEL, 1, "0000-01-00-0-0xe211"), ("dra/i", INTEL, 1, "0000-03-00-0-0xe211")],
    ),
    "gaudi": Case(
        [resource_slice("gaudi", [gaudi(bus) for bus in range(8)], driver=GAUDI)],
        [claim("gaudi-all", "gaudi", *(f"0000-{bus:02x}-00-0-0x1020" for bus in range(8)), driver=GAUDI)],
        [(GAUDI, 8, 8, 8)],
        [("", GAUDI, 1, f"0000-{bus:02x}-00-0-0x1020") for bus in range(8)],
    ),
    "several-vendors": Case(
        [
            resource_slice("several-vendors", [device("gpu-0")]),
            resource_slice("several-vendors", [{"name": "gpu-0"}, {"name": "gpu-1"}], driver="neuron.aws.com"),
            resource_slice("several-vendors", [{"name": "gpu-0"}], driver="gpu.other.example"),
        ],
        [claim("of-aws", "several-vendors", "gpu-0", driver="neuron.aws.com")],
        [(DRIVER, 1, 1, 0), ("neuron.aws.com", 2, 2, 1)],
        [("", "neuron.aws.com", 1, "gpu-0")],
    ),
}
"""By the name of the node."""
