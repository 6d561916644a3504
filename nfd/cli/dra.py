"""Reads what DRA offers and what is allocated of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfd.fleet.dra import Dra, by_node, read_claim, read_slice

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient


async def read_dra(client: KubeClient) -> Dra:
    """A server without DRA, or credentials that may not list it, is a note. Raises: KubeError."""
    from nfd.kube.dra_lists import list_dra

    found = await list_dra(client, read_slice, read_claim)
    return Dra(None if found.refused else by_node(found.slices, found.claims), found.note)
