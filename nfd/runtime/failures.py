"""Unexpected exceptions of the parts of a program: each is counted, and the first of a kind is logged with its
traceback.

A part that catches every exception, so that only it is affected, reports it here. The counts are metrics, by the name
of the part.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress

from nfd.runtime import log
from nfd.runtime.cache import LruCache

COUNTS: Counter[str] = Counter({"http handler": 0})
"""Of this process, by part; each is there from its start on, with 0."""
REPEAT = 60.0
"""Seconds in which the same failure of the same thing is logged once."""
_KNOWN = 2_000
"""Failures that are remembered."""

_logged = LruCache[tuple[object, ...], float](_KNOWN)
_log = log.get("tasks")


def failed(task: str, error: BaseException, event: str = "unexpected error", /, **fields: object) -> None:
    """Count and log what `task` raised. `fields` say over what: over another thing it is another line.

    What comes from the same line of code again has no traceback.
    """
    COUNTS[task] += 1
    with suppress(Exception):  # there may be no memory for a line
        kind = task, event, type(error).__name__, _place(error)
        about, now = (*kind, *map(str, fields.values())), time.monotonic()
        first = _logged.get(kind) is None
        if not first and now - (_logged.get(about) or -REPEAT) < REPEAT:
            return
        _logged.put(kind, now)
        _logged.put(about, now)
        said = {"task": task, **fields, "error": f"{type(error).__name__}: {error}"}
        if first:
            _log.exception(event, error, **said)
        else:
            _log.error(event, **said)


def _place(error: BaseException) -> str:
    """The line of code that raised it."""
    line = error.__traceback__
    while line is not None and line.tb_next is not None:
        line = line.tb_next
    return f"{line.tb_frame.f_code.co_filename}:{line.tb_lineno}" if line else ""
