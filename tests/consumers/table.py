"""What the consumers select nodes by, where upstream says so, and the nodes of the fleet that their pods must get.

Selectors are facts of the named projects; the pods here have their selectors, affinity and tolerations, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.consumers.fleet import GPU_NODES, NIC_NODES, TEGRA_NODES

F = "feature.node.kubernetes.io/"
DEPLOY = "nvidia.com/gpu.deploy."
Term = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Expressions that must all hold: key, operator, values."""

PCI = (F + "pci-10de.present", F + "pci-0302_10de.present", F + "pci-0300_10de.present")
CHARTS_TERMS: tuple[Term, ...] = (
    ((PCI[0], "In", ("true",)),),
    ((F + "cpu-model.vendor_id", "In", ("NVIDIA",)),),
    (("nvidia.com/gpu.present", "In", ("true",)),),
)
DRA_TERMS: tuple[Term, ...] = (*(((key, "In", ("true",)),) for key in PCI), *CHARTS_TERMS[1:])


@dataclass(frozen=True)
class Consumer:
    """One workload. `nodes`: where its pods must be, by what the machines have; `source`: upstream's file."""

    project: str
    part: str
    source: str
    nodes: frozenset[str]
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[Term, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.project} {self.part}".lower().replace(" ", "-").replace(".", "-")

    @property
    def keys(self) -> list[str]:
        """The labels it reads, each once."""
        found = [*self.selector, *(key for term in self.terms for key, _, _ in term)]
        return list(dict.fromkeys(found))

    def pod(self) -> dict[str, Any]:
        """The part of a pod specification that says where it may run."""
        spec: dict[str, Any] = {
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
        }
        if self.selector:
            spec["nodeSelector"] = dict(self.selector)
        if self.terms:
            spec["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required(self.terms)}
            }
        return spec


def required(terms: tuple[Term, ...]) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": [expression(*each) for each in term]} for term in terms]}


def expression(key: str, operator: str, values: tuple[str, ...]) -> dict[str, Any]:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def operand(part: str, key: str, folder: str, nodes: frozenset[str], **more: str) -> Consumer:
    source = f"NVIDIA/gpu-operator assets/{folder}"
    return Consumer("GPU operator", part, source, nodes, {DEPLOY + key: "true"} | more)


CHART = "NVIDIA/k8s-device-plugin deployments/helm/nvidia-device-plugin/values.yaml"
DRA = "kubernetes-sigs/dra-driver-nvidia-gpu Helm values, kubeletPlugin.affinity"
NETWORK = "Mellanox/network-operator manifests"
WITH_NVIDIA = GPU_NODES | TEGRA_NODES
USERS = "Kubernetes documentation, Assigning Pods to Nodes"
MIG = frozenset({"h200", "a100-mig"})

CONSUMERS = (
    operand("driver", "driver", "state-driver", GPU_NODES),
    operand("container toolkit", "container-toolkit", "state-container-toolkit", GPU_NODES),
    operand("device plugin", "device-plugin", "state-device-plugin", GPU_NODES),
    operand("feature discovery", "gpu-feature-discovery", "gpu-feature-discovery", GPU_NODES),
    operand("DCGM exporter", "dcgm-exporter", "state-dcgm-exporter", GPU_NODES),
    operand("validator", "operator-validator", "state-operator-validation", GPU_NODES),
    operand("MIG manager", "mig-manager", "state-mig-manager", MIG),
    operand(
        "MPS daemon",
        "device-plugin",
        "state-mps-control-daemon",
        frozenset({"l4-mps"}),
        **{"nvidia.com/mps.capable": "true"},
    ),
    operand(
        "precompiled driver",
        "driver",
        "state-driver, one DaemonSet per kernel",
        frozenset({"h200"}),
        **{F + "kernel-version.full": "6.8.0-45-generic", F + "system-os_release.ID": "ubuntu"},
    ),
    operand(
        "OpenShift driver",
        "driver",
        "state-driver, one DaemonSet per RHCOS release",
        frozenset({"a100-mig"}),
        **{F + "system-os_release.OSTREE_VERSION": "416.94.202409191851-0"},
    ),
    Consumer("Device plugin chart", "device plugin", CHART, WITH_NVIDIA, terms=CHARTS_TERMS),
    Consumer(
        "Device plugin chart",
        "MPS daemon",
        CHART,
        frozenset({"l4-mps"}),
        {"nvidia.com/mps.capable": "true"},
        CHARTS_TERMS,
    ),
    Consumer("DRA driver", "kubelet plug-in", DRA, WITH_NVIDIA, terms=DRA_TERMS),
    Consumer(
        "Network operator",
        "OFED driver",
        f"{NETWORK}/state-ofed-driver",
        frozenset({"milan-nic"}),
        {
            F + "pci-15b3.present": "true",
            F + "system-os_release.ID": "debian",
            F + "system-os_release.VERSION_ID": "12",
            F + "kernel-version.full": "6.1.0-25-amd64",
        },
    ),
    Consumer(
        "Network operator",
        "RDMA device plugin",
        f"{NETWORK}/state-rdma-shared-device-plugin",
        NIC_NODES,
        {F + "pci-15b3.present": "true", "network.nvidia.com/operator.mofed.wait": "false"},
    ),
    Consumer("NIM operator", "default selector", "NVIDIA/k8s-nim-operator", GPU_NODES, {PCI[0]: "true"}),
    Consumer("Workload", "by product", USERS, frozenset({"h200"}), {"nvidia.com/gpu.product": "NVIDIA-H200"}),
    Consumer(
        "Workload",
        "by MIG profile",
        USERS,
        frozenset({"a100-mig"}),
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/mig.strategy": "single"},
    ),
    Consumer(
        "Workload",
        "by numbers",
        USERS,
        frozenset({"h200"}),
        terms=(
            (
                ("nvidia.com/gpu.memory", "Gt", ("100000",)),
                ("nvidia.com/gpu.compute.major", "Gt", ("8",)),
                ("nvidia.com/gpu.count", "Gt", ("7",)),
                ("nvidia.com/gpu.family", "In", ("hopper", "blackwell")),
            ),
        ),
    ),
    Consumer(
        "Workload",
        "not shared",
        USERS,
        frozenset({"h200", "a100-mig", "a100-vgpu"}),
        terms=((("nvidia.com/gpu.sharing-strategy", "In", ("none",)),),),
    ),
    Consumer(
        "Cluster autoscaler",
        "group with AVX-512",
        USERS,
        frozenset({"h200", "a100-mig", "l4-mps", "a100-vgpu"}),
        terms=(((F + "cpu-cpuid.AVX512F", "In", ("true",)), (F + "cpu-cpuid.FMA3", "Exists", ())),),
    ),
    Consumer(
        "Cluster autoscaler",
        "group with AVX2 alone",
        USERS,
        frozenset({"dgx-a100", "milan-nic", "alder-lake"}),
        terms=(((F + "cpu-cpuid.AVX2", "In", ("true",)), (F + "cpu-cpuid.AVX512F", "DoesNotExist", ())),),
    ),
    Consumer(
        "Cluster autoscaler",
        "group of arm64",
        USERS,
        frozenset({"carmel", "pi"}),
        terms=(((F + "cpu-cpuid.ASIMD", "Exists", ()), (F + "kernel-version.major", "Gt", ("4",))),),
    ),
)
