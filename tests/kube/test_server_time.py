"""The API server's clock as its answers show it, whatever the local clock says."""

from __future__ import annotations

import pytest

from nfd.kube.server_time import ServerTime

DATE, SECONDS = "Fri, 15 Jan 2027 08:00:00 GMT", 1_800_000_000.0


def test_it_goes_on_from_the_last_answer_and_ignores_the_local_clock() -> None:
    local, monotonic = [5.0], [100.0]
    time = ServerTime(lambda: local[0], lambda: monotonic[0])
    assert time.now() == 5.0
    time.note(DATE)
    local[0], monotonic[0] = 9e9, 130.0
    assert time.now() == SECONDS + 30
    time.note(DATE)
    assert time.now() == SECONDS + 30
    time.note(DATE.replace("08:00", "07:00"))
    assert time.now() == SECONDS - 3600


def test_an_answer_that_took_long_does_not_set_it_back() -> None:
    monotonic = [100.0]
    time = ServerTime(lambda: 5.0, lambda: monotonic[0])
    time.note(DATE)
    monotonic[0] = 130.0
    time.note(DATE.replace("08:00:00", "08:00:05"))
    assert time.now() == SECONDS + 30
    time.note(DATE.replace("08:00:00", "08:00:31"))
    assert time.now() == SECONDS + 31


@pytest.mark.parametrize(
    "date", ["", "soon", "Fri, 15 Jan 20270 08:00:00 GMT", "Fri, 99 Jan 2027 08:00:00 GMT", "\x00"]
)
def test_a_malformed_date_changes_nothing(date: str) -> None:
    time = ServerTime(lambda: 5.0, lambda: 100.0)
    time.note(date)
    assert time.now() == 5.0
    time.note(DATE)
    time.note(date)
    assert time.now() == SECONDS
