"""The manifests: rendered by kustomize, taken by a real API server, and no wider than promised."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from tests.controlplane.cluster import ControlPlane

ROOT = Path(__file__).parents[2]
OVERLAYS = sorted(path.parent for path in (ROOT / "deploy/kustomize/overlays").glob("*/kustomization.yaml"))


def rendered(control_plane: ControlPlane, overlay: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(control_plane.kubectl("kustomize", str(overlay))) if one]


def pods(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["spec"]["template"]["spec"] for one in objects if "template" in one.get("spec", {})]


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_the_api_server_takes_every_object(control_plane: ControlPlane, overlay: Path) -> None:
    control_plane.kubectl("apply", "-k", str(overlay))
    for one in rendered(control_plane, overlay):
        namespace = one["metadata"].get("namespace", "default")
        control_plane.kubectl("get", one["kind"], one["metadata"]["name"], "-n", namespace)
    assert "unchanged" in control_plane.kubectl("apply", "-k", str(overlay))


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_pods_are_restricted_but_for_read_only_host_mounts(control_plane: ControlPlane, overlay: Path) -> None:
    for pod in pods(rendered(control_plane, overlay)):
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        host = {volume["name"] for volume in pod.get("volumes", ()) if "hostPath" in volume}
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"]
            assert context["runAsNonRoot"]
            assert not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert all(mount["readOnly"] for mount in container.get("volumeMounts", ()) if mount["name"] in host)


def test_the_worker_gets_no_token(control_plane: ControlPlane) -> None:
    objects = rendered(control_plane, ROOT / "deploy/kustomize/base")
    worker = next(one for one in objects if one["kind"] == "DaemonSet")
    assert worker["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
