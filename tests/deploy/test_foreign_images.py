"""The images of the other architecture: built from the same Dockerfiles, by this one's programs alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy import contents
from tests.deploy.images import FOREIGN, OWN, Images, size_of
from tests.deploy.test_images import BUDGETS

PROGRAMS = tuple(BUDGETS) if os.environ.get("NFD_VM") else ("nfd-worker",)
"""`make vm` takes them all; they differ in what pip is told to install."""


@dataclass(frozen=True)
class Pair:
    """Names of an image for this architecture and for the other, and their files."""

    names: tuple[str, str]
    own: Path
    foreign: Path


@pytest.fixture(scope="module", params=PROGRAMS)
def pair(request: pytest.FixtureRequest, store: Images) -> Iterator[Pair]:
    names = (store.build(request.param, OWN), store.build(request.param, FOREIGN))
    with ExitStack() as stack:
        yield Pair(names, *(stack.enter_context(store.mounted(name)) for name in names))


def test_configuration(store: Images, pair: Pair) -> None:
    own, foreign = map(store.inspect, pair.names)
    assert (own["architecture"], foreign["architecture"]) == (OWN, FOREIGN)
    assert own["config"] == foreign["config"]


def test_machine_code(pair: Pair) -> None:
    """Of the base too."""
    found = contents.machine_code(pair.foreign)
    assert {path for path, machine in found.items() if machine != contents.MACHINES[FOREIGN]} == set()
    assert any("_pydantic_core" in path for path in found)


def test_contents(pair: Pair) -> None:
    """The same distributions in the same versions, file for file."""
    assert contents.distributions(pair.foreign) == contents.distributions(pair.own) == contents.bill(pair.foreign)
    assert contents.files(pair.foreign) == contents.files(pair.own)
    for name in ("pyvenv.cfg", "sbom.cdx.json", "bin/nfd-worker"):
        assert (pair.foreign / "opt/nfd" / name).read_bytes() == (pair.own / "opt/nfd" / name).read_bytes()


def test_byte_code_is_compiled_in(pair: Pair) -> None:
    assert contents.uncompiled(pair.foreign) == []
    assert contents.uncompiled_of_python(pair.foreign) == []


def test_size(pair: Pair) -> None:
    assert size_of(pair.foreign / "opt") < BUDGETS[pair.names[0].rpartition("/")[2]]
