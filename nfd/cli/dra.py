"""Reads what DRA offers and what is allocated of it, in the newest version of the API that the server has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfd.errors import Forbidden, NotFound
from nfd.fleet.dra import DRIVER, OnNode, by_node

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient

GROUP = "/apis/resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")
"""The newest first (Kubernetes API reference, resource.k8s.io)."""


@dataclass(frozen=True, slots=True)
class Dra:
    """Node → its part; `note` says why nothing is known, "" if all is."""

    nodes: Mapping[str, OnNode] = field(default_factory=dict)
    note: str = ""


async def read_dra(client: KubeClient) -> Dra:
    """A server without DRA, or credentials that may not list it, is a note. Raises: KubeError."""
    from nfd.kube.lists import list_all, whole

    version = await find_version(client)
    if not version:
        return Dra(note="DRA is not counted: the API server has no ResourceSlices")
    try:
        slices = await list_all(
            client, f"{GROUP}/{version}/resourceslices", whole, {"fieldSelector": f"spec.driver={DRIVER}"}
        )
        claims = await list_all(client, f"{GROUP}/{version}/resourceclaims", whole) if slices else []
    except Forbidden as error:
        return Dra(note=f"DRA is not counted: {error}")
    return Dra(by_node(slices, claims))


async def find_version(client: KubeClient) -> str:
    """The newest version of the group that is known here; "" if the server has none."""
    try:
        answer: Any = await client.json("GET", GROUP)
    except (NotFound, Forbidden):
        return ""
    served = {one.get("version") for one in answer.get("versions") or ()} if isinstance(answer, Mapping) else set()
    return next((version for version in VERSIONS if version in served), "")
