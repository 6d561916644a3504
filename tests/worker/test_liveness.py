"""How long a scan may take before `/healthz` says that the worker is stuck: as long as each of its sources may."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from nfd.config.section import Section
from nfd.discovery import Plan
from nfd.errors import Overdue
from nfd.features import Features
from nfd.host import Host
from nfd.report import Reply
from nfd.runtime.probes import STUCK, alive_answer
from nfd.runtime.signals import Signals
from nfd.runtime.threads import Limits
from nfd.source import Source
from nfd.worker.agent import Agent, WorkerSettings


def test_what_has_a_time_limit_is_told_when_it_begins_and_when_it_is_over() -> None:
    told: list[float] = []
    limits = Limits(allowed=told.append)
    assert limits.run("quick", 30.0, lambda: 1) == 1
    go = threading.Event()
    for _ in range(2):
        with pytest.raises(Overdue):
            limits.run("hangs", 0.05, lambda: go.wait(10))
    go.set()
    assert told == [30.0, 0.0, 0.05, 0.0]


def test_a_worker_is_alive_while_each_source_is_within_its_time(tmp_path: Path, signals: Signals) -> None:
    """Also where all of them together take longer than a pass may, and where one alone does."""
    left: dict[str, float] = {}

    def source(name: str, seconds: float) -> Source:
        def discover(host: Host, config: Section) -> Features:
            assert agent.busy_since is not None
            left[name] = agent.busy_since + STUCK - time.monotonic()
            assert alive_answer(agent.busy_since).status == 200
            return Features()

        return Source(name, Section, discover, lambda features, config: {}, seconds=seconds)

    wanted = {"a": 30.0, "b": 2 * STUCK, "c": 30.0}
    plan = Plan(tuple(source(*one) for one in wanted.items()), (), dict.fromkeys(wanted))
    settings = WorkerSettings(plan, publish=False)
    agent = Agent(Host(tmp_path), "n1", settings, signals, lambda report: Reply(60.0), lambda: settings, live=False)
    assert agent.run_once()
    assert left == {name: pytest.approx(STUCK + seconds, abs=20) for name, seconds in wanted.items()}
    assert agent.busy_since is None
