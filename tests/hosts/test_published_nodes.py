"""Two nodes whose owners published their labels, built from the facts they gave.

`notebook` is a machine with NFD 0.12 and GFD 0.7, `cloud-node` one with NFD 0.6 on OpenShift 4.5; the labels here must
all be there. What the GPU gives is tested with gfd.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nfd.config.load import files, load
from nfd.discovery import Discovery, discover, make_plan
from nfd.host.replay import Replay
from nfd.worker.config import CONFIG_FILE, model

HOSTS = Path(__file__).parent
PREFIX = "feature.node.kubernetes.io/"


def cpuid(*flags: str) -> dict[str, str]:
    return {f"cpu-cpuid.{flag}": "true" for flag in flags}


NOTEBOOK = {
    **cpuid("ADX", "AESNI", "AVX", "AVX2", "CMPXCHG8", "FMA3", "FXSR", "FXSROPT", "LAHF", "MOVBE", "MPX", "OSXSAVE"),
    **cpuid("RTM_ALWAYS_ABORT", "STIBP", "VMX", "X87", "XSAVE"),
    "cpu-cstate.enabled": "true",
    "cpu-hardware_multithreading": "true",
    "cpu-model.family": "6",
    "cpu-model.id": "142",
    "cpu-model.vendor_id": "Intel",
    "cpu-pstate.scaling_governor": "powersave",
    "cpu-pstate.status": "active",
    "cpu-pstate.turbo": "true",
    "cpu-security.sgx.enabled": "true",
    "kernel-config.NO_HZ": "true",
    "kernel-config.NO_HZ_IDLE": "true",
    "kernel-version.full": "5.15.0-46-generic",
    "kernel-version.major": "5",
    "kernel-version.minor": "15",
    "kernel-version.revision": "0",
    "pci-10de.present": "true",
    "pci-8086.present": "true",
    "storage-nonrotationaldisk": "true",
    "system-os_release.ID": "ubuntu",
    "system-os_release.VERSION_ID": "20.04",
    "system-os_release.VERSION_ID.major": "20",
    "system-os_release.VERSION_ID.minor": "04",
    "usb-ef_04f2_b604.present": "true",
    "usb-ef_04f2_b613.present": "true",
    "usb-ff_06cb_009a.present": "true",
}

CLOUD_NODE = {
    **cpuid("ADX", "AESNI", "AVX", "AVX2", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512F", "AVX512VL", "FMA3", "MPX"),
    "cpu-hardware_multithreading": "true",
    "kernel-selinux.enabled": "true",
    "kernel-version.full": "4.18.0-193.14.3.el8_2.x86_64",
    "kernel-version.major": "4",
    "kernel-version.minor": "18",
    "kernel-version.revision": "0",
    "pci-1d0f.present": "true",
    "storage-nonrotationaldisk": "true",
    "system-os_release.ID": "rhcos",
    "system-os_release.VERSION_ID": "4.5",
    "system-os_release.VERSION_ID.major": "4",
    "system-os_release.VERSION_ID.minor": "5",
}


def replay(name: str) -> Discovery:
    """One pass over a recorded machine with the configuration that lies on it."""
    root = HOSTS / name
    config, _ = load(model(), files(root / CONFIG_FILE.lstrip("/"), required=True))
    plan = make_plan(config.core.feature_sources, config.core.label_sources, config.sources)
    return discover(Replay(root), plan)


@pytest.mark.parametrize(("name", "expected"), [("notebook", NOTEBOOK), ("cloud-node", CLOUD_NODE)])
def test_published_labels(name: str, expected: dict[str, str]) -> None:
    found = replay(name)
    labels = {key.removeprefix(PREFIX): value for key, value in found.labels.items()}
    assert {key: labels.get(key) for key in expected} == expected
    assert not found.failed.keys() - {"nvidia"}
