"""`gpu-feature-discovery --xid-events`: the program, its child, and events that the library gives at run time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.children import LOGS
from tests.gfd.cases import PROGRAM, prepare, read_labels
from tests.gfd.machines import H100, at
from tests.gfd.test_agent import DEADLINE, wait_for
from tests.nvml.asking import needs_compiler
from tests.nvml.library import write_machine

pytestmark = needs_compiler

Machine = dict[str, Any]

TWO: Machine = {"devices": [at(1, H100), at(2, H100)]}
XID, STATE, PRODUCT = "nvidia.com/gpu.xid", "nvidia.com/gpu.state", "nvidia.com/gpu.product"
FAILED = "cannot wait for Xid events"
READY = "waiting for Xid events"
SECOND = 1.0
"""How long the child may still have the driver open after the program was asked to end."""


class Running:
    """The program, which looks at the GPUs by itself once a minute only."""

    def __init__(self, folder: Path, machine: Machine, *flags: str) -> None:
        self.folder, self.machine = folder, machine
        self.node = folder / "nvidia0"
        self.node.write_bytes(bytes(4096))
        words = ("--use-node-feature-api=false", "--no-timestamp", "--output-file={OUT}", *flags)
        config = {"config": "{}"} if any("config-file" in flag for flag in flags) else {}
        start = prepare({"machine": {}, "plain": True, "flags": words, **config}, folder)
        self.out = start.out
        self.becomes()
        LOGS[folder / "log"] = PROGRAM.name
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen([str(PROGRAM), *start.argv], env=dict(start.environment), stderr=log)

    def becomes(self, **changes: Any) -> None:
        """What is written at once; devices and errors hold from a process's next init on, events at once."""
        self.machine = {"device_node": str(self.node), **self.machine, **changes}
        write_machine(self.machine, self.folder / "machine/machine.json")

    def happens(self, device: int, xid: int, **more: Any) -> None:
        self.becomes(events=[*self.machine.get("events", ()), {"device": device, "xid": xid, **more}])

    def labels(self) -> dict[str, str]:
        return read_labels(self.out.read_text()) if self.out.exists() else {}

    def told(self) -> tuple[str | None, str | None]:
        labels = self.labels()
        return labels.get(STATE), labels.get(XID)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def calls(self, function: str) -> int:
        log = self.folder / "machine/calls.log"
        return sum(line.split()[0] == function for line in log.read_text().splitlines()) if log.exists() else 0

    def child(self) -> int:
        """Its process id, 0 if there is none."""
        for status in Path("/proc").glob("[0-9]*/status"):
            with suppress(OSError):
                if f"\nPPid:\t{self.process.pid}\n" in status.read_text():
                    return int(status.parent.name)
        return 0

    def has_driver_open(self, pid: int) -> bool:
        try:
            return any(one.readlink() == self.node for one in Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            return False

    def waits(self) -> int:
        """The child, once it waits for events."""
        wait_for(lambda: self.calls("nvmlEventSetWait_v2"), "the child waits")
        child = self.child()
        assert self.has_driver_open(child)
        return child

    def reload(self) -> None:
        before = self.log().count("configuration reloaded")
        self.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.log().count("configuration reloaded") > before, "the reload")


@contextmanager
def running(folder: Path, *flags: str, machine: Machine = TWO) -> Iterator[Running]:
    one = Running(folder, machine, *flags)
    try:
        wait_for(lambda: one.labels().get(PRODUCT), "the first labels")
        yield one
        assert "Traceback" not in one.log()
    finally:
        one.process.kill()
        one.process.wait()


def gone_within(pid: int, seconds: float) -> bool:
    """Whether that process ends in time; a zombie has let go of everything."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_a_listed_xid_makes_the_node_degraded(tmp_path: Path) -> None:
    """The timer is at 60 s: each event is a pass of its own. Xid 31 is an application's, and not listed."""
    with running(tmp_path, "--xid-events") as one:
        one.waits()
        assert one.told() == (None, None)
        one.happens(0, 31)
        one.happens(1, 48)
        wait_for(lambda: one.told() == ("degraded", "48"), "Xid 48")
        one.happens(0, 79)
        wait_for(lambda: one.told() == ("degraded", "79"), "Xid 79, the worse one")
        assert one.labels()[PRODUCT] == "NVIDIA-H100-80GB-HBM3"
        assert [one.log().count(f"Xid {xid}") for xid in (31, 48, 79)] == [0, 1, 1]
        one.reload()
        one.reload()
        assert one.told() == ("degraded", "79"), "this driver does not report a recovery action"


