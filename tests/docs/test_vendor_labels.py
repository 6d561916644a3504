"""docs/vendor-labels.md: every difference from a vendor's tool has a reason, and no reason is left over."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.docs.vendor_labels import NAME, load, page, rows

CAPTURES = 10
MACHINES = [(tool, machine) for tool in load() for machine in tool["machines"]]


def test_the_page_is_up_to_date() -> None:
    assert (Path(__file__).parents[2] / NAME).read_text() == page()


def test_every_capture_is_compared() -> None:
    captured = {machine for _, machine in MACHINES if not machine.startswith("made-")}
    assert len(captured) >= CAPTURES


@pytest.mark.parametrize(
    ("tool", "machine"), [pytest.param(*one, id=f"{one[0]['tool'][:9]}-{one[1]}") for one in MACHINES]
)
def test_each_difference_has_a_reason(tool: dict[str, object], machine: str) -> None:
    found = list(rows(tool, machine))
    assert found
    assert [key for key, theirs, mine, why in found if theirs != mine and not why] == []


def test_no_reason_is_left_over() -> None:
    for tool in load():
        differing = {
            key for machine in tool["machines"] for key, theirs, mine, _ in rows(tool, machine) if theirs != mine
        }
        for pattern in tool.get("why", {}):
            assert any(fnmatchcase(key, pattern) for key in differing), pattern
        for machine, reasons in tool.get("differs", {}).items():
            here = {key for key, theirs, mine, _ in rows(tool, machine) if theirs != mine}
            assert reasons.keys() <= here
