"""A Node at a glance: GPUs, processor, kernel, what is in the way of pods, and the texts of its PROBLEMS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nfd.fleet.accelerators import is_often_integrated, read_accelerators, unit_of
from nfd.fleet.dra_devices import NOTHING, Holder, OnNode, read_holders
from nfd.fleet.gpu_labels import NVIDIA, Gpus, read_gpus
from nfd.fleet.gpu_resources import Resource, compare_claims, read_resources
from nfd.fleet.node_template import listed_labels
from nfd.fleet.pods import Ask, is_gpu_resource, whole
from nfd.host.blanks_and_numbers import parse_natural
from nfd.names import FEATURE_NS, NVIDIA_NS
from nfd.rules.policy import text_of_taint

MANAGERS = ("nfd-gfd", "nfd-master")
"""Who writes the labels that are managed by nfd: this product, and NFD (`metadata.managedFields`)."""
SILENT = 3000.0
"""Seconds: three heartbeats of a worker in the largest cluster, where it reports every 15 minutes, and some more."""
GPU_CLASSES = ("0300_", "0302_", "")
_PCI = [f"{FEATURE_NS}/pci-{kind}10de.present" for kind in GPU_CLASSES]
DRA_DEPLOYED = f"{NVIDIA_NS}/gpu.deploy.dra-driver"
"""The GPU operator's label of nodes that get NVIDIA's DRA driver."""
_LABELLER = ("amd.com/gpu.", "beta.amd.com/gpu.")
_SHOWN = 3
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """One Node. `changed` is when nfd last wrote to it, RFC 3339, "" if unknown.

    `gpus` are NVIDIA's, `others` accelerators of other vendors. `taints` are as kubectl writes them,
    `KEY=VALUE:EFFECT`; `resources` those of accelerators with what pods hold of them.
    """

    name: str
    gpus: Gpus = field(default_factory=Gpus)
    others: tuple[Gpus, ...] = ()
    cpu: str = ""
    cores: int = 0
    arch: str = ""
    kernel: str = ""
    os: str = ""
    taints: tuple[str, ...] = ()
    changed: str = ""
    problems: tuple[str, ...] = ()
    resources: tuple[Resource, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    holders: tuple[Holder, ...] = ()
    """Who holds GPUs, by pod."""
    reported: float | None = None
    """Seconds since its worker's last report, if the master is asked."""

    @property
    def accelerators(self) -> tuple[Gpus, ...]:
        """Those of every vendor that the node has, NVIDIA's first."""
        return ((self.gpus,) if self.gpus else ()) + self.others


def with_reports(
    nodes: Iterable[NodeSummary], ages: Mapping[str, float | None], unwritten: Mapping[str, Sequence[str]] | None = None
) -> list[NodeSummary]:
    """The nodes with their ages of reports and rejected keys from the master.

    A node without a report, or without a recent one, has a problem, too.
    """
    by_node = unwritten or {}
    return [
        replace(
            one,
            reported=ages.get(one.name),
            problems=(*one.problems, *_silence(one, ages), *by_node.get(one.name, ())),
        )
        for one in nodes
    ]


def _silence(node: NodeSummary, ages: Mapping[str, float | None]) -> Iterator[str]:
    age = ages.get(node.name)
    if age is not None and age > SILENT:
        yield f"worker silent for {age / 60:.0f} min"
    elif node.name not in ages and any(key.startswith(f"{FEATURE_NS}/") for key in node.labels):
        yield "has not reported to this master"


