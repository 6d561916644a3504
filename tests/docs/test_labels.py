"""docs/labels.md is complete: a row covers each label that recorded machines and conformance cases have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nfd.names import FEATURE_NS
from tests.docs.labels import NVIDIA, Row, rows, told
from tests.gfd.cases import OURS, load_cases

TESTS = Path(__file__).parents[1]
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def specific() -> list[Row]:
    return [row for row in rows() if not row.is_anything and "fake-<" not in row.key]


def covered(key: str) -> bool:
    return any(row.covers(key) for row in specific())


def of_recordings() -> Iterator[str]:
    for file in sorted(TESTS.glob("hosts/*/expected/labels.txt")):
        yield from (line.partition("=")[0] for line in file.read_text().splitlines())


def test_labels_of_recorded_machines() -> None:
    found = set(of_recordings())
    assert len(found) > 150
    assert {key for key in found if not covered(key)} == set()


def test_labels_of_gpu_cases() -> None:
    keys = {key for case in load_cases().values() for key in _expected(case)}
    assert len(keys) > 60
    assert {key for key in keys if not covered(key)} == set()


def _expected(case: Any) -> Iterator[str]:
    expect = case.get("expect") or {}
    yield from (key for key in expect if key.startswith("nvidia.com/"))


def test_labels_of_host_cases() -> None:
    """What no row covers comes from the case's own rules and feature files, in which its name stands."""
    names = {file: yaml.load(file.read_bytes(), LOADER) for file in sorted(TESTS.glob("cases/hosts/*.yaml"))}
    assert len(names) > 100
    for file, case in names.items():
        raw = (bytes.fromhex(one).decode("latin-1") for one in (case.get("binary") or {}).values())
        text = "\n".join([file.read_text().partition("\nexpect:")[0], *raw])
        for key in (case.get("expect") or {}).get("labels") or {}:
            if not covered(key):
                name = key.removeprefix(f"{FEATURE_NS}/").rpartition("/")[2]
                assert is_written(name, text), f"{file.name}: {key}"


def is_written(name: str, text: str) -> bool:
    """The name, or its beginning before what a template or a cleaned character makes of it."""
    return any(
        part and part in text for part in (name, name.rstrip("0123456789"), name.split("_")[0], name.split("-")[0])
    )


def test_every_row_is_made_by_somebody() -> None:
    """By a recorded machine or a case; those are NFD's and GFD's, which lack what is ours alone.

    Labels of accelerators have tests of their own (tests/sources/test_accelerator.py, test_amd.py, test_intel.py).
    """
    keys = set(of_recordings()) | {key for case in load_cases().values() for key in _expected(case)}
    for file in TESTS.glob("cases/hosts/*.yaml"):
        expect = yaml.load(file.read_bytes(), LOADER).get("expect") or {}
        keys |= {*(expect.get("labels") or {}), *(expect.get("contains") or {})}
    asked = [row for row in specific() if row.source not in ("accelerator", "amd", "intel")]
    unused = {row.key for row in asked if not any(row.covers(key) for key in keys)}
    assert {key for key in unused if not OURS.fullmatch(key)} == set()


def test_a_docstring_that_is_not_of_the_form_is_told() -> None:
    def labels() -> None:
        """X.

        Labels:
            no form
        """

    with pytest.raises(AssertionError, match="not of the form"):
        list(told(labels, NVIDIA, ""))


def test_a_line_that_is_indented_deeper_continues_the_row() -> None:
    def labels() -> None:
        """X.

        Labels:
            state = a, b:
                what is wrong
            mode = text: one thing,
                or another
        """

    assert [(row.key, row.about) for row in told(labels, NVIDIA, "")] == [
        ("state", "what is wrong"),
        ("mode", "one thing, or another"),
    ]
