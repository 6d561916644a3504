"""Says that something changed once it has stopped changing."""

from __future__ import annotations

from collections.abc import Hashable

LOOKS = 10
"""Changes in a row after which one that goes on is reported all the same."""


class Settling:
    """What something was when it was last looked at."""

    def __init__(self, value: Hashable) -> None:
        self._seen = value
        self._changes = 0

    @property
    def is_changing(self) -> bool:
        """Whether it had changed at the last look, which did not say so yet."""
        return self._changes > 0

    def look(self, value: Hashable) -> bool:
        """Whether it changed earlier and is the same as at the last look; true once for each change."""
        changed, self._seen = value != self._seen, value
        if changed and self._changes + 1 < LOOKS:
            self._changes += 1
            return False
        settled, self._changes = changed or self._changes > 0, 0
        return settled
