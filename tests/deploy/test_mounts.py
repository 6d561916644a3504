"""The worker's mounts are what discovery reads: all of it on every recorded machine, and nothing besides."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest

from nfd.cli.machine import scan
from nfd.discovery import make_plan
from nfd.host import CUSTOM_D, MAX_FILE, PLUGIN_D, PROC
from nfd.host.replay import Replay
from nfd.worker.config import model
from tests.deploy.rendering import ROOT, chart_objects, container_of, one, overlay, pod_of

HOST = PurePosixPath("/host")
OWN = (PROC, CUSTOM_D, PLUGIN_D)
"""Read from the pod's own file system where the host's is not mounted."""
HOSTS = sorted(path.parent for path in (ROOT / "tests/hosts").glob("*/expected"))
ELSEWHERE = "etc/nv_tegra_release"
"""Not mounted: container runtimes make a directory of an absent host path. sys/devices/soc0/family tells it too."""
ON_REQUEST = "usr/src"
"""Mounted by `worker.mountUsrSrc` only, as in NFD: not every system has it."""

LINKS = ("pcie-roots:", "transports:")
"""Probes that read the links of a folder."""


class Asked(Replay):
    """A recorded machine that remembers every path it was asked for, absent ones included."""

    def __init__(self, directory: Path) -> None:
        self.paths: set[str] = set()
        super().__init__(directory, {})

    def data(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        self.paths.add(path)
        return super().data(path, limit)

    def names(self, path: str) -> tuple[str, ...]:
        self.paths.add(path)
        return super().names(path)

    def _stat(self, path: str) -> os.stat_result | None:
        self.paths.add(path)
        return super()._stat(path)


@pytest.fixture(scope="module")
def asked() -> set[str]:
    """By all sources with their defaults, on all machines."""
    config = model()()
    core = config.core
    plan = make_plan(core.feature_sources, core.label_sources, config.sources, core.label_white_list)
    paths: set[str] = set()
    for directory in HOSTS:
        host = Asked(directory)
        scan(host, plan)
        paths |= {
            folder_of(path) for path in host.paths if "/" in path
        }  # the others are a recording's own, like `cpuid`
    return paths


def folder_of(path: str) -> str:
    """The folder whose links a probe has read (`nfd.host.pcie`); any other path as it is."""
    probe = path.startswith(LINKS)
    return path.split(":")[1] if probe else path


def mounts(worker: dict[str, object]) -> dict[str, str]:
    """Path below the host's root by the name of the volume; each mount shows the host's own at the same place."""
    hosts = {each["name"]: each["hostPath"]["path"] for each in pod_of(worker)["volumes"] if "hostPath" in each}
    places = {each["name"]: each["mountPath"] for each in container_of(worker)["volumeMounts"] if each["name"] in hosts}
    assert places == {name: str(HOST / path.lstrip("/")) for name, path in hosts.items()}
    return {name: path.strip("/") for name, path in hosts.items()}


def covers(place: str, path: str) -> bool:
    return PurePosixPath(path).is_relative_to(place)


@pytest.mark.parametrize("shipped", ["manifests", "chart", "chart with mountUsrSrc"])
def test_the_workers_mounts_are_what_discovery_reads(shipped: str, asked: set[str]) -> None:
    values = {"worker": {"mountUsrSrc": shipped.endswith("mountUsrSrc")}}
    objects = overlay("default") if shipped == "manifests" else chart_objects(values)
    mounted = mounts(one(objects, "DaemonSet", "worker"))
    on_request = () if shipped.endswith("mountUsrSrc") else (ON_REQUEST,)
    seen = (*mounted.values(), *OWN, *on_request, ELSEWHERE)
    assert {path for path in asked if not any(covers(place, path) for place in seen)} == set()
    assert {place for place in mounted.values() if not any(covers(place, path) for path in asked)} == set()
