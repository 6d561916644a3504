"""A recorded machine has the labels of the live one, and no serial numbers."""

import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from gfd.source import SOURCE
from nfd.discovery import Plan, discover
from nfd.host.record import Recorder
from nfd.host.replay import Replay
from tests.gfd.machines import A100, H100, ONE_SLICE, at, carved, laid
from tests.nvml.asking import needs_compiler


@needs_compiler
def test_replay_gives_the_labels_of_the_recording(tmp_path: Path) -> None:
    plan = Plan((SOURCE,), (SOURCE,), {"nvidia": SOURCE.config(mig_strategy="mixed")})  # type: ignore[call-arg]
    machine = {"devices": [at(1, carved(H100, ONE_SLICE, ONE_SLICE)), at(2, A100)]}
    with laid(machine, tmp_path, {"sys/class/dmi/id/product_name": "DGXH100\n"}) as found:
        recorder = Recorder(found.host)
        live = discover(recorder, plan)
    recorder.write(tmp_path / "recording")
    replayed = discover(Replay(tmp_path / "recording"), plan)
    assert live.labels["nvidia.com/mig-1g.10gb.count"] == "2"
    assert replayed.labels == live.labels
    assert "GPU-00000000-0000-4000-8000" not in (tmp_path / "recording" / "host.json").read_text()


@needs_compiler
def test_of_a_configuration_space_only_what_is_looked_at_is_read(tmp_path: Path) -> None:
    """Each word is an access to the device; the extended space took 20 ms of a scan in a virtual machine."""
    with laid({"devices": [at(1, H100)]}, tmp_path) as found:
        (space,) = found.root.glob("sys/bus/pci/devices/*/config")
        space.write_bytes(space.read_bytes()[:64].ljust(4096, b"\0"))
        recorder = Recorder(found.host)
        discover(recorder, Plan((SOURCE,), (SOURCE,), {"nvidia": SOURCE.config()}))
    recorder.write(tmp_path / "recording")
    (recorded,) = (tmp_path / "recording").glob("sys/bus/pci/devices/*/config")
    assert recorded.stat().st_size == 256


@needs_compiler
def test_text_is_made_of_a_reading_only_for_a_recording(tmp_path: Path) -> None:
    plan = Plan((SOURCE,), (SOURCE,), {"nvidia": SOURCE.config()})
    called: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in (json.dumps.__code__, json.loads.__code__):
            called.append(frame.f_code.co_name)

    with laid({"devices": [at(1, H100)]}, tmp_path) as found:
        recorder = Recorder(found.host)
        for host, expected in ((found.host, []), (recorder, ["dumps", "loads"] * 2)):
            called.clear()
            sys.setprofile(note)
            try:
                labels = discover(host, plan).labels
            finally:
                sys.setprofile(None)
            assert labels["nvidia.com/gpu.count"] == "1"
            assert called == expected
