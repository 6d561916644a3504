"""ResourceSlices and ResourceClaims in the newest version of the API that the server has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from nfd.errors import Forbidden, NotFound
from nfd.kube.client import KubeClient
from nfd.kube.list_pages import PAGE, list_all

GROUP = "/apis/resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")
"""The newest first (Kubernetes API reference, resource.k8s.io)."""

Json = Mapping[str, Any]
S = TypeVar("S")
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class DraLists(Generic[S, C]):
    """What was made of each object. `note` says why nothing was read, "" if all was; `refused` that it may not be."""

    slices: list[S] = field(default_factory=list)
    claims: list[C] = field(default_factory=list)
    note: str = ""
    refused: bool = False


async def list_dra(
    client: KubeClient, slice_of: Callable[[Json], S | None], claim_of: Callable[[Json], Iterable[C]], page: int = PAGE
) -> DraLists[S, C]:
    """Slices but those of which `slice_of` makes None, and claims if there is such a slice.

    A server without DRA, or credentials that may not list it, is a note. Raises: KubeError.
    """
    version = await find_version(client)
    if not version:
        return DraLists(note="DRA is not counted: the API server has no ResourceSlices")
    try:
        slices = await list_all(client, f"{GROUP}/{version}/resourceslices", slice_of, page=page)
        if not slices:
            return DraLists()
        claims = await list_all(client, f"{GROUP}/{version}/resourceclaims", lambda one: [*claim_of(one)], page=page)
    except Forbidden as error:
        return DraLists(note=f"DRA is not counted: {error}", refused=True)
    return DraLists(slices, [one for each in claims for one in each])


async def find_version(client: KubeClient) -> str:
    """The newest version of the group that is known here; "" if the server has none."""
    try:
        answer: Any = await client.json("GET", GROUP)
    except (NotFound, Forbidden):
        return ""
    served = {one.get("version") for one in answer.get("versions") or ()} if isinstance(answer, Mapping) else set()
    return next((version for version in VERSIONS if version in served), "")
