"""Paths of the Kubernetes API, by the collections that nfd reads and writes."""

from __future__ import annotations

from urllib.parse import quote

from nfd.names import API_VERSION

NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/pods"
SECRETS = "/api/v1/secrets"
CONFIG_MAPS = "/api/v1/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/leases"
NODE_FEATURES = f"/apis/{API_VERSION}/nodefeatures"
RULES = f"/apis/{API_VERSION}/nodefeaturerules"
GROUPS = f"/apis/{API_VERSION}/nodefeaturegroups"


def in_namespace(collection: str, namespace: str) -> str:
    """The part of a collection that one namespace has."""
    folder, _, resource = collection.rpartition("/")
    return f"{folder}/namespaces/{quote(namespace, safe='')}/{resource}"


def object_path(collection: str, name: str, subresource: str = "") -> str:
    """One object of a collection, or a subresource of it such as `status`."""
    return f"{collection}/{quote(name, safe='')}" + (f"/{subresource}" if subresource else "")