def test_a_list_of_ones_own(tmp_path: Path) -> None:
    with running(tmp_path, "--xid-events", "--xid-list=31,13", "--sleep-interval=infinite") as one:
        one.waits()
        for xid in (48, 79, 13):
            one.happens(0, xid)
        wait_for(lambda: one.told() == ("degraded", "13"), "Xid 13")
        one.happens(0, 31)
        wait_for(lambda: one.told() == ("degraded", "31"), "the first of the list")


@pytest.mark.parametrize("flags", [(), ("--xid-events=false",), ("--xid-list=79",)])
def test_by_default_nothing_is_open_between_scans(flags: tuple[str, ...], tmp_path: Path) -> None:
    with running(tmp_path, *flags) as one:
        one.reload()
        assert one.child() == 0
        assert one.calls("nvmlEventSetCreate") == 0
        assert not one.has_driver_open(one.process.pid)


def test_a_single_pass_waits_for_nothing(tmp_path: Path) -> None:
    with running(tmp_path, "--xid-events", "--oneshot") as one:
        assert one.process.wait(DEADLINE) == 0
        assert one.calls("nvmlEventSetCreate") == 0


def ends(one: Running) -> None:
    """The child is gone within a second of SIGTERM, and the program ends as ever."""
    child = one.child()
    one.process.send_signal(signal.SIGTERM)
    assert gone_within(child, SECOND)


def test_the_child_shuts_nvml_down_with_the_pod(tmp_path: Path) -> None:
    """As MIG manager, driver manager and the operator pause it: they delete the pod."""
    with running(tmp_path, "--xid-events") as one:
        one.waits()
        shut = one.calls("nvmlShutdown")
        ends(one)
        assert one.process.wait(DEADLINE) == 0
        assert one.calls("nvmlShutdown") == shut + 1
        assert one.calls("nvmlEventSetFree") == 1
        assert XID not in one.labels()


def test_a_child_that_does_not_answer_is_killed(tmp_path: Path) -> None:
    """A call that hangs in the driver returns for no signal."""
    with running(tmp_path, "--xid-events", machine={**TWO, "hang": {"nvmlEventSetWait": 60}}) as one:
        one.waits()
        ends(one)
        assert one.process.wait(DEADLINE) == 0


def test_the_child_ends_while_a_scan_hangs(tmp_path: Path) -> None:
    with running(tmp_path, "--xid-events") as one:
        one.waits()
        one.becomes(hang={"nvmlSystemGetDriverVersion": 30})
        before = one.calls("nvmlSystemGetDriverVersion")
        one.process.send_signal(signal.SIGHUP)
        wait_for(lambda: one.calls("nvmlSystemGetDriverVersion") > before, "the scan that hangs")
        ends(one)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_child_never_outlives_the_program(number: int, tmp_path: Path) -> None:
    with running(tmp_path, "--xid-events") as one:
        child = one.waits()
        one.process.send_signal(number)
        assert gone_within(child, SECOND)


def test_a_child_that_fails_affects_nothing_else(tmp_path: Path) -> None:
    """It is tried again, less often each time; the log says so once."""
    with running(tmp_path, "--xid-events", machine={**TWO, "errors": {"nvmlEventSetCreate": 999}}) as one:
        wait_for(lambda: one.calls("nvmlEventSetCreate") > 1, "another try")
        assert one.told() == (None, None)
        assert one.log().count(FAILED) == 1
        one.becomes(errors={})
        one.waits()
        one.happens(0, 48)
        wait_for(lambda: one.told() == ("degraded", "48"), "Xid 48")


