"""What a recording gives on replay is what the machine gave, for every machine of the corpus."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from nfd.cli.machine import plan_of, scan
from nfd.host.record import Recorder
from nfd.host.replay import Replay
from nfd.sources import BUILT_IN
from tests.cases_hosts.layout import CASES, lay_out, open_up

GPUS = {"nvidia", *(source.name for source in BUILT_IN if "nvidia" in source.depends)}
"""A source that looks for a driver on a live machine only, and those whose labels depend on its features."""
FILES = sorted(CASES.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=attrgetter("stem"))
def test_labels_on_replay_equal_those_of_the_machine(file: Path, tmp_path: Path) -> None:
    case: dict[str, Any] = yaml.safe_load(file.read_text())
    machine = tmp_path / "machine"
    machine.mkdir()
    lay_out(case, machine)
    (tmp_path / "config").write_text(case.get("config") or "")
    plan, _ = plan_of(Namespace(config=str(tmp_path / "config"), sources=None))
    environment = case.get("env") or {}
    try:
        recorder = Recorder(Replay(machine, environment))
        live = scan(recorder, plan)
    finally:
        open_up(case, machine)
    recorder.write(tmp_path / "recording")
    again = scan(Replay(tmp_path / "recording"), plan)
    assert comparable(again.labels, case) == comparable(live.labels, case)
    assert again.discovery.features.names() == live.discovery.features.names()
    assert again.discovery.failed.keys() - GPUS == live.discovery.failed.keys() - GPUS


def comparable(labels: Mapping[str, str], case: Mapping[str, Any]) -> dict[str, str]:
    """Labels, but for those whose name holds a serial number, which a recording replaces."""
    serial = "serial" in (case.get("config") or "")
    return {key: value for key, value in labels.items() if not (serial and "/usb-" in key)}
