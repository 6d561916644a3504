"""Texts that identify something, and what stands in their place, wherever they are."""

from __future__ import annotations

import re
from functools import cache

from nfd.host.identifiers import Identifying

_SEGMENT = re.compile(r"[^\W_]+")
WORDS = frozenset(("enabled", "disabled", "supported", "default", "present", "absent", "auto", "on", "off"))
"""Values of fields with a secret's name that identify nothing."""
_SHORTEST = 4
_LONG_NUMBER = 8


class Replacements:
    """Texts and their replacements.

    `kept` are texts that stay although they look like others: namespaces of keys, and versions.
    """

    def __init__(self, identifying: Identifying) -> None:
        self._identifying = identifying
        self._found: dict[str, str] = {}
        self._lengths: dict[str, list[int]] = {}
        self._whole: set[str] = set()
        self.kept: set[str] = set()
        self.text = cache(self._text)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, kind: str, text: str) -> None:
        """Replace this text everywhere, unless it is too short to tell what it is."""
        text = _trimmed(text)
        if text in self._found or text in self.kept or not self._is_clear(kind, text):
            return
        self.put(text, self._identifying.fresh(kind, text))

    def put(self, text: str, fresh: str) -> None:
        """Replace this text by that one. One that is a single word without digits is replaced only if it stands
        alone."""
        if text == fresh:
            return
        self._found[text] = fresh
        segments = _SEGMENT.findall(text)
        if len(segments) == 1 and (len(text) <= _SHORTEST or text.isalpha() or text.isdigit()):
            self._whole.add(text)
        lengths = self._lengths.setdefault(segments[0] if segments else text, [])
        if len(text) not in lengths:
            lengths.append(len(text))
            lengths.sort(reverse=True)

    def alone(self, text: str) -> str:
        """The replacement of the value of a field that identifies."""
        for kind, part in self._identifying.parts(text, "serial"):
            text = text.replace(part, self._identifying.fresh(kind, part), 1)
        return text

    @staticmethod
    def _is_clear(kind: str, text: str) -> bool:
        if kind != "secret":
            return bool(text)
        if text.lower() in WORDS or len(text) < _SHORTEST:
            return False
        return not text.isdigit() or len(text) >= _LONG_NUMBER

    def _text(self, text: str) -> str:
        """The text with all of them replaced."""
        parts, at = [], 0
        for segment in _SEGMENT.finditer(text):
            if segment.start() < at:
                continue
            for length in self._lengths.get(segment[0], ()):
                end = segment.start() + length
                if (fresh := self._at(text, segment.start(), end)) is not None:
                    parts += [text[at : segment.start()], fresh]
                    at = end
                    break
        return "".join((*parts, text[at:]))

    def _at(self, text: str, start: int, end: int) -> str | None:
        known = text[start:end]
        if known not in self._found or text[end : end + 1].isalnum():
            return None
        if known in self._whole and (text[max(0, start - 1) : start] in _JOINS or text[end : end + 1] in _JOINS):
            return None
        return self._found[known]


_JOINS = frozenset("-_./")
"""What joins a word to others, so that both are one name."""


def _trimmed(text: str) -> str:
    found = [*_SEGMENT.finditer(text)]
    return text[found[0].start() : found[-1].end()] if found else ""
