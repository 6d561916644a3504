"""Which sources run."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from nfd import sources
from nfd.discovery import Plan, discover, make_plan
from tests.sources.hosts import make_host

DEFAULT = [source.name for source in sources.BUILT_IN if source.default]


@pytest.mark.parametrize(
    ("wanted", "chosen", "unknown"),
    [
        (["all"], DEFAULT, []),
        (["all", "fake"], sorted([*DEFAULT, "fake"]), []),
        (["all", "-usb", "-pci"], [name for name in DEFAULT if name not in ("usb", "pci")], []),
        (["-cpu", "all"], DEFAULT, []),
        (["usb", "cpu", "usb"], ["cpu", "usb"], []),
        (["memory", "nosuch", "-alsono", "network"], ["memory", "network"], ["nosuch", "alsono"]),
        (["ALL"], [], ["ALL"]),
        ([], [], []),
    ],
)
def test_entries_count_in_their_order(wanted: list[str], chosen: list[str], unknown: list[str]) -> None:
    found, odd = sources.select(wanted, sources.BUILT_IN)
    assert [source.name for source in found] == chosen
    assert list(odd) == unknown


def test_the_built_in_sources_are_sorted_and_fit_their_names() -> None:
    names = [source.name for source in sources.BUILT_IN]
    assert names == sorted(names)
    assert {source.name: source.priority for source in sources.BUILT_IN if source.priority} == {
        "custom": 10,
        "local": 20,
    }


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module:SOURCE", "ModuleNotFoundError"),
        ("nfd.names:NO_SUCH", "AttributeError"),
        ("nfd.names:MAX_NAME", "is no nfd.source.Source"),
        ("nfd.sources.pci:SOURCE", "names its source 'pci'"),
    ],
)
def test_a_broken_plug_in_is_a_source_that_fails(tmp_path: Path, value: str, reason: str) -> None:
    source = sources.load(EntryPoint("thing", value, sources.GROUP))
    assert source.name == "thing"
    found = discover(make_host(tmp_path, {}), Plan((source,), (source,), {"thing": source.config()}))
    assert reason in found.failed["thing"]
    assert found.lost == {"thing"}


@pytest.mark.parametrize(
    ("features", "labels", "pointless"),
    [
        (["memory", "nosuch"], ["memory", "-alsono"], ""),
        (["nosuch"], ["all"], "core.featureSources"),
        (["all"], ["kernal", "-alsono"], "core.labelSources"),
        ([], [], ""),
        (["all"], ["cpu", "-cpu"], ""),
    ],
)
def test_a_plan_passes_over_what_nobody_knows(features: list[str], labels: list[str], pointless: str) -> None:
    plan = make_plan(features, labels, sources.section()())
    assert plan.pointless == pointless
    assert [one.name for one in plan.feature_sources] == [
        one for one in features if one == "memory"
    ] or "all" in features


@pytest.mark.parametrize("entry", ["all", "cpu", "-cpu", "fake", "-all", "kernal", "-kernal", "", "CPU"])
def test_an_entry_has_a_problem_where_it_selects_nothing(entry: str) -> None:
    _, odd = sources.select([entry], sources.known())
    assert bool(odd) == bool(sources.entry_problem(entry))


def test_every_source_has_a_section_of_its_own() -> None:
    fields = sources.section().model_fields
    assert {source.name for source in sources.known()} == set(fields)
    assert sources.section()().model_dump()["pci"]["device_class_whitelist"] == ("03", "0b40", "12")
