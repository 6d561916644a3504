"""What is broken, how, and who has to notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Guard:
    """In `file` the only occurrence of `text` becomes `broken`; then `test` must fail."""

    file: str
    text: str
    broken: str
    test: str
