"""Selectors that the API server takes pass, and others do not."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from nfd.kube.selector import parse_selector, selects
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane

GOOD = (
    "", "pool", "!pool", "pool=a", "pool==a", "pool!=a", "pool=", "example.com/pool=a-b.c_d", "a=1,b=2,!c", "pool = a",
    "pool in (a,b)", "pool notin (a, b),zone=1", "a,pool in (b),c", "pool in (a,)", " pool=a ",
    "pool>5", "pool < 5,zone",
)  # fmt: skip
BAD = (
    "pool=a b", "=a", "pool=a,", ",", "pool in a", "pool in (a", "pool in (a/b)", "-pool", "a/b/c=d", "pool>a",
    "pool=-a", "!", "pool in (a)(b)", "Example.com/pool=a", "pool=a=b", "a" * 64,
    "pool>-1", "pool>", "pool>5=",
)  # fmt: skip


@pytest.mark.parametrize("text", GOOD)
def test_good(text: str, control_plane: ControlPlane) -> None:
    assert parse_selector(text) == text.strip()
    control_plane.request("GET", f"/api/v1/nodes?limit=1&labelSelector={quote(text)}")


@pytest.mark.parametrize("text", BAD)
def test_bad(text: str, control_plane: ControlPlane) -> None:
    with pytest.raises(ValueError, match=r"'|is none of"):
        parse_selector(text)
    with pytest.raises(ApiError, match="400"):
        control_plane.request("GET", f"/api/v1/nodes?limit=1&labelSelector={quote(text)}")


LABELS: tuple[dict[str, str], ...] = (
    {}, {"pool": "a"}, {"pool": "b", "zone": "1"}, {"pool": ""}, {"pool": "7"}, {"pool": "5", "zone": "2"},
    {"pool": "x9"}, {"pool": "a-b.c_d", "a": "1"}, {"a": "1", "b": "2"}, {"a": "1", "pool": "b", "c": ""},
    {"example.com/pool": "a-b.c_d"},
)  # fmt: skip


@pytest.fixture(scope="module")
def labelled(control_plane: ControlPlane) -> Iterator[dict[str, dict[str, str]]]:
    """ConfigMaps with these labels, by name."""
    place = "/api/v1/namespaces/selectors"
    control_plane.create("/api/v1/namespaces", {"metadata": {"name": "selectors"}})
    found = {f"labelled-{number}": labels for number, labels in enumerate(LABELS)}
    for name, labels in found.items():
        control_plane.create(f"{place}/configmaps", {"metadata": {"name": name, "labels": labels}})
    yield found
    for name in found:
        control_plane.request("DELETE", f"{place}/configmaps/{name}")


@pytest.mark.parametrize("text", GOOD)
def test_it_selects_what_the_api_server_selects(
    text: str, labelled: dict[str, dict[str, str]], control_plane: ControlPlane
) -> None:
    path = f"/api/v1/namespaces/selectors/configmaps?labelSelector={quote(text)}"
    names = {item["metadata"]["name"] for item in control_plane.request("GET", path)["items"]}
    assert {name for name, labels in labelled.items() if selects(text, labels)} == names & labelled.keys()
