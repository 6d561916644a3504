"""The loop, with sources and a receiver that do as they are told."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nfd.config.section import Section
from nfd.discovery import Plan, discover
from nfd.errors import ConfigError, HostError, ReportError
from nfd.features import Features, Labels
from nfd.host import Host
from nfd.report import MAX_ENTRIES, Reply, Report, State
from nfd.runtime.failures import COUNTS
from nfd.runtime.signals import Signals
from nfd.source import Source
from nfd.worker.agent import Agent, WorkerSettings
from nfd.worker.report_content import Content, derive_content
from tests.e2e.programs import eventually


class Machine:
    """Sources `steady` (settled), `moving` (read by the timer) and `failing`; what they find can be set."""

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}
        self.found: dict[str, str | Exception] = {"steady": "1", "moving": "1", "failing": "1"}
        settled = {"steady": True}
        self.sources = tuple(
            Source(name, Section, self.discover(name), self.labels(name), settled=settled.get(name, False))
            for name in self.found
        )
        self.settings = WorkerSettings(Plan(self.sources, self.sources, dict.fromkeys(self.found)), interval=1.0)

    def discover(self, name: str) -> Callable[[Host, Section], Features]:
        def run(host: Host, config: Section) -> Features:
            self.runs[name] = self.runs.get(name, 0) + 1
            found = self.found[name]
            if isinstance(found, Exception):
                raise found
            return Features(attributes={f"{name}.it": {"value": found}})

        return run

    def labels(self, name: str) -> Callable[[Features, Section], Labels]:
        return lambda features, config: dict(features.attributes.get(f"{name}.it", {}))


class Master:
    """Keeps what it is sent; `script` says what to do with each report, the last entry also with all later ones."""

    def __init__(self, signals: Signals, *script: Callable[[Report], Reply]) -> None:
        self.reports: list[Report] = []
        self.times: list[float] = []
        self.signals = signals
        self.script = list(script)

    def send(self, report: Report) -> Reply:
        self.reports.append(report)
        self.times.append(time.monotonic())
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return step(report)

    def stop(self, report: Report) -> Reply:
        self.signals.stop = True
        return Reply(60.0)


def take(report: Report) -> Reply:
    return Reply(60.0)


def refuse(**options: object) -> Callable[[Report], Reply]:
    def step(report: Report) -> Reply:
        raise ReportError("no", **{"retry": True, **options})  # type: ignore[arg-type]

    return step


def changing(machine: Machine, **found: str | Exception) -> Callable[[Report], Reply]:
    """Take the report; what the sources find is another thing from then on."""

    def step(report: Report) -> Reply:
        machine.found.update(found)
        return Reply(60.0)

    return step


def agent_of(
    tmp_path: Path, machine: Machine, master: Master, load: Callable[[], WorkerSettings] | None = None
) -> Agent:
    return Agent(
        Host(tmp_path),
        "n1",
        machine.settings,
        master.signals,
        master.send,
        load or (lambda: machine.settings),
        live=False,
    )


def label(report: Report, name: str) -> str | None:
    return report.labels.get(f"feature.node.kubernetes.io/{name}-value")


def stop_after(machine: Machine, runs: int) -> None:
    """End the agent once the unsettled sources have run that often."""
    eventually(lambda: min(machine.runs.get(name, 0) for name in ("moving", "failing")) == runs)
    os.kill(os.getpid(), signal.SIGTERM)


def test_the_timer_reads_what_is_not_settled_and_reports_news_only(tmp_path: Path, signals: Signals) -> None:
    machine = Machine()
    master = Master(signals, take)
    agent = agent_of(tmp_path, machine, master)
    threading.Thread(target=stop_after, args=(machine, 3)).start()
    agent.run()
    assert machine.runs == {"steady": 1, "moving": 3, "failing": 3}
    assert len(master.reports) == 1


def test_a_failing_source_keeps_its_last_good_result(tmp_path: Path, signals: Signals) -> None:
    machine = Machine()
    broken = changing(machine, failing=HostError("sys/x", "is broken"))
    master = Master(signals, broken, changing(machine, failing="2"))
    master.script.append(master.stop)
    agent_of(tmp_path, machine, master).run()
    good, failed, better = master.reports
    assert good.sources["failing"].state is State.FRESH
    assert (failed.labels, failed.features) == (good.labels, good.features)
    assert failed.sources["failing"].state is State.FAILED
    assert failed.sources["failing"].error == "sys/x: is broken"
    assert 0.5 < failed.sources["failing"].since < 5
    assert failed.sources["moving"].state is State.FRESH
    assert (label(better, "failing"), better.sources["failing"].state) == ("2", State.FRESH)


def test_a_source_that_gives_more_than_a_master_accepts_fails_alone(tmp_path: Path, signals: Signals) -> None:
    machine = Machine()
    *others, failing = machine.sources
    many = replace(failing, labels=lambda features, config: {f"n{number}": "1" for number in range(MAX_ENTRIES)})
    sources = (*others, many)
    machine.settings = replace(machine.settings, plan=Plan(sources, sources, dict.fromkeys(machine.found)))
    master = Master(signals, take)
    assert agent_of(tmp_path, machine, master).run_once()
    (report,) = master.reports
    assert len(report.labels) == 2
    assert (label(report, "moving"), report.sources["moving"].state) == ("1", State.FRESH)
    assert report.sources["failing"].state is State.FAILED
    assert "its labels are left out: 10000 labels, and a report of 10002" in report.sources["failing"].error


def test_a_settled_source_that_failed_is_tried_again_by_the_timer(tmp_path: Path, signals: Signals) -> None:
    machine = Machine()
    machine.found["steady"] = HostError("sys/x", "is broken")
    master = Master(signals, changing(machine, steady="1"))
    master.script.append(master.stop)
    agent_of(tmp_path, machine, master).run()
    first, second = master.reports
    assert (first.sources["steady"].state, label(first, "steady")) == (State.FAILED, None)
    assert (second.sources["steady"].state, label(second, "steady")) == (State.FRESH, "1")
    assert machine.runs["steady"] == 2


def test_the_newest_state_is_sent_when_the_master_is_back(tmp_path: Path, signals: Signals) -> None:
    machine = Machine()

    def away(report: Report) -> Reply:
        machine.found["moving"] = str(len(master.reports) + 1)
        raise ReportError("away", retry=True)

    master = Master(signals, away, away, away)
    master.script.append(master.stop)
    agent_of(tmp_path, machine, master).run()
    assert len(master.reports) == 4
    assert label(master.reports[-1], "moving") in ("3", "4")
    assert [one.order.sequence for one in master.reports if one.order] == [1, 2, 3, 4]


def test_a_wait_the_master_asks_for_is_kept_even_if_there_is_news(tmp_path: Path, signals: Signals) -> None:
    machine = Machine()
    machine.settings = replace(machine.settings, interval=1.0)

    def busy(report: Report) -> Reply:
        machine.found["moving"] = "2"
        raise ReportError("busy", retry=True, retry_after=1.8)

    master = Master(signals, busy)
    master.script.append(master.stop)
    agent_of(tmp_path, machine, master).run()
    assert master.times[1] - master.times[0] >= 1.8
    assert label(master.reports[1], "moving") == "2"


def test_no_publish_sends_nothing(tmp_path: Path, signals: Signals) -> None:
    machine = Machine()
    machine.settings = replace(machine.settings, publish=False)
    master = Master(signals, take)
    agent = agent_of(tmp_path, machine, master)
    threading.Timer(1.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    agent.run()
    assert machine.runs["moving"] == 2
    assert not master.reports


@pytest.mark.parametrize("interval", [0.0, -1.0])
def test_without_an_interval_there_is_one_scan(tmp_path: Path, signals: Signals, interval: float) -> None:
    machine = Machine()
    machine.settings = replace(machine.settings, interval=interval)
    master = Master(signals, take)
    agent = agent_of(tmp_path, machine, master)
    threading.Timer(1.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    agent.run()
    assert machine.runs["moving"] == 1


def test_a_reload_scans_everything_even_if_the_configuration_is_broken(tmp_path: Path, signals: Signals) -> None:
    machine = Machine()
    machine.settings = replace(machine.settings, interval=0.0)

    def load() -> WorkerSettings:
        raise ConfigError("nfd-worker.conf: core.sleepInterval: nonsense")

    def reload(report: Report) -> Reply:
        machine.found["steady"] = "2"
        os.kill(os.getpid(), signal.SIGHUP)
        return Reply(60.0)

    master = Master(signals, reload)
    master.script.append(master.stop)
    agent_of(tmp_path, machine, master, load).run()
    assert label(master.reports[1], "steady") == "2"
    assert machine.runs == {"steady": 2, "moving": 2, "failing": 2}


def test_a_source_that_is_switched_off_is_reported_so(tmp_path: Path, signals: Signals) -> None:
    machine = Machine()
    rest = machine.sources[:2]

    def reload(report: Report) -> Reply:
        os.kill(os.getpid(), signal.SIGHUP)
        return Reply(60.0)

    master = Master(signals, reload)
    master.script.append(master.stop)
    plan = Plan(rest, rest, dict.fromkeys(machine.found))
    agent_of(tmp_path, machine, master, lambda: replace(machine.settings, plan=plan)).run()
    assert master.reports[0].sources["failing"].state is State.FRESH
    assert master.reports[1].sources["failing"].state is State.OFF
    assert label(master.reports[1], "failing") is None


def test_oneshot_tries_for_a_while(tmp_path: Path, signals: Signals) -> None:
    machine = Machine()
    for script, delivered, count in (
        ([take], True, 1),
        ([refuse(), take], True, 2),
        ([refuse(retry=False)], False, 1),
        ([refuse(retry_after=60.0)], False, 1),
    ):
        master = Master(signals, *script)
        started = time.monotonic()
        assert agent_of(tmp_path, machine, master).run_once(20.0) is delivered
        assert len(master.reports) == count
        assert time.monotonic() - started < 15
    master = Master(signals, refuse())
    assert not agent_of(tmp_path, machine, master).run_once(2.0)
    assert len(master.reports) >= 2


ODD = [RecursionError, MemoryError, KeyError, OSError]


@pytest.mark.parametrize("kind", ODD)
def test_a_report_that_fails_unforeseen_is_tried_again(kind: type[Exception], tmp_path: Path, signals: Signals) -> None:
    def fail(report: Report) -> Reply:
        raise kind("made by the test")

    machine = Machine()
    master = Master(signals, fail, fail)
    master.script.append(master.stop)
    before = COUNTS["report"]
    agent_of(tmp_path, machine, master).run()
    assert (len(master.reports), COUNTS["report"]) == (3, before + 2)


@pytest.mark.parametrize("kind", ODD)
def test_a_reload_that_fails_unforeseen_changes_nothing(
    kind: type[Exception], tmp_path: Path, signals: Signals
) -> None:
    def load() -> WorkerSettings:
        raise kind("made by the test")

    def hang_up(report: Report) -> Reply:
        signals.reload = True
        machine.found["steady"] = "2"
        return Reply(60.0)

    machine = Machine()
    master = Master(signals, hang_up)
    master.script.append(master.stop)
    before = COUNTS["reload"]
    agent_of(tmp_path, machine, master, load).run()
    assert label(master.reports[-1], "steady") == "2", "everything was scanned all the same"
    assert COUNTS["reload"] == before + 1


@pytest.mark.parametrize("kind", ODD)
def test_a_turn_that_fails_unforeseen_is_made_up_for(
    kind: type[Exception], tmp_path: Path, signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes a report's content of a scan is part of no source: the whole pass fails, and comes again."""
    monkeypatch.setattr("nfd.worker.agent.AGAIN", (0.05, 0.1))
    failures = [kind("one"), kind("two")]

    def derive(*args: Any) -> Content:
        if failures:
            raise failures.pop()
        return derive_content(*args)

    monkeypatch.setattr("nfd.worker.agent.derive_content", derive)
    machine = Machine()
    master = Master(signals)
    master.script.append(master.stop)
    before = COUNTS["pass"]
    agent = agent_of(tmp_path, machine, master)
    agent.run()
    assert label(master.reports[0], "steady") == "1"
    assert (COUNTS["pass"], agent.busy_since) == (before + 2, None)


