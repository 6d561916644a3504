"""Kubernetes objects as tests need them, and the files that name servers and users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.controlplane.api import Json


def node(name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels), "annotations": dict(annotations)},
    }


def node_status(boot_id: str) -> Json:
    """What a kubelet reports and the scheduler waits for: room for pods, and a Ready condition."""
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"bootID": boot_id},
        }
    }


def pod(name: str, service_account: str, node_name: str) -> Json:
    """A pod that is bound to its node from the start; nothing runs it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": node_name,
            "serviceAccountName": service_account,
            "containers": [{"name": "main", "image": "example.invalid/none"}],
        },
    }


def token_request(audience: str | None, pod_name: str | None, seconds: int) -> Json:
    spec: Json = {"expirationSeconds": seconds, "audiences": [audience] if audience else []}
    if pod_name:
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod_name}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def kubeconfig(url: str, ca_file: Path, token: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
        "current-context": "test",
    }


def token_lines(tokens: Mapping[str, str], groups: Mapping[str, Sequence[str]]) -> str:
    """The server's token file: token, user, user id, groups in one quoted field."""
    return "".join(f'{token},{user},{user},"{",".join(groups[user])}"\n' for user, token in tokens.items())