def test_labels_stay_while_the_child_is_gone(tmp_path: Path) -> None:
    with running(tmp_path, "--xid-events") as one:
        child = one.waits()
        one.happens(0, 48)
        wait_for(lambda: one.told() == ("degraded", "48"), "Xid 48")
        waits = one.calls("nvmlEventSetCreate")
        os.kill(child, signal.SIGKILL)
        wait_for(lambda: one.calls("nvmlEventSetCreate") > waits, "the next child")
        one.reload()
        one.reload()
        assert one.told() == ("degraded", "48")
        assert one.log().count(FAILED) == 1
        assert one.child() not in (0, child)


def test_a_gpu_that_reports_no_events_is_left_out(tmp_path: Path) -> None:
    machine = {"devices": [at(1, H100, event_types=4), at(2, H100, errors={"nvmlDeviceGetUUID": 999})]}
    with running(tmp_path, "--xid-events", machine={"devices": [*machine["devices"], at(3, H100)]}) as one:
        one.waits()
        wait_for(lambda: "2 of 3" in one.log(), "what it waits for")
        one.happens(0, 79)
        one.happens(1, 48)
        wait_for(lambda: one.told() == ("degraded", "48"), "Xid 48")
        assert one.log().count("Xid 48") == 3, "one of them had it, and it is not known which one"


def test_events_that_are_no_xids_do_not_count(tmp_path: Path) -> None:
    with running(tmp_path, "--xid-events", machine={"devices": [at(1, H100, event_types=12)]}) as one:
        one.waits()
        one.happens(0, 79, type=4)
        one.happens(0, 48)
        wait_for(lambda: one.told() == ("degraded", "48"), "Xid 48")


def test_the_child_is_gone_while_the_driver_is(tmp_path: Path) -> None:
    """A driver that has been unloaded knows no Xid any more."""
    with running(tmp_path, "--xid-events") as one:
        child = one.waits()
        one.happens(0, 48)
        wait_for(lambda: one.told() == ("degraded", "48"), "Xid 48")
        one.becomes(errors={"nvmlInit": 9})
        one.reload()
        assert gone_within(child, DEADLINE)
        wait_for(lambda: one.told() == ("stale", None), "no driver")
        waits = one.calls("nvmlEventSetCreate")
        one.becomes(errors={})
        one.reload()
        wait_for(lambda: one.calls("nvmlEventSetCreate") > waits, "the next child")
        wait_for(lambda: one.told() == (None, None), "the driver is back")


def test_a_further_gpu_is_waited_for(tmp_path: Path) -> None:
    with running(tmp_path, "--xid-events", machine={"devices": [at(1, H100)]}) as one:
        one.waits()
        waits = one.calls("nvmlEventSetCreate")
        one.becomes(devices=TWO["devices"])
        one.reload()
        wait_for(lambda: one.calls("nvmlEventSetCreate") > waits, "the next child")
        wait_for(lambda: "2 of 2" in one.log(), "both")
        one.happens(1, 48)
        wait_for(lambda: one.told() == ("degraded", "48"), "Xid 48")


def configured(text: str) -> str:
    return f"version: v1\nflags: {{gfd: {{{text}}}}}\n"


def test_the_file_switches_it_on_and_off(tmp_path: Path) -> None:
    with running(tmp_path, "--config-file={DIR}/config.yaml") as one:
        config = tmp_path / "config.yaml"
        assert one.child() == 0
        config.write_text(configured("xidEvents: true, xidList: [31]"))
        one.reload()
        child = one.waits()
        one.happens(0, 31)
        wait_for(lambda: one.told() == ("degraded", "31"), "Xid 31")
        config.write_text(configured("xidEvents: false"))
        one.reload()
        assert gone_within(child, DEADLINE)
        wait_for(lambda: one.told() == (None, None), "no Xid")


@pytest.mark.parametrize("text", ["xidList: []", "xidList: [0]", "xidList: [1000]", "xidList: [all]", "xidList: 79x"])
def test_a_list_that_is_none(text: str, tmp_path: Path) -> None:
    case = {"machine": TWO, "plain": True, "flags": ("--config-file={DIR}/config.yaml",), "config": configured(text)}
    start = prepare(case, tmp_path)
    done = subprocess.run(
        [str(PROGRAM), *start.argv], env=dict(start.environment), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "flags.gfd.xidList" in done.stderr
