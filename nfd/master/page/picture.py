"""The fleet as the page needs it: for each label and each fact of a summary, the nodes that have it (pure).

Nodes are numbered by name. A list of numbers is written as runs, `[gap, length, gap, length, …]`; a gap is counted from
the end of the run before. Similar nodes have consecutive names, so that 5,000 of them are a few numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from nfd.fleet.accelerators import PARTITION, fact_of_label
from nfd.fleet.dra_devices import MEMORY, NOTHING, Dra
from nfd.fleet.gpu_labels import Gpus, gpus_on_pci, is_mig_device
from nfd.fleet.gpu_resources import Resource
from nfd.fleet.gpus import sharing_of
from nfd.fleet.node_summary import NodeSummary, summarize
from nfd.names import FEATURE_NS, NVIDIA_NS
from nfd.store.base import Node

KEYS = {
    "product": (f"{NVIDIA_NS}/gpu.product",),
    "driver": (f"{NVIDIA_NS}/cuda.driver-version.full",),
    "kernel": (f"{FEATURE_NS}/kernel-version.full",),
    "os": tuple(f"{FEATURE_NS}/system-os_release.{name}" for name in ("ID", "VERSION_ID")),
    "cpu": tuple(f"{FEATURE_NS}/cpu-model.{name}" for name in ("vendor_id", "family", "id")),
    "arch": ("kubernetes.io/arch",),
}
"""The labels that select the nodes with a fact, besides those of other vendors' accelerators."""
FACTS = ("mig", "sharing", "taint", "problem", "usable", "present", "slices")
"""`usable` and `present` count accelerators; `slices` MIG devices in their place, with the MIG strategy `single`."""
TAINTS = "node.kubernetes.io"
_PRESSURES = {
    "memory-pressure": "MemoryPressure",
    "disk-pressure": "DiskPressure",
    "pid-pressure": "PIDPressure",
    "network-unavailable": "NetworkUnavailable",
}
Index = dict[Any, list[int]]
Runs = list[int]


def fleet_data(
    nodes: Iterable[Node], cluster: str = "", *, reads_dra: bool = False, dra: Dra | None = None
) -> dict[str, Any]:
    """All data of the page of the cluster of that name. A fact with several values on a node is in several lists.

    `reads_dra` says that there is also `dra_data` to ask for; `dra` is what is known of it already.
    """
    in_dra = dra.nodes if dra else None
    ordered = sorted(nodes, key=lambda node: node.name)
    labels: dict[str, Index] = {}
    facts: dict[str, Index] = {name: {} for name in (*KEYS, *FACTS)}
    models: Index = {}
    for number, node in enumerate(ordered):
        for key, value in node.labels.items():
            labels.setdefault(key, {}).setdefault(value, []).append(number)
        summary = summarize(as_object(node), known=None if in_dra is None else in_dra.get(node.name, NOTHING))
        for name, values in _facts(summary).items():
            for one in values:
                facts[name].setdefault(one, []).append(number)
        for model in (model for one in summary.accelerators for model in one.models):
            models.setdefault((model.product, model.count, model.memory), []).append(number)
    return {
        "cluster": cluster,
        "dra": reads_dra,
        "nodes": [node.name for node in ordered],
        "keys": {
            name: [*keys, *(key for key in sorted(labels) if fact_of_label(key) == name)] for name, keys in KEYS.items()
        },
        "labels": [[key, _listed(labels[key])] for key in sorted(labels)],
        "facts": {name: _listed(index) for name, index in facts.items()},
        "models": [[*model, runs(numbers), int(is_mig_device(model[0]))] for model, numbers in sorted(models.items())],
    }


