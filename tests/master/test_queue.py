"""The queue of nodes beside a list of what was asked for."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from nfd.master.node.queue import Queue

NAMES = st.sampled_from("abcde")
STEPS = st.lists(
    st.one_of(st.tuples(st.sampled_from(("add", "news")), NAMES), st.just(("take", "")), st.just(("done", "")))
)


@given(STEPS)
async def test_news_first_each_once_and_never_twice_at_a_time(steps: list[tuple[str, str]]) -> None:
    queue, waiting, again, busy = Queue(), list[tuple[bool, str]](), dict[str, bool](), list[str]()

    def add(name: str, news: bool) -> None:
        if name in busy:
            again[name] = news or again.get(name, False)
        elif (True, name) not in waiting and (news or (False, name) not in waiting):
            if (False, name) in waiting:
                waiting.remove((False, name))
            waiting.append((news, name))

    for step, name in steps:
        if step in ("add", "news"):
            add(name, step == "news")
            queue.add(name, urgent=step == "news")
        elif step == "take" and waiting:
            waiting.sort(key=lambda one: not one[0])
            _, expected = waiting.pop(0)
            assert await asyncio.wait_for(queue.take(), 30) == expected
            busy.append(expected)
        elif step == "done" and busy:
            name = busy.pop(0)
            queue.done(name)
            if (news := again.pop(name, None)) is not None:
                add(name, news)
        assert len(queue) == len(waiting) + len(again)
        assert queue.urgent == sum(news for news, _ in waiting)
        assert queue._idle.is_set() == (not waiting and not busy)


async def test_what_is_urgent_later_is_taken_first() -> None:
    """The earlier time and the urgency stay, in whatever order they come."""
    for calls in (((0.01, False), (5.0, True)), ((5.0, True), (0.01, False))):
        queue = Queue()
        for seconds, urgent in calls:
            queue.add_later("late", seconds, urgent=urgent)
        for name in "abc":
            queue.add(name)
        while len(queue) < 4:
            await asyncio.sleep(0.001)
        assert await asyncio.wait_for(queue.take(), 30) == "late"
        queue.close()
