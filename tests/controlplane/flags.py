"""The flags of etcd, kube-apiserver and what else may run beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.pki import Pki


@dataclass(frozen=True)
class Ports:
    api: int
    etcd: int
    etcd_peer: int


def etcd_flags(ports: Ports, data: Path) -> list[str]:
    """No fsync: these data need not outlive the machine's power."""
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver_flags(ports: Ports, pki: Pki, folder: Path) -> list[str]:
    """A server as in a real cluster, with node authorization, NodeRestriction and RBAC, as far as that goes without
    kubelets.

    Pods may come without a service account token, nothing sits behind the cluster IPs, and nobody reconciles the
    endpoints of the service `kubernetes`, which may not be on loopback. The address to advertise is named because
    the server looks for a default route otherwise. Without a grace period open watches hold up its end for a minute.
    DRA is served in the versions of Kubernetes 1.32 and 1.33, too.
    """
    return [
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={ports.api}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={pki.certificate}",
        f"--tls-private-key-file={pki.key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki.service_account_key}",
        f"--service-account-signing-key-file={pki.service_account_key}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--disable-admission-plugins=ServiceAccount",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--endpoint-reconciler-type=none",
        "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
        f"--audit-policy-file={folder / 'audit-policy.json'}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=100000",
        "--shutdown-watch-termination-grace-period=2s",
    ]


def component_flags(kubeconfig: Path, port: int, folder: Path) -> list[str]:
    """For kube-scheduler and kube-controller-manager alike."""
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
    ]