def dra_data(dra: Dra, names: Collection[str]) -> dict[str, Any]:
    """Devices of DRA drivers on these nodes, by resource; node lists count in the nodes that are named here.

    A resource is `[name, unit, [[all, offered, taken, nodes], …]]`; `pools` is how many pools cannot be counted.
    """
    here = {name: one for name, one in sorted((dra.nodes or {}).items()) if name in names}
    units: dict[str, str] = {}
    found: dict[str, Index] = {}
    for number, one in enumerate(here.values()):
        for each in one.resources:
            units[each.name] = _unit(each)
            amounts = each.capacity, each.allocatable, each.allocated
            found.setdefault(each.name, {}).setdefault(amounts, []).append(number)
    return {
        "note": dra.note,
        "pools": len({text for one in here.values() for text in one.problems}),
        "nodes": list(here),
        "resources": [
            [name, units[name], [[*amounts, runs(numbers)] for amounts, numbers in sorted(index.items())]]
            for name, index in sorted(found.items())
        ],
    }


def _unit(one: Resource) -> str:
    """What one of a resource is, "" for a device."""
    if one.sharing:
        return "MiB" if one.name.endswith(f"/{MEMORY}") else "shares"
    return "partitions" if one.unit.kind == PARTITION else ""


def as_object(node: Node) -> dict[str, Any]:
    """The v1 Node as far as it is known. Its conditions are those that the control plane also writes as taints.

    Source: Kubernetes documentation, "Taints and Tolerations", "Taint Nodes by Condition".
    """
    said = {key.rpartition("/")[2] for taint in node.taints if (key := taint.get("key", "")).startswith(f"{TAINTS}/")}
    ready = "False" if said & {"not-ready", "unreachable"} else "True"
    pressures = [{"type": kind, "status": "True"} for name, kind in _PRESSURES.items() if name in said]
    return {
        "metadata": {"name": node.name, "labels": node.labels, "annotations": node.annotations},
        "spec": {"taints": node.taints, "unschedulable": "unschedulable" in said},
        "status": {
            "capacity": node.resources,
            "allocatable": node.resources,
            "conditions": [{"type": "Ready", "status": ready}, *pressures],
        },
    }


def runs(numbers: Sequence[int]) -> Runs:
    """Ascending numbers as gaps and lengths."""
    found: Runs = []
    end = 0
    for number in numbers:
        if found and number == end:
            found[-1] += 1
        else:
            found += (number - end, 1)
        end = number + 1
    return found


def _facts(summary: NodeSummary) -> Mapping[str, Iterable[Any]]:
    """The values of the node by fact; no entry if it has none."""
    gpus = summary.gpus
    single = {
        "product": " + ".join(one.product for one in summary.accelerators if one.product),
        "driver": " + ".join(dict.fromkeys(one.driver for one in summary.accelerators if one.driver)),
        "kernel": summary.kernel,
        "os": summary.os,
        "cpu": summary.cpu,
        "arch": summary.arch,
        "mig": gpus.layout,
        "sharing": sharing_of(summary),
        **_counts(summary),
    }
    found = {name: (value,) if value else () for name, value in single.items()}
    return {**found, "taint": dict.fromkeys(summary.taints), "problem": dict.fromkeys(summary.problems)}


def _counts(summary: NodeSummary) -> dict[str, int]:
    """Accelerators of all vendors, and MIG devices."""
    found = _gpu_counts(summary.gpus, summary.labels)
    for name in ("usable", "present"):
        found[name] += sum(getattr(one, name) for one in summary.others)
    return found


def _gpu_counts(gpus: Gpus, labels: Mapping[str, str]) -> dict[str, int]:
    """GPUs, and MIG devices. How many GPUs these are on, the labels tell only where some GPUs are missing."""
    slices = sum(model.count for model in gpus.models if is_mig_device(model.product))
    if not slices:
        return {"usable": gpus.usable, "present": gpus.present, "slices": 0}
    whole = gpus.usable - slices
    return {"usable": whole, "present": max(whole, gpus_on_pci(labels)), "slices": slices}


def _listed(index: Index) -> list[list[Any]]:
    return [[value, runs(index[value])] for value in sorted(index)]
