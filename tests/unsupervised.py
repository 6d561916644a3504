"""Finds tasks, threads and event loops that are not started by `nfd.runtime.tasks` and `nfd.runtime.threads`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

STARTERS = ("nfd/runtime/tasks.py", "nfd/runtime/threads.py")
"""The files that may."""
_TASK = "a task is started with nfd.runtime.tasks: start, ask, first_of"
_THREAD = "a thread is started with nfd.runtime.threads.start_thread"
_LOOP = "an event loop is run with nfd.runtime.tasks: run, serve"
_LIMIT = "asyncio.wait_for forgets a cancellation (Python issue 86296): use asyncio.timeout"
FORBIDDEN = {
    **dict.fromkeys(("create_task", "ensure_future", "TaskGroup", "run_coroutine_threadsafe"), _TASK),
    **dict.fromkeys(("Thread", "Timer", "start_new_thread", "run_in_executor"), _THREAD),
    **dict.fromkeys(("ThreadPoolExecutor", "ProcessPoolExecutor"), _THREAD),
    **dict.fromkeys(("new_event_loop", "Runner", "set_exception_handler", "add_signal_handler"), _LOOP),
    "wait_for": _LIMIT,
}
"""Whatever they are called on."""
OF_ASYNCIO = {"run": _LOOP, "gather": _TASK}
"""Words that mean something else elsewhere."""


def unsupervised(root: Path) -> Iterator[str]:
    """`FILE:LINE: what to do instead`, for the packages below `root`."""
    for package in ("nfd", "gfd"):
        for path in sorted((root / package).rglob("*.py")):
            name = str(path.relative_to(root))
            if name not in STARTERS:
                for line, advice in findings(path.read_text()):
                    yield f"{name}:{line}: {advice}"


def findings(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a module that start something on their own, each with what to do instead."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and (advice := _called(node.func)):
            yield node.lineno, advice
        elif isinstance(node, ast.ClassDef):
            yield from ((node.lineno, advice) for base in node.bases if (advice := _called(base)))
        elif isinstance(node, ast.ImportFrom) and node.module == "asyncio":
            yield from ((node.lineno, OF_ASYNCIO[one.name]) for one in node.names if one.name in OF_ASYNCIO)
        elif isinstance(node, ast.Import):
            renamed = (one for one in node.names if one.name in ("asyncio", "threading") and one.asname)
            yield from ((node.lineno, f"{one.name} keeps its name, for this check") for one in renamed)


def _called(function: ast.expr) -> str:
    """What to do instead of calling that; "" if it may be."""
    if isinstance(function, ast.Name):
        return FORBIDDEN.get(function.id, "")
    if not isinstance(function, ast.Attribute):
        return ""
    if isinstance(function.value, ast.Name) and function.value.id == "asyncio" and function.attr in OF_ASYNCIO:
        return OF_ASYNCIO[function.attr]
    return FORBIDDEN.get(function.attr, "")
