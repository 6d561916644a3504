"""Garbage collection in which something happens."""

from __future__ import annotations

import gc
from collections.abc import Callable


def collect(during: Callable[[], None]) -> None:
    """Collect garbage, and call that in a callback at the beginning."""

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            during()

    gc.callbacks.append(collected)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(collected)
