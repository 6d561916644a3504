"""The nodes of the scheduling tests: recorded machines, some with the GPUs of a case of tests/cases/gfd put in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.children import run
from tests.controlplane.process import without_proxy
from tests.e2e.machines import FEATURES_D, PCI, Machine
from tests.e2e.programs import SCRIPTS
from tests.gfd.cases import load_cases
from tests.nvml.library import build
from tests.nvml.machines import lay_out

MIDR = "sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
VGPU_SUBSYSTEM = {"vendor": "10de", "device": "130f"}
OPERATORS_NFD = {
    "sources": {
        "pci": {
            "deviceClassWhitelist": ["02", "0200", "0207", "0300", "0302"],
            "deviceLabelFields": ["vendor"],
        }
    }
}
"""Part of the worker's configuration in the charts of GPU operator and network operator (their values.yaml)."""

OPENSHIFT = ["ID", "VERSION_ID", "VERSION_ID.major", "VERSION_ID.minor"]
OPENSHIFT += ["OSTREE_VERSION", "RHEL_VERSION", "OPENSHIFT_VERSION"]
"""What overlay and chart configure on OpenShift."""


@dataclass(frozen=True)
class Member:
    """One node. `gpus` names a case; `alone`: its GPUs are read by `gpu-feature-discovery`, not by the worker."""

    about: str
    recording: str
    gpus: str = ""
    alone: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    device: Mapping[str, Any] = field(default_factory=dict)
    """Laid over each device of the case."""


FLEET = {
    "dgx-a100": Member(
        "DGX A100 before its driver is installed; worker configured as in the operators' charts",
        "dgx-a100",
        config=OPERATORS_NFD,
    ),
    "h200": Member("eight H200, MIG off", "ubuntu-24.04-sapphire-rapids", "count-h200-x8"),
    "a100-mig": Member(
        "two A100 in seven MIG devices each, strategy single; OpenShift",
        "rhcos-4.16-vsphere",
        "mig-uniform-1g-x7-single",
        config={"sources": {"nvidia": {"migStrategy": "single"}, "system": {"osReleaseLabels": OPENSHIFT}}},
    ),
    "l4-mps": Member(
        "two L4 shared by MPS, read by `gpu-feature-discovery` in a process of its own",
        "talos-1.12-epyc-genoa",
        "mps-gpu-no-mig-chip",
        alone=True,
        config={"core": {"featureSources": ["all", "-nvidia"]}},
    ),
    "a100-vgpu": Member(
        "virtual machine with a vGPU of an A100",
        "photon-5-vmware",
        "vgpu-guest",
        files={f"{PCI}/0000:00:08.0/subsystem_{name}": f"0x{value}\n" for name, value in VGPU_SUBSYSTEM.items()},
        device={"name": "GRID A100-40C", "compute": "8.0", "mig": {"current": 0}},
    ),
    "milan-nic": Member("ConnectX network card, no GPU", "debian-12-epyc-milan"),
    "carmel": Member(
        "arm64 with NVIDIA's own cores (Tegra Xavier); no GPU on PCI",
        "raspberry-pi-4",
        files={MIDR: "0x000000004e0f0040\n"},
    ),
    "alder-lake": Member("desktop with AVX2 and no AVX-512", "arch-alder-lake"),
    "pi": Member("arm64 board", "raspberry-pi-4"),
}

GPU_NODES = frozenset({"dgx-a100", "h200", "a100-mig", "l4-mps", "a100-vgpu"})
TEGRA_NODES = frozenset({"carmel"})
NIC_NODES = frozenset({"dgx-a100", "milan-nic"})


@dataclass(frozen=True)
class Built:
    """A member's machine in a directory, and what a worker of it is started with."""

    machine: Machine
    flags: tuple[str, ...]
    variables: Mapping[str, str]


cases = cache(load_cases)


def make(member: Member, folder: Path) -> Built:
    """Lay the machine out below `folder`; where GPUs are read alone, that is done."""
    machine = Machine.like(member.recording, folder / "root")
    for path, text in member.files.items():
        machine.write(path, text)
    variables: Mapping[str, str] = {}
    if member.gpus:
        case = cases()[member.gpus]
        inside = {**case["machine"], "devices": [{**one, **member.device} for one in case["machine"]["devices"]]}
        lay_out({**case, "machine": inside}, machine.root)
        variables = build(inside, folder / "libraries").env
        if member.alone:
            read_alone(case, machine, folder, variables)
    flags = (f"--replay={machine.root}", f"--options={json.dumps(dict(member.config))}")
    return Built(machine, flags, {} if member.alone else variables)


def read_alone(case: Mapping[str, Any], machine: Machine, folder: Path, variables: Mapping[str, str]) -> None:
    """`gpu-feature-discovery` writes its feature file, as the pods of the chart's `gpu.mode: daemonset` do."""
    config, file = folder / "config.yaml", machine.root / FEATURES_D / "gfd"
    config.write_text(case["config"])
    file.parent.mkdir(parents=True)
    words = [f"--replay={machine.root}", "--oneshot", "--use-node-feature-api=false"]
    command = [str(SCRIPTS / "gpu-feature-discovery"), *words, f"--output-file={file}", f"--config-file={config}"]
    run(command, env={**without_proxy(), **variables})
