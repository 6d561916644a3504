"""Reads what DRA offers and what is allocated of it, in the newest version of the API that the server has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfd.errors import Forbidden, NotFound
from nfd.fleet.dra import OnNode, by_node, is_of_accelerators

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient

GROUP = "/apis/resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")
"""The newest first (Kubernetes API reference, resource.k8s.io)."""


@dataclass(frozen=True, slots=True)
class Dra:
    """Node → its part, None if that may not be read; `note` says why nothing is counted, "" if all is."""

    nodes: Mapping[str, OnNode] | None = field(default_factory=dict)
    note: str = ""


async def read_dra(client: KubeClient) -> Dra:
    """A server without DRA, or credentials that may not list it, is a note. Raises: KubeError."""
    from nfd.kube.list_pages import list_all, whole

    version = await find_version(client)
    if not version:
        return Dra(note="DRA is not counted: the API server has no ResourceSlices")
    try:
        slices = await list_all(client, f"{GROUP}/{version}/resourceslices", _of_accelerators)
        claims = await list_all(client, f"{GROUP}/{version}/resourceclaims", whole) if slices else []
    except Forbidden as error:
        return Dra(None, f"DRA is not counted: {error}")
    return Dra(by_node(slices, claims))


def _of_accelerators(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return item if is_of_accelerators(item) else None


async def find_version(client: KubeClient) -> str:
    """The newest version of the group that is known here; "" if the server has none."""
    try:
        answer: Any = await client.json("GET", GROUP)
    except (NotFound, Forbidden):
        return ""
    served = {one.get("version") for one in answer.get("versions") or ()} if isinstance(answer, Mapping) else set()
    return next((version for version in VERSIONS if version in served), "")
