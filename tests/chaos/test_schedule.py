"""The seed alone decides what happens when, and all of it ends in time."""

from __future__ import annotations

import pytest

from tests.chaos.schedule import CHANGES, FAULTS, digest, make_schedule


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ten_minutes_have_everything_in_them(seed: int) -> None:
    events = make_schedule(seed, 600)
    assert {event.kind for event in events} == FAULTS.keys() | CHANGES.keys()
    assert all(event.at > 0 and event.at + event.seconds <= 600 for event in events)
    assert list(events) == sorted(events, key=lambda event: event.at)


def test_a_seed_gives_the_same_again_and_another_seed_another() -> None:
    digests = [digest(make_schedule(seed, 60)) for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]
