"""docs/migrating.md names every flag, key and value of NFD's and GFD's that there is, and none that is not accepted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import helm_python
import pytest

from gfd.cli import run as run_gfd
from nfd.config.load import load
from nfd.config.overlay import Layer
from nfd.config.section import Section
from nfd.master.cli import main as master
from nfd.master.config import Config as MasterConfig
from nfd.worker.cli import main as worker
from nfd.worker.config import model
from tests.deploy.rendering import CHART
from tests.deploy.test_values import BLOCKS, COMMON, TOP

PAGE = (Path(__file__).parents[2] / "docs/migrating.md").read_text()
CODE = re.compile(r"`([^`]+)`")


def cells(section: str) -> list[str]:
    """The first column of the table below a heading."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    return rows[2:]


def named(section: str) -> list[str]:
    return [name for cell in cells(section) for name in CODE.findall(cell)]


PROGRAMS: list[tuple[str, Callable[[list[str]], int]]] = [
    ("nfd-worker: flags", worker),
    ("nfd-master: flags", master),
    ("gpu-feature-discovery", lambda words: run_gfd(words, {})),
]


@pytest.mark.parametrize(("section", "program"), PROGRAMS, ids=[one[0] for one in PROGRAMS])
def test_flags_are_accepted(
    section: str, program: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [name for name in named(section) if name.startswith("-")]
    assert len(flags) > 15
    for flag in flags:
        assert program([f"{flag}=true", "--version"]) == 0, (flag, capsys.readouterr().err)
    assert program(["--no-such-flag=1", "--version"]) == 2


def test_keys_are_known() -> None:
    keys = named("Configuration files")
    assert len(keys) > 20
    for key in keys:
        path = key.split(".")
        shape: type[Section] = model() if path[0] in ("core", "sources") else MasterConfig
        assert not list(unknown(shape, path)), key


def unknown(shape: type[Section], path: list[str]) -> Iterator[str]:
    """What loading a file with that key alone says of keys that nobody knows."""
    value: Any = None
    for part in reversed(path):
        value = {part: value}
    loaded = load(shape, [Layer("file", value)])
    yield from (str(one) for one in loaded.findings if one.reason == "unknown key")


def test_an_unknown_key_would_be_told() -> None:
    assert list(unknown(model(), ["core", "nonsense"]))
    assert list(unknown(MasterConfig, ["nonsense"]))


def test_values_are_accepted() -> None:
    """A value that the chart does not know is an error of its schema."""
    for name in value_names():
        assert accepts(name), name
    assert not accepts("nonsense")


def value_names() -> list[str]:
    """Those of every component stand for the master's."""
    found = []
    for name in named("Helm values"):
        own = name.partition(".")[0]
        found.append(name if own in (*BLOCKS, *TOP, "image", "enableNodeFeatureApi") else f"master.{name}")
    return found


def accepts(name: str) -> bool:
    value: Any = None
    for part in reversed(name.split(".")):
        value = {part: value}
    with helm_python.Chart.load(CHART) as chart:
        try:
            chart.validate_schema(value)
        except helm_python.HelmError as error:
            return "additional propert" not in str(error).lower()
    return True


def test_every_value_of_the_chart_is_named() -> None:
    """Those that tests/deploy/test_values.py sets, which are all of NFD's."""
    names = set(named("Helm values"))
    nested = {key: value for key, value in TOP.items() if isinstance(value, dict) and key != "featureGates"}
    wanted = {key for key in TOP if key not in nested}
    wanted |= {f"{key}.{inner}" for key, value in nested.items() for inner in value}
    everywhere = {*COMMON, "metricsPort", "healthPort"}
    wanted |= {f"{block}.{key}" for block, values in BLOCKS.items() for key in values if key not in everywhere}
    wanted |= everywhere - {"port"} | {"master.port", "worker.port"}
    assert wanted - names == set()
