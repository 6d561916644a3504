"""What the parts of a program did not foresee: each time is counted, and the first of a kind logged with its traceback.

A part that catches everything, so that it harms itself alone, tells it here. A program shows the counts among its
metrics, by the name of the part.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from contextlib import suppress

from nfd import log

COUNTS: Counter[str] = Counter({"http handler": 0})
"""Of this process, by part; each is there from its start on, with 0."""
REPEAT = 60.0
"""Seconds in which the same failure of the same thing is logged once."""
_KNOWN = 2_000
"""Failures that are remembered."""

_told: OrderedDict[tuple[object, ...], float] = OrderedDict()
_log = log.get("tasks")


def failed(task: str, error: BaseException, event: str = "failed unforeseen", /, **fields: object) -> None:
    """Count and log what `task` raised. `fields` say over what: over another thing it is another line.

    What comes from the same line of code again has no traceback.
    """
    COUNTS[task] += 1
    with suppress(Exception):  # there may be no memory for a line
        kind = task, event, type(error).__name__, _place(error)
        again = kind in _told
        if not again or _is_due((*kind, *map(str, fields.values()))):
            said = {"task": task, **fields, "error": f"{type(error).__name__}: {error}"}
            if again:
                _log.error(event, **said)
            else:
                _log.exception(event, error, **said)
        if not again:
            _remember(kind)
            _remember((*kind, *map(str, fields.values())))


def _is_due(kind: tuple[object, ...]) -> bool:
    if time.monotonic() - _told.get(kind, -REPEAT) < REPEAT:
        return False
    _remember(kind)
    return True


def _remember(kind: tuple[object, ...]) -> None:
    _told[kind] = time.monotonic()
    _told.move_to_end(kind)
    if len(_told) > _KNOWN:
        _told.popitem(last=False)


def _place(error: BaseException) -> str:
    """The line of code that raised it."""
    line = error.__traceback__
    while line is not None and line.tb_next is not None:
        line = line.tb_next
    return f"{line.tb_frame.f_code.co_filename}:{line.tb_lineno}" if line else ""
