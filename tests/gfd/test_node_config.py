"""The label `nvidia.com/device-plugin.config` chooses sharing and MIG strategy in the worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gfd.config import Config
from gfd.node_config import LABEL, NodeConfigs, reason_for_pause
from gfd.source import SOURCE
from nfd.discovery import Discovery, Plan, discover
from nfd.host import PLUGIN_D, Host
from tests.gfd.machines import A100, at, carved, laid
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

PRODUCT = "NVIDIA-A100-SXM4-80GB"
SHARED = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
MIXED = "version: v1\nflags: {migStrategy: mixed}\n"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with laid({"devices": [at(1, A100), at(2, A100)]}, tmp_path) as machine:
        write(machine.host, shared=SHARED, mixed=MIXED, plain="{}\n")
        yield machine.host


def write(host: Host, **files: str) -> None:
    folder = host.root / PLUGIN_D
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def scan(host: Host, label: str | None = "", before: Discovery | None = None, **options: object) -> Discovery:
    """`label` is the value of the node's label, "" without it, None while it is not known."""
    host.node_labels = None if label is None else {LABEL: label} if label else {}
    config = Config(node_configs=NodeConfigs(**options))  # type: ignore[arg-type]
    return discover(host, Plan((SOURCE,), (SOURCE,), {"nvidia": config}), before)


def product(found: Discovery) -> tuple[str | None, str | None, str | None]:
    names = ("gpu.product", "gpu.replicas", "mig.strategy")
    return tuple(found.labels.get(f"nvidia.com/{name}") for name in names)  # type: ignore[return-value]


def test_the_label_chooses(host: Host) -> None:
    assert product(scan(host, "shared")) == (f"{PRODUCT}-SHARED", "4", None)
    assert product(scan(host, "mixed")) == (PRODUCT, "1", "mixed")
    assert product(scan(host, "plain")) == (PRODUCT, "1", None)


def test_without_the_label_the_default_or_a_fallback_is_used(host: Host) -> None:
    assert product(scan(host, default="shared"))[0] == f"{PRODUCT}-SHARED"
    assert product(scan(host, fallback_strategies=("named", "empty"))) == (PRODUCT, "1", None)
    write(host, default=SHARED)
    assert product(scan(host))[0] == f"{PRODUCT}-SHARED"


def test_while_the_label_is_not_known_no_label_is_given_and_none_removed(host: Host) -> None:
    found = scan(host, None)
    assert (found.waiting, found.doubtful, dict(found.failed)) == ({"nvidia"}, {"nvidia"}, {})
    assert not found.labels
    assert found.features.names(), "the devices are reported"


@pytest.mark.parametrize("label", ["missing", "..data", "shared.yaml"])
def test_an_unknown_name_keeps_what_is_in_use(host: Host, label: str) -> None:
    first = scan(host, "shared")
    second = scan(host, label, first)
    assert second.labels == first.labels
    (problem,) = (one for one in second.problems if one.subject == f"node label {LABEL}")
    existing = "existing are mixed, plain, shared"
    assert problem.reason == f"no configuration {label!r}; {existing}; the configuration in use stays"
    assert not second.doubtful


def test_an_unknown_name_at_the_start_removes_no_label(host: Host) -> None:
    found = scan(host, "missing")
    assert (found.doubtful, dict(found.labels)) == ({"nvidia"}, {})
    assert LABEL in found.failed["nvidia"]


def test_a_broken_file_keeps_what_is_in_use_until_it_is_mended(host: Host) -> None:
    first = scan(host, "shared")
    write(host, shared="sharing: {timeSlicing: {resources: []}}\n")
    second = scan(host, "shared", first)
    assert second.labels == first.labels
    (problem,) = (one for one in second.problems if one.subject == f"node label {LABEL}")
    assert problem.reason.startswith(f"{PLUGIN_D}/shared:1: sharing.timeSlicing.resources: must be a list")
    write(host, shared="flags: {migStrategy: singel}\n")
    (problem,) = (one for one in scan(host, "shared", second).problems if one.subject == f"node label {LABEL}")
    assert "'singel' is not one of none, single, mixed" in problem.reason
    write(host, shared=SHARED.replace("4", "8"))
    assert product(scan(host, "shared", second))[1] == "8"


def test_the_strategy_of_the_worker_stands_where_the_file_has_none(tmp_path: Path) -> None:
    with laid({"devices": [carved(at(1, A100))]}, tmp_path) as machine:
        write(machine.host, shared=SHARED, mixed=MIXED)
        config = Config(mig_strategy="single")
        for label, wanted in (("shared", "single"), ("mixed", "mixed")):
            machine.host.node_labels = {LABEL: label}
            chosen = SOURCE.for_node(machine.host, config) if SOURCE.for_node else None
            assert chosen.mig_strategy == wanted  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("labels", "paused"),
    [
        (None, False),
        ({}, False),
        ({"nvidia.com/mig.config.state": "success", "nvidia.com/gpu.deploy.dcgm": "true"}, False),
        ({"nvidia.com/mig.config.state": "failed", "nvidia.com/gpu.deploy.dcgm": "false"}, False),
        ({"nvidia.com/mig.config.state": "pending"}, True),
        ({"nvidia.com/gpu.deploy.dcgm": "paused-for-mig-change"}, True),
        ({"nvidia.com/gpu.deploy.device-plugin": "paused-for-driver-upgrade"}, True),
    ],
)
def test_nvml_stays_closed_while_an_operator_works(host: Host, labels: dict[str, str] | None, *, paused: bool) -> None:
    """Also where nothing was read before: then no label is given, and none removed."""
    host.node_labels = labels if labels is None else {LABEL: "plain", **labels}
    found = discover(host, Plan((SOURCE,), (SOURCE,), {"nvidia": Config(profile="device-plugin")}))
    assert bool(reason_for_pause(host)) is paused
    assert bool(found.features.names()) is not paused
    if labels is not None:
        assert dict(found.failed) == ({"nvidia": reason_for_pause(host)} if paused else {})
        assert found.doubtful == ({"nvidia"} if paused else set())