def summarize(node: Json, asks: Sequence[Ask] = (), known: OnNode | None = None) -> NodeSummary:
    """Sum up a v1 Node, with the pods on it and what DRA has there.

    While that is not known (None), no device counts as not offered, unless labels rule DRA out.
    """
    dra = known or NOTHING
    metadata, spec, status = (node.get(part) or {} for part in ("metadata", "spec", "status"))
    labels: Mapping[str, str] = metadata.get("labels") or {}
    info = status.get("nodeInfo") or {}
    gpus, others = read_gpus(labels), read_accelerators(labels)
    return NodeSummary(
        name=str(metadata.get("name", "")),
        gpus=gpus,
        others=others,
        cpu=cpu_name(labels),
        cores=whole((status.get("capacity") or {}).get("cpu", "0")),
        arch=labels.get("kubernetes.io/arch") or info.get("architecture") or "",
        kernel=labels.get(f"{FEATURE_NS}/kernel-version.full") or info.get("kernelVersion") or "",
        os=_system(labels) or info.get("osImage") or "",
        taints=tuple(map(text_of_taint, spec.get("taints") or ())),
        changed=last_change(metadata.get("managedFields") or ()),
        problems=(
            *_problems(node, labels, gpus, known),
            *dra.problems,
            *(text for one in others for text in _of_vendor(one, status, known)),
            *_left_behind(labels, metadata.get("annotations") or {}),
        ),
        resources=(*read_resources(node, asks), *dra.resources),
        holders=tuple(read_holders(asks, dra)),
        labels=labels,
    )


def summarize_all(
    nodes: Iterable[Json],
    asks: Mapping[str, Sequence[Ask]] | None = None,
    dra: Mapping[str, OnNode] | None = None,
) -> list[NodeSummary]:
    """All of them, by name."""
    named = ((node["metadata"]["name"], node) for node in nodes)
    found = (
        summarize(node, (asks or {}).get(name, ()), None if dra is None else dra.get(name, NOTHING))
        for name, node in named
    )
    return sorted(found, key=lambda one: one.name)


def last_change(managed: Iterable[Json]) -> str:
    """When one of MANAGERS wrote last."""
    return max((str(one.get("time") or "") for one in managed if one.get("manager") in MANAGERS), default="")


def to_json(one: NodeSummary) -> dict[str, Any]:
    """What `-o json` prints; what is not known is left out."""
    found: dict[str, Any] = {
        "name": one.name,
        "gpus": one.gpus.to_json(),
        "accelerators": [other.to_json() for other in one.others],
        "cpu": one.cpu,
        "cores": one.cores,
        "arch": one.arch,
        "kernel": one.kernel,
        "os": one.os,
        "taints": list(one.taints),
        "lastChange": one.changed,
        "lastReport": None if one.reported is None else round(one.reported, 1),
        "problems": list(one.problems),
        "resources": [resource.to_json() for resource in one.resources],
        "holders": [holder.to_json() for holder in one.holders],
    }
    return {
        key: value for key, value in found.items() if value not in ("", None, [], {}) and (value or key == "lastReport")
    }


def _system(labels: Mapping[str, str]) -> str:
    parts = (labels.get(f"{FEATURE_NS}/system-os_release.{name}", "") for name in ("ID", "VERSION_ID"))
    return " ".join(part for part in parts if part)


def _problems(node: Json, labels: Mapping[str, str], gpus: Gpus, dra: OnNode | None) -> Iterator[str]:
    """What a person should look at, most pressing first."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    states = {one.get("type"): one.get("status") for one in status.get("conditions") or ()}
    if states.get("Ready", "Unknown") != "True":
        yield "not ready"
    yield from (name for name in _PRESSURES if states.get(name) == "True")
    if spec.get("unschedulable"):
        yield "cordoned"
    if not any(key.startswith(f"{FEATURE_NS}/") for key in labels):
        yield "no feature labels: no worker has reported"
    if gpus.state:
        yield f"GPUs {gpus.state}"
    if gpus.failing:
        yield f"{gpus.failing} of {gpus.present or gpus.usable} GPUs failing"
    elif gpus.present > gpus.usable and gpus.models:
        yield f"{gpus.present - gpus.usable} of {gpus.present} GPUs missing"
    if DRA_DEPLOYED not in labels if dra is None else not dra.has(NVIDIA):
        yield from _unoffered(status, labels, gpus)
        yield from (f"{name}: {reason}" for name, reason in compare_claims(node).items())


def _left_behind(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[str]:
    """Labels of AMD's node labeller on a Node on which nfd manages such labels: only a person removes them."""
    managed = listed_labels(annotations)
    if not any(key.startswith(_LABELLER) for key in managed):
        return
    left = sorted(key for key in labels if key.startswith(_LABELLER) and key not in managed)
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        yield f"not managed by nfd: {', '.join(left[:_SHOWN])}{more}"


