"""On a node whose GPUs DRA hands out: labels that stay true, and none of the device plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gfd.config import Config
from gfd.node_config import is_dra
from gfd.sharing import Replicated, Resource, Sharing
from gfd.source import SOURCE
from nfd.discovery import Discovery, Plan, discover
from nfd.host import Host
from nfd.report import Report, SourceState
from nfd.report_order import Order
from nfd.rpc.client import Reporter
from nfd.worker.report_content import derive_content
from tests.gfd.cases import prepare, read_labels, run_process
from tests.gfd.machines import A100, H100, ONE_SLICE, Laid, at, carved, laid
from tests.gfd.restarts import NODE, worker
from tests.master.places import labels_of
from tests.nvml.asking import needs_compiler
from tests.nvml.machines import lay_out

pytestmark = needs_compiler

DEPLOY = "nvidia.com/gpu.deploy."
DRA = {f"{DEPLOY}dra-driver": "true", f"{DEPLOY}dra-validator": "true"}
PLUGIN = {f"{DEPLOY}device-plugin": "true", f"{DEPLOY}gpu-feature-discovery": "true"}
SHARED = Config(
    mig_strategy="single",
    sharing=Sharing(time_slicing=Replicated(resources=(Resource(name="nvidia.com/gpu", replicas=4),))),
)
FABRIC = {"fabric": {"cluster_uuid": "7f3c0102-0304-0506-0708-090a0b0c0dff", "clique": 7}}
MACHINE = {"devices": [at(bus, {**H100, **FABRIC}) for bus in (1, 2)]}
OF_DEVICE_PLUGIN = {"gpu.replicas", "gpu.sharing-strategy", "mps.capable", "mig.strategy", "gfd.timestamp"}
STAYS = {
    "gpu.product": "NVIDIA-H100-80GB-HBM3",
    "gpu.memory": "81559",
    "gpu.count": "2",
    "gpu.family": "hopper",
    "gpu.compute.major": "9",
    "gpu.compute.minor": "0",
    "gpu.machine": "unknown",
    "gpu.mode": "compute",
    "gpu.present": "true",
    "gpu.clique": "7f3c0102-0304-0506-0708-090a0b0c0dff.7",
    "cuda.driver-version.full": "580.159.04",
    "cuda.runtime-version.full": "13.0",
    "mig.capable": "true",
}


def scan(machine: Laid, node_labels: Mapping[str, str] | None, config: Config = SHARED) -> Discovery:
    machine.host.node_labels = node_labels
    return discover(machine.host, Plan((SOURCE,), (SOURCE,), {"nvidia": config}))


def names(found: Discovery) -> dict[str, str]:
    return {key.removeprefix("nvidia.com/"): value for key, value in found.labels.items()}


def test_the_deploy_label_of_the_operator_chooses(tmp_path: Path) -> None:
    with laid(MACHINE, tmp_path) as machine:
        plugin, dra = names(scan(machine, PLUGIN)), names(scan(machine, DRA))
    assert plugin["gpu.product"] == "NVIDIA-H100-80GB-HBM3-SHARED"
    assert plugin.keys() >= OF_DEVICE_PLUGIN
    assert STAYS.items() <= dra.items()
    assert not dra.keys() & OF_DEVICE_PLUGIN
    assert plugin.keys() - dra.keys() == OF_DEVICE_PLUGIN


@pytest.mark.parametrize(
    ("labels", "dra"),
    [
        ({}, False),
        (DRA, True),
        ({**DRA, f"{DEPLOY}dra-driver": "paused-for-driver-upgrade"}, True),
        ({**DRA, f"{DEPLOY}dra-driver": "false"}, False),
        ({**DRA, **PLUGIN}, False),
        ({**DRA, **PLUGIN, f"{DEPLOY}device-plugin": "false"}, True),
        (PLUGIN, False),
    ],
)
def test_what_the_deploy_labels_say(labels: Mapping[str, str], dra: bool) -> None:
    assert is_dra(labels) is dra


def test_the_configuration_chooses(tmp_path: Path) -> None:
    with laid(MACHINE, tmp_path) as machine:
        forced = names(scan(machine, None, SHARED.model_copy(update={"profile": "dra"})))
        kept = names(scan(machine, DRA, SHARED.model_copy(update={"profile": "device-plugin"})))
    assert not forced.keys() & OF_DEVICE_PLUGIN
    assert kept["gpu.replicas"] == "4"


def test_before_the_master_replies_nothing_is_said_and_nothing_removed(tmp_path: Path) -> None:
    with laid(MACHINE, tmp_path / "gpus") as machine:
        found = scan(machine, None)
    bare = Host(lay_out({"machine": {}}, tmp_path / "none"), {})
    bare.node_labels = None
    none = discover(bare, Plan((SOURCE,), (SOURCE,), {"nvidia": Config()}))
    assert (found.waiting, dict(found.labels)) == ({"nvidia"}, {})
    assert not none.waiting, "a node without a GPU waits for nothing"


def test_a_gpu_in_mig_mode_without_mig_devices_is_nothing_to_say(tmp_path: Path) -> None:
    """Claims make MIG devices and leave the mode on."""
    with laid({"devices": [at(1, carved(A100)), at(2, carved(A100, ONE_SLICE)), at(3, A100)]}, tmp_path) as machine:
        found = scan(machine, DRA, Config(mig_strategy="mixed"))
        plugin = scan(machine, PLUGIN, Config(mig_strategy="mixed"))
    labels = names(found)
    assert (labels["gpu.product"], labels["gpu.count"]) == ("NVIDIA-A100-SXM4-80GB", "3")
    assert "gpu.state" not in labels
    assert not [name for name in labels if name.startswith(("mig-", "gpu.slices", "gpu.engines"))]
    assert not found.failed
    assert names(plugin)["gpu.state"] == "mig-pending"


def test_gpu_feature_discovery_alone(tmp_path: Path) -> None:
    """It knows no label of the node; a file of the device plugin may lie around."""
    config = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
    case = {"machine": MACHINE, "config": config, "flags": ["--profile=dra"]}
    start = prepare(case, tmp_path)
    outcome = run_process(start)
    assert outcome.code == 0, outcome.stderr
    labels = {key.removeprefix("nvidia.com/"): value for key, value in read_labels(start.out.read_text()).items()}
    assert STAYS.items() <= labels.items()
    assert not labels.keys() & OF_DEVICE_PLUGIN


def test_a_node_that_changes_to_dra_loses_exactly_these_labels_and_is_written_once(tmp_path: Path) -> None:
    """Worker and master: the reply tells the worker; later passes write nothing."""
    with laid(MACHINE, tmp_path) as machine, worker(machine.host, "none", tmp_path) as running:
        sequence = 100

        def turn() -> dict[str, str]:
            nonlocal sequence
            plan = Plan((SOURCE,), (SOURCE,), {"nvidia": SHARED})
            content = derive_content(plan, discover(machine.host, plan))
            sequence += 1
            states = {name: SourceState(state) for name, state in content.states.items()}
            order = Order("boot-1", 1, sequence)
            report = Report(NODE, "1", "", order, content.labels, {}, content.origins, states, content.features)
            send = asyncio.to_thread(Reporter(f"127.0.0.1:{running.service.port}").send, report)
            machine.host.node_labels = running.loop.run_until_complete(send).node_labels or {}
            return labels_of(running.place, NODE)

        machine.host.node_labels = None
        running.place.edit(NODE, {"metadata": {"labels": PLUGIN}})
        turn()
        before = turn()
        assert before["nvidia.com/gpu.replicas"] == "4"
        changed: dict[str, Any] = dict.fromkeys(PLUGIN) | DRA
        running.place.edit(NODE, {"metadata": {"labels": changed}})
        for _ in range(3):
            after = turn()
        gone = {key.removeprefix("nvidia.com/") for key in before.keys() - after.keys() - PLUGIN.keys()}
        assert gone == OF_DEVICE_PLUGIN
        assert after["nvidia.com/gpu.product"] == STAYS["gpu.product"]
        written = (running.place.path / f"{NODE}.yaml").stat().st_mtime_ns
        for _ in range(3):
            assert turn() == after
        assert (running.place.path / f"{NODE}.yaml").stat().st_mtime_ns == written
