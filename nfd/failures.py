"""What the parts of a program did not foresee: each time is counted, and the first of a kind logged with its traceback.

A part that catches everything, so that it harms itself alone, tells it here. A program shows the counts among its
metrics, by the name of the part.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from nfd import log

COUNTS: Counter[str] = Counter()
"""Of this process, by part; those that can fail are there from their start on, with 0."""
_TOLD = 256
"""Kinds of failures that are remembered as told."""

_told: dict[tuple[str, str, str], None] = {}
_log = log.get("tasks")


def failed(task: str, error: BaseException, event: str = "failed unforeseen", /, **fields: object) -> None:
    """Count and log what `task` raised; the same from the same line again comes without a traceback."""
    COUNTS[task] += 1
    with suppress(Exception):  # there may be no memory for a line
        said = {"task": task, **fields, "error": f"{type(error).__name__}: {error}"}
        if _is_first(task, error):
            _log.exception(event, error, **said)
        else:
            _log.error(event, **said)


def _is_first(task: str, error: BaseException) -> bool:
    line = error.__traceback__
    while line is not None and line.tb_next is not None:
        line = line.tb_next
    kind = task, type(error).__name__, f"{line.tb_frame.f_code.co_filename}:{line.tb_lineno}" if line else ""
    if kind in _told:
        return False
    if len(_told) >= _TOLD:
        del _told[next(iter(_told))]
    _told[kind] = None
    return True
