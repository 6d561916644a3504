"""The check finds every way past `nfd.runtime.tasks` and `nfd.runtime.threads`, and the packages have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unsupervised import findings, unsupervised


@pytest.mark.parametrize(
    "text",
    [
        "asyncio.create_task(work())",
        "self._tasks = [asyncio.create_task(one) for one in works]",
        "asyncio.get_running_loop().create_task(work())",
        "asyncio.ensure_future(work())",
        "async def f():\n    async with asyncio.TaskGroup() as group:\n        group.start_soon(work)",
        "group.create_task(work())",
        "from asyncio import create_task\ncreate_task(work())",
        "from asyncio import run",
        "import asyncio as aio",
        "import threading as t",
        "asyncio.run(main())",
        "asyncio.gather(one(), other())",
        "asyncio.Runner()",
        "asyncio.new_event_loop()",
        "asyncio.run_coroutine_threadsafe(work(), loop)",
        "loop.run_in_executor(None, work)",
        "loop.set_exception_handler(None)",
        "loop.add_signal_handler(15, stop.set)",
        "asyncio.wait_for(work(), 1)",
        "threading.Thread(target=work).start()",
        "Thread(target=work)",
        "threading.Timer(1, work)",
        "class Mine(threading.Thread):\n    pass",
        "_thread.start_new_thread(work, ())",
        "with ThreadPoolExecutor() as pool:\n    pool.submit(work)",
        "concurrent.futures.ProcessPoolExecutor()",
    ],
)
def test_ways_past_supervision(text: str) -> None:
    assert list(findings(text))


@pytest.mark.parametrize(
    "text",
    [
        "tasks.start('chores', self._periodic_tasks)",
        "thread: threading.Thread | None = None",
        "await asyncio.sleep(1)",
        "command.run(args)",
        "gather(host, parts)",
        "await asyncio.to_thread(read)",
    ],
)
def test_what_may_be(text: str) -> None:
    assert not list(findings(text))


def test_there_is_none() -> None:
    assert list(unsupervised(Path(__file__).parents[1])) == []
