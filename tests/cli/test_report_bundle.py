"""`nfd report` on a real cluster: nothing in the archive names a machine, a person or a network."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from nfd.cli.report.bundle import Cleaner, Documents, render
from tests.controlplane.cluster import ControlPlane

ALWAYS = (
    "00:1b:21:aa:bb:cc",
    "10.20.30.40",
    "10-20-30-40",
    "4c4c4544-0042-3510-8052-b4c04f4e3733",
    "i-0abcd1234ef567890",
    "hunter2",
    "sha256~Vx2kPp9sT1bQ",
    "1322621064404",
    "eyJpc3MiOiJrdWJl",
)
NAMES = ("ip-10-20-30-40", "hal9000", "corp.internal", "bigiron")
KEPT = ("NVIDIA-H100-80GB-HBM3", "550.54.14.1", "81559", "6.8.0-45-generic", "PreferNoSchedule")
TEXT = " ".join(
    (*ALWAYS[:2], "token=" + ALWAYS[5], *ALWAYS[6:7], f"serial={ALWAYS[7]}", f"eyJhbGciOiJSUzI1.{ALWAYS[8]}.c2ln")
)


def make(plane: ControlPlane, name: str) -> None:
    labels = {
        "kubernetes.io/hostname": "hal9000",
        "nvidia.com/gpu.product": KEPT[0],
        "nvidia.com/cuda.driver-version.full": KEPT[1],
        "nvidia.com/gpu.memory": KEPT[2],
        "feature.node.kubernetes.io/kernel-version.full": KEPT[3],
    }
    annotations = {"csi": json.dumps({"ebs.csi.aws.com": ALWAYS[4]}), "uuid": ALWAYS[3], "note": TEXT}
    plane.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels, "annotations": annotations}})
    taints = [{"key": "a/b", "effect": KEPT[4]}]
    plane.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})
    addresses = [
        {"type": "InternalIP", "address": "10.20.30.40"},
        {"type": "InternalDNS", "address": "bigiron.corp.internal"},
    ]
    plane.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"addresses": addresses}})
    config = {
        "metadata": {"name": "nfd-worker-conf"},
        "data": {"nfd-worker.conf": f"# {TEXT} on bigiron\ncore: {{}}\n"},
    }
    plane.create("/api/v1/namespaces", {"metadata": {"name": "reports"}})
    plane.create("/api/v1/namespaces/reports/configmaps", config)


@pytest.mark.parametrize("names", [True, False])
def test_a_bundle_names_nothing(
    control_plane: ControlPlane, run: Callable[..., tuple[int, str, str]], tmp_path: Path, names: bool
) -> None:
    name = "ip-10-20-30-40.corp.internal"
    make(control_plane, name)
    out, kubeconfig = tmp_path / "bundle.tar.gz", str(control_plane.kubeconfig)
    words = ["report", name, "--kubeconfig", kubeconfig, "--namespace", "reports", "-O", str(out)]
    status, _, err = run(*words, *(["--names"] if names else []))
    control_plane.request("DELETE", f"/api/v1/nodes/{name}")
    assert (status, err) == (0, "")
    with tarfile.open(out) as archive:
        files = {one.name: (archive.extractfile(one) or archive).read().decode() for one in archive if one.isfile()}  # type: ignore[union-attr]
    whole = "\n".join([*files, *files.values()])
    assert "config/nfd-worker-conf/nfd-worker.conf" in whole
    assert [secret for secret in ALWAYS if secret in whole] == []
    assert [kept for kept in KEPT if kept not in whole] == []
    assert bool([one for one in NAMES[1:] if one in whole]) is not names
    node = yaml.safe_load(files["nfd-report/node.yaml"])
    assert ("node-" in node["metadata"]["name"]) is names


def test_values_keep_their_shape_and_what_machines_say() -> None:
    """Features of the kernel and its drivers stay; what people write into features does not."""
    features = {
        "flags": {
            "cpu.cpuid": {"elements": {"AVX512VPOPCNTDQ": {}}},
            "local.feature": {"elements": {"a1b2c3d4e5": {}}},
        },
        "attributes": {
            "kernel.config": {"elements": {"SERIAL_8250_NR_UARTS": "48", "SND_SOC_W83627EHF4X2Y": "m"}},
            "local.label": {"elements": {"password": "hunter2", "x": "0abcd1234ef5"}},
        },
        "instances": {"usb.device": {"elements": [{"attributes": {"vendor": "1d6b", "serial": "0000:00:14.0"}}]}},
    }
    clean = Cleaner().value({"features": features, "n": 1, "list": ["10.1.2.3", None, True]})
    found = clean["features"]
    assert found["flags"]["cpu.cpuid"] == features["flags"]["cpu.cpuid"]
    assert found["attributes"]["kernel.config"] == features["attributes"]["kernel.config"]
    assert found["instances"]["usb.device"]["elements"][0]["attributes"]["vendor"] == "1d6b"
    assert (clean["n"], clean["list"][1:]) == (1, [None, True])
    text = render("a.yaml", clean)
    assert not any(secret in text for secret in ("a1b2c3d4e5", "hunter2", "0abcd1234ef5", "0000:00:14.0", "10.1.2.3"))
    assert yaml.safe_load(text) == clean
    assert list(yaml.safe_load_all(render("b.yaml", Documents(({"a": 1}, {"b": 2}))))) == [{"a": 1}, {"b": 2}]


def test_names_go_with_and_without_their_domain() -> None:
    cleaner = Cleaner(["gpu-1.corp.internal", "gpu-2.corp.internal", "worker.corp.internal"])
    text = cleaner.text("gpu-1.corp.internal gpu-1 gpu-2 worker nfd-worker gpu-10 worker.corp.internal")
    first, alias, second, *rest = text.split()
    assert first == f"{alias}.example"
    assert alias != second
    assert rest[:3] == ["worker", "nfd-worker", "gpu-10"]
    assert "corp" not in text
