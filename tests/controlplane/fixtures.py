"""Fixtures over one control plane per test run; `pytest_plugins` in the root conftest names this module.

What is missing fails the tests, here as in CI: Go, its modules and kubectl all come with pip and the module proxy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count

import pytest

from tests.controlplane.api import ApiError
from tests.controlplane.build import BuildError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.leftovers import Leftovers
from tests.controlplane.servers import StartError

KUBELET_NODE = "of-a-kubelet"
"""The Node whose kubelet may log in."""
KUBELET = f"system:node:{KUBELET_NODE}"
USERS = {"alice": ("testers",), "bob": ("testers",), KUBELET: ("system:nodes",)}
"""Two users without rights, for tests that tell callers apart or bind roles, and a kubelet."""

LEFTOVERS = pytest.StashKey[Leftovers]()
_numbers = count(1)


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Started once per test process; tests of a module keep apart by the names they use."""
    plane = ControlPlane(USERS)
    if problem := start(plane, request.config):
        pytest.fail(problem, pytrace=False)
    request.config.stash[LEFTOVERS] = Leftovers(plane)
    yield plane
    plane.stop()


@pytest.fixture(scope="module", autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nodes, custom resources and admission that a module left in the cluster are gone before the next one begins."""
    yield
    if leftovers := request.config.stash.get(LEFTOVERS, None):
        leftovers.remove()


def start(plane: ControlPlane, config: pytest.Config) -> str | None:
    """Start it and return what went wrong, if anything; what it prints while it builds gets past pytest's capture."""
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            plane.start()
    except (BuildError, StartError) as error:
        return str(error)
    return None


@pytest.fixture
def node_name(control_plane: ControlPlane) -> Iterator[str]:
    """A name that no other test has; a node of that name is gone after the test."""
    name = f"node-{next(_numbers)}"
    yield name
    try:
        control_plane.delete_node(name)
    except ApiError as error:
        if error.status != 404:
            raise
