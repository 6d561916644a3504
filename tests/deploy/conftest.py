"""A control plane on which all that we ship can be applied."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.controlplane.build import user_cache
from tests.controlplane.cluster import ControlPlane
from tests.deploy import images
from tests.deploy.images import Images
from tests.deploy.rendering import NAMESPACE

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """With our namespace, and the resources of other projects that overlays and chart use."""
    control_plane.kubectl("apply", "-f", str(HERE / "foreign.yaml"))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(HERE / "foreign.yaml"))
    control_plane.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    return control_plane


@pytest.fixture(scope="session")
def store() -> Images:
    """Where the images are, in the user's cache."""
    if problem := images.obstacle():
        if os.environ.get("CI") == "true":
            pytest.fail(problem, pytrace=False)
        pytest.skip(problem)
    return Images(user_cache() / "nfd-images")
