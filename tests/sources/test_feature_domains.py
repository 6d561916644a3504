"""The name of a feature tells its source; the master depends on that where a source failed."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from nfd.discovery import discover, make_plan
from nfd.features import OTHER_DOMAINS, sources_of
from nfd.host.replay import Replay
from nfd.sources import BUILT_IN, known, section
from tests.sources.hosts import make_host

HOSTS = Path(__file__).parents[1] / "hosts"
NAMES = {source.name for source in known()}
RDMA = {"sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n"}


def features_of(root: Path) -> dict[str, set[str]]:
    """The features that each source finds on a recorded machine."""
    found = discover(Replay(root), make_plan(["all", "fake"], ["all", "fake"], section()()))
    return {name: set(scan.features.names()) for name, scan in found.scans.items()}


def test_every_feature_is_one_of_its_source_and_of_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NFD_NVML_LIBRARY", raising=False)
    make_host(tmp_path, RDMA)
    given: dict[str, set[str]] = defaultdict(set)
    for root in (*(path.parent for path in HOSTS.glob("*/expected")), tmp_path):
        for source, features in features_of(root).items():
            given[source] |= features
    assert {source.name for source in BUILT_IN if not given[source.name]} == {"custom"}
    assert "rdma.device" in given["network"]
    wrong = {name: source for source in given for name in given[source] if sources_of(name, NAMES) != {source}}
    assert not wrong, "add the domain to OTHER_DOMAINS"


def test_other_domains_are_those_of_built_in_sources() -> None:
    assert set(OTHER_DOMAINS.values()) <= {source.name for source in BUILT_IN}
    assert not OTHER_DOMAINS.keys() & NAMES