def _of_vendor(one: Gpus, status: Json, dra: OnNode | None) -> Iterator[str]:
    """What is wrong with the accelerators of another vendor. Those kept for virtual machines are as they should be.

    Devices inside processors are often not meant for pods: of such vendors only one with memory of its own is missed.
    """
    if one.state and one.state != "vfio":
        yield f"{one.title}: {one.state}"
    if one.failing:
        yield f"{one.title}: {one.failing} of {one.present} failing"
    if dra is None or one.state or not one.usable:
        return
    is_meant = any(model.memory for model in one.models) or not is_often_integrated(one.vendor)
    if is_meant and not dra.has(one.vendor) and not _is_offered(status, one.vendor):
        yield f"{one.title}: not offered, no device plug-in"


def _is_offered(status: Json, vendor: str) -> bool:
    """Whether pods can request a resource of the vendor."""
    offered = status.get("allocatable") or {}
    return any((unit := unit_of(name)) and unit.vendor == vendor and whole(offered[name]) for name in offered)


def _unoffered(status: Json, labels: Mapping[str, str], gpus: Gpus) -> Iterator[str]:
    """GPUs that no pod can get: they have no labels, or no resource."""
    offered = {name: whole(amount) for name, amount in (status.get("allocatable") or {}).items()}
    if not gpus and any(labels.get(key) == "true" for key in _PCI):
        yield f"NVIDIA GPU on PCI without {NVIDIA_NS} labels"
    elif gpus.present and not gpus.models and not gpus.state:
        yield "GPUs known from PCI alone"
    elif gpus.models and not gpus.state and not any(is_gpu_resource(name) and offered[name] for name in offered):
        yield "GPUs are not offered: no device plug-in"


_INTEL = {
    44: "Westmere", 45: "Sandy Bridge", 62: "Ivy Bridge", 63: "Haswell", 79: "Broadwell", 85: "Skylake/Cascade Lake",
    106: "Ice Lake", 108: "Ice Lake D", 143: "Sapphire Rapids", 151: "Alder Lake", 154: "Alder Lake",
    173: "Granite Rapids", 174: "Granite Rapids D", 175: "Sierra Forest", 183: "Raptor Lake", 207: "Emerald Rapids",
}  # fmt: skip
_AMD = {
    23: ((1, "Naples"), (8, "Naples"), (49, "Rome")),
    25: ((1, "Milan"), (17, "Genoa"), (33, "Vermeer"), (97, "Raphael"), (160, "Bergamo")),
    26: ((2, "Turin"), (17, "Turin Dense"), (68, "Granite Ridge")),
}
_ARM = {
    0xD03: "Cortex-A53", 0xD07: "Cortex-A57", 0xD08: "Cortex-A72", 0xD0C: "Neoverse-N1", 0xD40: "Neoverse-V1",
    0xD49: "Neoverse-N2", 0xD4F: "Neoverse-V2", 0xD83: "Neoverse-V3", 0xD8E: "Neoverse-N3",
}  # fmt: skip


def cpu_name(labels: Mapping[str, str]) -> str:
    """`Intel Sapphire Rapids`; numbers where no name is known, "" where there are no labels."""
    vendor, family, model = (labels.get(f"{FEATURE_NS}/cpu-model.{part}", "") for part in ("vendor_id", "family", "id"))
    if not vendor:
        return ""
    name = _name(vendor, _number(family), _number(model))
    return f"{vendor} {name or f'{family}/{model}'.strip('/')}".strip()


def _name(vendor: str, family: int, model: int) -> str:
    if vendor == "Intel" and family == 6:
        return _INTEL.get(model, "")
    if vendor == "AMD":
        return dict(_AMD.get(family, ())).get(model, "")
    if vendor == "ARM":
        return _ARM.get(model >> 4, "")  # part number, revision in the last four bits
    return ""


def _number(text: str) -> int:
    number = parse_natural(text)
    return -1 if number is None else number
