"""Garbage collection: the CPU time that it takes, and where it would swallow an exception."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

_CALLBACKS = ("weakref", "_weakrefset")
"""Modules whose functions Python calls when an object is gone."""


class _Collection(threading.local):
    """One thread's."""

    running = False
    began = 0.0
    seconds = 0.0


_collection = _Collection()


def _note(phase: str, _: Mapping[str, Any]) -> None:
    if phase == "start":
        _collection.running, _collection.began = True, time.thread_time()
    else:
        _collection.seconds += time.thread_time() - _collection.began
        _collection.running = False


def collection_seconds() -> float:
    """CPU time that the calling thread has spent on the search for unreachable objects."""
    return _collection.seconds


def loses_exceptions(frame: FrameType | None) -> bool:
    """Whether Python ignores an exception that is raised there: in what it calls when objects are gone, and in
    callbacks of the garbage collection (Python documentation, sys.unraisablehook)."""
    if _collection.running:
        return True
    callbacks = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__")
        if code in callbacks or code.co_name == "__del__" or module in _CALLBACKS:
            return True
        frame = frame.f_back
    return False


gc.callbacks.append(_note)
