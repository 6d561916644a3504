"""The queue of token reviews: few run at once, few bad ones a second, and whoever failed waits longer."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from nfd.errors import Forbidden, Unavailable
from nfd.kube.token_review_queue import LONGEST_WAIT, REMEMBERED, WAITING, ReviewQueue


async def ask(turns: ReviewQueue, order: list[str], *askers: str, bad: bool = False, seconds: float = 0.0) -> None:
    async with turns.turn(*askers):
        order.append(askers[-1])
        await asyncio.sleep(seconds)
        if bad:
            raise Forbidden("no")


def turns_of(at_once: int = 1, bad: float = 100.0) -> ReviewQueue:
    return ReviewQueue(at_once, bad, time.monotonic)


async def test_good_ones_go_as_fast_as_they_can() -> None:
    turns, order, began = turns_of(5, 1.0), [], time.monotonic()
    await asyncio.gather(*(ask(turns, order, "a") for _ in range(WAITING)))
    assert len(order) == WAITING
    assert time.monotonic() - began < LONGEST_WAIT


async def test_bad_ones_are_few_a_second_and_the_rest_is_turned_away() -> None:
    turns, order, began = turns_of(3, 30.0), [], time.monotonic()
    outcomes = await asyncio.gather(*(ask(turns, order, "a", bad=True) for _ in range(400)), return_exceptions=True)
    took = time.monotonic() - began
    kinds = Counter(type(one) for one in outcomes)
    assert kinds.keys() == {Forbidden, Unavailable}
    assert len(order) == kinds[Forbidden] <= 3 + 30 * (took + 0.1)
    assert took < LONGEST_WAIT + 1
    assert turns._waiting == []


async def test_who_failed_waits_for_who_did_not() -> None:
    """By the whole first, then by the part; of equals whoever came first."""
    turns, order = turns_of(), []
    for askers in (("bad host", "bad pod"), ("bad host", "bad pod"), ("other bad host", "pod")):
        with pytest.raises(Forbidden):
            await ask(turns, order, *askers, bad=True)
    order.clear()
    holds = asyncio.create_task(ask(turns, order, "x", seconds=0.2))
    await asyncio.sleep(0.05)
    custom = (
        ("bad host", "bad pod"),
        ("bad host", "fresh pod"),
        ("other bad host", "second"),
        ("good host", "first"),
        ("good host", "next"),
    )
    await asyncio.gather(holds, *(ask(turns, order, *one) for one in custom))
    assert order == ["x", "first", "next", "second", "fresh pod", "bad pod"]


async def test_who_was_turned_away_goes_first_when_it_comes_again() -> None:
    """A flood with a new name each time fills the places; whoever comes back with its own name goes before it."""
    turns, order = turns_of(1, 20.0), []
    flood = [asyncio.create_task(ask(turns, order, "host", f"made up {n}", bad=True)) for n in range(WAITING + 1)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await ask(turns, order, "host", "honest")
    asked = len(order)
    await ask(turns, order, "host", "honest")
    assert order[asked:] == ["honest"]
    outcomes = await asyncio.gather(*flood, return_exceptions=True)
    assert {type(one) for one in outcomes} == {Forbidden, Unavailable}


async def test_whoever_leaves_gives_its_turn_to_the_next() -> None:
    """At every moment of its waiting, however many there are."""
    turns, order = turns_of(2), []
    for delay in (0.0, 0.01, 0.02, 0.03):
        tasks = [asyncio.create_task(ask(turns, order, f"{n}", seconds=0.01)) for n in range(10)]
        await asyncio.sleep(delay)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0.1)  # whose turn ended badly by being cancelled
    assert (turns._free, turns._waiting) == (2, [])
    await asyncio.wait_for(asyncio.gather(*(ask(turns, order, "a") for _ in range(9))), 1)


async def test_memory_is_bounded() -> None:
    turns, order = turns_of(1, 1e9), []
    for number in range(REMEMBERED + 10):
        with pytest.raises(Forbidden):
            await ask(turns, order, "x" * 10_000 + str(number), f"{number}", bad=True)
    assert len(turns._counts) == REMEMBERED
    assert all(len(str(key)) <= 100 for key in turns._counts._values)