class ByNode(Machine):
    """The source `steady` has the labels of the configuration that `nvidia.com/device-plugin.config` chooses."""

    def __init__(self) -> None:
        super().__init__()
        first = replace(self.sources[0], for_node=self.for_node, labels=lambda features, config: {"value": config})
        self.sources = (first, *self.sources[1:])
        self.settings = WorkerSettings(Plan(self.sources, self.sources, dict.fromkeys(self.found)), interval=60.0)

    def for_node(self, host: Host, config: Section) -> str | None:
        return None if host.node_labels is None else host.node_labels.get(CHOICE, "default")


CHOICE = "nvidia.com/device-plugin.config"


def telling(choice: str) -> Callable[[Report], Reply]:
    return lambda report: Reply(0.0, {CHOICE: choice})


def test_no_label_that_a_node_label_chooses_before_the_master_has_replied(tmp_path: Path, signals: Signals) -> None:
    machine = ByNode()
    master = Master(signals, telling("a"), telling("b"))
    master.script.append(master.stop)
    agent_of(tmp_path, machine, master).run()
    first, second, third = master.reports
    assert (first.sources["steady"].state, label(first, "steady")) == (State.FAILED, None), "none is removed"
    assert first.sources["steady"].error == "the labels of the Node are not known yet"
    assert (second.sources["steady"].state, label(second, "steady")) == (State.FRESH, "a")
    assert label(third, "steady") == "b"
    assert machine.runs == {"steady": 1, "moving": 1, "failing": 1}, "nothing is scanned for it"


