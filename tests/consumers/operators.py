"""What GPU operator and network operator write on a node after reading its labels; their operands select by that.

Facts of NVIDIA/gpu-operator controllers/state_manager.go (hasGPULabels, hasMIGCapableGPU, gpuStateLabels) and of
Mellanox/network-operator docs (operator.mofed.wait). Only what depends on labels of ours is here: default workload
`container`, nothing paused. `gpu_operator.json` has what the operator itself decided (test_recorded_decisions.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.consumers.table import DEPLOY, PCI, F

OPERANDS = (
    "driver",
    "gpu-feature-discovery",
    "container-toolkit",
    "device-plugin",
    "dcgm",
    "dcgm-exporter",
    "node-status-exporter",
    "operator-validator",
    "client",
)
DRA_OPERANDS = ("driver", "dra-driver", "dra-validator", "dcgm-dra", "dcgm-exporter-dra")
"""Of GPUCluster mode, in GPU operator 26.7."""
MIG_BY_PRODUCT = ("h100", "a100", "a30")


def decide(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that the two operators keep on a node with these labels."""
    return gpu_operator(labels) | network_operator(labels)


def gpu_operator(labels: Mapping[str, str]) -> dict[str, str]:
    """Without a PCI label `gpu.present` becomes `false` where it was written, and all deploy labels go."""
    if not any(labels.get(key) == "true" for key in PCI):
        return {"nvidia.com/gpu.present": "false"} if "nvidia.com/gpu.present" in labels else {}
    capable = mig_capable(labels)
    operands = OPERANDS + (("mig-manager",) if capable else ())
    config = {"nvidia.com/mig.config": "all-disabled"} if capable and not labels.get("nvidia.com/mig.config") else {}
    return {"nvidia.com/gpu.present": "true"} | {DEPLOY + name: "true" for name in operands} | config


def gpu_cluster(labels: Mapping[str, str]) -> dict[str, str | None]:
    """The labels of GPUCluster mode, which has no device plugin and no feature discovery; those of the others go."""
    known = {DEPLOY + name for name in DRA_OPERANDS}
    changes: dict[str, str | None] = {key: None for key in labels if key.startswith(DEPLOY) and key not in known}
    if any(labels.get(key) == "true" for key in PCI):
        changes |= {"nvidia.com/gpu.present": "true", **dict.fromkeys(known, "true")}
    return changes


def mig_capable(labels: Mapping[str, str]) -> bool:
    """A vGPU guest never is; else the label says it exactly; else the product's name does."""
    if labels.get("nvidia.com/vgpu.host-driver-version"):
        return False
    if (told := labels.get("nvidia.com/mig.capable")) is not None:
        return told == "true"
    product = labels.get("nvidia.com/gpu.product", "").lower()
    return any(name in product for name in MIG_BY_PRODUCT)


def network_operator(labels: Mapping[str, str]) -> dict[str, str]:
    """`false` says that the OFED driver is ready."""
    present = labels.get(F + "pci-15b3.present") == "true"
    return {"network.nvidia.com/operator.mofed.wait": "false"} if present else {}
