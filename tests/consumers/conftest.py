"""One cluster that schedules for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext

import pytest

from tests.consumers.cluster import definitions, scheduling_cluster
from tests.controlplane.build import BuildError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.servers import StartError


@pytest.fixture(scope="package")
def cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Scheduler and controller manager are built on first use; what the build prints gets past pytest's capture."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with ExitStack() as stack:
        try:
            with capture.global_and_fixture_disabled() if capture else nullcontext():
                plane = stack.enter_context(scheduling_cluster())
        except (BuildError, StartError) as error:
            pytest.fail(str(error), pytrace=False)
        definitions(plane)
        yield plane