def test_memory_is_released_when_the_sources_that_wait_for_the_reply_have_run(
    tmp_path: Path, signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a first run needs, and later ones do not, is more than all else."""
    machine, released = Machine(), list[int]()
    machine.sources = (
        replace(machine.sources[0], paused=lambda host: "wait" * host.awaits_labels),
        *machine.sources[1:],
    )
    machine.settings = WorkerSettings(
        Plan(machine.sources, machine.sources, dict.fromkeys(machine.found)), interval=60.0
    )
    master = Master(signals, lambda report: Reply(0.0))
    master.script += [master.script[0], master.stop]
    monkeypatch.setattr("nfd.worker.agent.release", lambda: released.append(len(master.reports)))
    agent_of(tmp_path, machine, master).run()
    assert [label(one, "steady") for one in master.reports] == [None, "1", "1"]
    assert released == [2], "once"


def test_memory_is_not_released_while_the_node_labels_pause_a_source(
    tmp_path: Path, signals: Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, released = Machine(), list[int]()

    def paused(host: Host) -> str:
        return "wait" if host.awaits_labels or (host.node_labels or {}).get(CHOICE) == "pause" else ""

    sources = (replace(machine.sources[0], paused=paused), *machine.sources[1:])
    machine.settings = WorkerSettings(Plan(sources, sources, dict.fromkeys(machine.found)), interval=60.0)
    master = Master(signals, telling("pause"), telling("pause"), telling("go"), telling("go"))
    master.script.append(master.stop)
    monkeypatch.setattr("nfd.worker.agent.release", lambda: released.append(len(master.reports)))
    agent_of(tmp_path, machine, master).run()
    first = next(number for number, one in enumerate(master.reports, 1) if label(one, "steady") == "1")
    assert released == [first]


def test_a_master_that_says_nothing_of_the_node_leaves_the_default(tmp_path: Path, signals: Signals) -> None:
    master = Master(signals, take)
    assert agent_of(tmp_path, ByNode(), master).run_once()
    assert [label(one, "steady") for one in master.reports] == [None, "default"]


def test_without_reports_no_source_waits_for_the_node(tmp_path: Path, signals: Signals) -> None:
    settings, host = ByNode().settings, Host(tmp_path)
    Agent(host, "n1", replace(settings, publish=False), signals, take, lambda: settings, live=False)
    assert not discover(host, settings.plan).waiting
    Agent(host, "n1", settings, signals, take, lambda: settings, live=False)
    assert discover(host, settings.plan).waiting == {"steady"}
