"""Pure parts of the worker: what is worth a report, and when to speak."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.config.section import Section
from nfd.discovery import Discovery, Plan, Scan
from nfd.errors import ReportError
from nfd.features import Features
from nfd.report import State
from nfd.runtime.prometheus import render
from nfd.source import Source
from nfd.worker.metrics import Metrics
from nfd.worker.report_content import derive_content, derive_states, doubtful, matches, unused_patterns
from nfd.worker.schedule import BACK_OFF, HEARTBEAT_LIMITS, PERMANENT_WAIT, Pace


def source(name: str, *, rules: bool = False) -> Source:
    return Source(
        name, Section, lambda host, config: Features(), lambda features, config: {},
        load=(lambda host, config: config) if rules else None,
    )  # fmt: skip


PCI, USB, CUSTOM, FAKE = source("pci"), source("usb"), source("custom", rules=True), source("fake")
PLAN = Plan((PCI, USB), (PCI, USB, CUSTOM), dict.fromkeys(("pci", "usb", "custom", "fake")))


def test_states() -> None:
    """Off is what is neither read nor gives labels; whatever failed, in reading or labelling, is failed."""
    found = Discovery({"pci": Scan(), "usb": Scan(error="no")}, label_errors={"custom": "bad"})
    assert derive_states(PLAN, found) == {
        "custom": State.FAILED, "fake": State.OFF, "pci": State.FRESH, "usb": State.FAILED,
    }  # fmt: skip


def test_rules_are_doubtful_until_every_source_was_read_once() -> None:
    """A rule about a source that has not succeeded since the start may match later: none of its labels may go."""
    failing = Discovery({"pci": Scan(error="no", known=False), "usb": Scan()})
    assert doubtful(PLAN, failing) == {"custom": "rules lack the features of pci"}
    assert derive_states(PLAN, failing)["custom"] is State.FAILED
    stale = Discovery({"pci": Scan(error="no", known=True), "usb": Scan()})
    assert derive_states(PLAN, stale)["custom"] is State.FRESH


def test_unpublished_features_stay_here_and_do_not_count_as_news() -> None:
    found = Discovery(features=Features(attributes={"kernel.config": {"A": "y"}, "kernel.version": {"full": "6"}}))
    changed = Discovery(features=Features(attributes={"kernel.config": {"B": "y"}, "kernel.version": {"full": "6"}}))
    content = derive_content(PLAN, found, ["kernel.config"])
    assert content.features.names() == {"kernel.version"}
    assert content == derive_content(PLAN, changed, ["kernel.config"])
    assert derive_content(PLAN, found) != derive_content(PLAN, changed)


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("cpu.cpuid", "cpu.cpuid", True),
        ("cpu.cpuid", "cpu.*", True),
        ("cpu.cpuid", "*", True),
        ("cpu.cpuid", "cpu", False),
        ("cpu.cpuid", "*.cpuid", False),
        ("cpu.cpuid", "", False),
    ],
)
def test_patterns_of_no_publish_features(name: str, pattern: str, expected: bool) -> None:
    assert matches(name, pattern) is expected


def test_patterns_that_match_nothing_are_told() -> None:
    found = Discovery(features=Features(attributes={"kernel.config": {}}))
    assert unused_patterns(["kernel.*", "kernel.confg", "pci.*"], found) == ("kernel.confg", "pci.*")


def refusal(retry: bool = True, after: float | None = None) -> ReportError:
    return ReportError("no", retry=retry, retry_after=after)


def test_news_goes_at_once_and_beats_when_the_master_said() -> None:
    pace = Pace()
    assert pace.due(new=True) == pace.due(new=False) == 0
    pace.accepted(100.0, 300.0)
    assert pace.due(new=True) == 100.0
    assert 370 <= pace.due(new=False) <= 430


@given(st.floats())
def test_any_beat_is_bounded(beat: float) -> None:
    pace = Pace()
    pace.accepted(0.0, beat)
    assert HEARTBEAT_LIMITS[0] * 0.9 <= pace.due(new=False) <= HEARTBEAT_LIMITS[1] * 1.1


@given(st.integers(1, 100))
def test_back_off_grows_and_is_bounded(failures: int) -> None:
    pace = Pace()
    for _ in range(failures):
        wait = pace.failed(0.0, refusal())
    longest = min(BACK_OFF[0] * 2 ** (failures - 1), BACK_OFF[1])
    assert longest / 2 <= wait <= longest
    assert pace.due(new=True) == pace.due(new=False) == wait


@given(st.floats(allow_nan=True))
def test_what_the_master_asks_for_is_obeyed(after: float) -> None:
    """Never earlier, never all at once, and never for ever."""
    wait = Pace().failed(0.0, refusal(after=after))
    if math.isfinite(after):
        asked = min(max(after, 0.0), HEARTBEAT_LIMITS[1])
        assert asked <= wait <= asked * 1.2
    else:
        assert wait <= BACK_OFF[0]


def test_a_hopeless_report_waits_long_unless_it_becomes_another_one() -> None:
    pace = Pace()
    assert pace.failed(0.0, refusal(retry=False)) >= PERMANENT_WAIT * 0.9
    pace.changed(7.0)
    assert pace.due(new=True) == 7.0
    pace.failed(8.0, refusal(after=20.0))
    pace.changed(9.0)
    assert pace.due(new=True) >= 28.0, "an overloaded master is not asked sooner"
    pace.accepted(50.0, 60.0)
    assert (pace.failures, pace.hopeless) == (0, False)


def test_metrics() -> None:
    metrics = Metrics("1.0", "n1", 1000.0)
    metrics.scanned(Discovery({"pci": Scan(seconds=0.5), "usb": Scan(error="no")}), 0.03, full=True)
    metrics.scanned(metrics.found, 3.0, full=True)
    metrics.scanned(metrics.found, 1.0, full=False)
    text = render(metrics.families(5.0), openmetrics=True)
    for line in (
        'nfd_worker_build_info{version="1.0"} 1000.0',
        'nfd_worker_feature_discovery_duration_seconds_bucket{node="n1",le="0.025"} 0',
        'nfd_worker_feature_discovery_duration_seconds_bucket{node="n1",le="0.05"} 1',
        'nfd_worker_feature_discovery_duration_seconds_bucket{node="n1",le="1.0"} 1',
        'nfd_worker_feature_discovery_duration_seconds_bucket{node="n1",le="+Inf"} 2',
        'nfd_worker_feature_discovery_duration_seconds_sum{node="n1"} 3.03',
        'nfd_worker_feature_discovery_duration_seconds_count{node="n1"} 2',
        'nfd_worker_scans_total{kind="full"} 2',
        'nfd_worker_scans_total{kind="partial"} 1',
        'nfd_worker_source_scan_seconds{source="pci"} 0.5',
        'nfd_worker_source_failed{source="usb"} 1',
        "nfd_worker_reports_total 0",
    ):
        assert f"\n{line}\n" in text
    assert "last_report_age" not in text
    metrics.taken_at = 2.0
    assert "\nnfd_worker_last_report_age_seconds 3.0\n" in render(metrics.families(5.0), openmetrics=True)
