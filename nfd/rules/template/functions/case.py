"""Functions on the case of letters; upstream: Go strings, Masterminds/goutils, huandu/xstrings."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from nfd.rules.scalars import SPACE
from nfd.rules.template.function_calls import function

_CJK = ("\u3400", "\u4d85"), ("\u4e00", "\u9fcc"), ("\U00020000", "\U0002b81d")


def _is_upper(char: str) -> bool:
    """A capital letter; `Ⅳ` and `Ⓐ` are none to Go, though they have small ones."""
    return unicodedata.category(char) == "Lu"


def _is_letter(char: str) -> bool:
    """A letter of an alphabet, which Chinese characters are not."""
    return char.isalpha() and not any(low <= char <= high for low, high in _CJK)


def _upper(char: str) -> str:
    mapped = char.upper()
    return mapped if len(mapped) == 1 else char


def _lower(char: str) -> str:
    mapped = char.lower()
    return mapped if len(mapped) == 1 else mapped[0]


def _title(char: str) -> str:
    mapped = char.title()
    return mapped if len(mapped) == 1 else char


@function("upper", "string", letters=8)
def upper(text: str) -> str:
    """One letter at a time: `ß` stays."""
    return text.upper() if text.isascii() else "".join(map(_upper, text))


@function("lower", "string", letters=8)
def lower(text: str) -> str:
    return text.lower() if text.isascii() else "".join(map(_lower, text))


@function("title", "string", letters=16)
def title(text: str) -> str:
    """The first letter of every word in title case, the others as they are."""
    previous = " "
    out = []
    for char in text:
        out.append(_title(char) if _separates(previous) else char)
        previous = char
    return "".join(out)


def _separates(char: str) -> bool:
    if char.isascii():
        return not (char.isalnum() or char == "_")
    return not (char.isalpha() or char.isdecimal()) and char in SPACE


@function("untitle", "string", letters=8)
def untitle(text: str) -> str:
    """The first letter of every word in lower case."""
    return "".join(
        _lower(char) if char not in SPACE and (not index or text[index - 1] in SPACE) else char
        for index, char in enumerate(text)
    )


@function("swapcase", "string", letters=4)
def swapcase(text: str) -> str:
    out = []
    at_start = True
    for char in text:
        if _is_upper(char) or unicodedata.category(char) == "Lt":
            out.append(_lower(char))
            at_start = False
        elif unicodedata.category(char) == "Ll":
            out.append(_title(char) if at_start else _upper(char))
            at_start = False
        else:
            out.append(char)
            at_start = char in SPACE
    return "".join(out)


def _connects(char: str) -> bool:
    return char in "-_" or char in SPACE


@function("camelcase", "string", letters=8)
def camelcase(text: str) -> str:
    """`http_server` → `HttpServer`; leading connectors stay."""
    start = 0
    while start < len(text) and _connects(text[start]):
        start += 1
    head, rest = text[:start], text[start:]
    if not rest:
        return text + text[-1:]
    if len(rest) == 1:
        return head + _upper(rest)
    shouting = _is_upper(rest[0])
    current = _upper(rest[0])
    out = []
    for char in rest[1:]:
        previous, current = current, char
        if _connects(current) and _connects(previous):
            out.append(previous)
        elif _connects(previous):
            shouting = _is_upper(current)
            current = _upper(current)
        else:
            if shouting and _is_upper(current):
                current = _lower(current)
            elif shouting:
                shouting = False
            out.append(previous)
    return f"{head}{''.join(out)}{current}"


@function("snakecase", "string", letters=1)
def snakecase(text: str) -> str:
    """`FirstName` → `first_name`, `HTTP2xx` → `http_2xx`."""
    return _Joiner(text, "_").run()


@function("kebabcase", "string", letters=1)
def kebabcase(text: str) -> str:
    return _Joiner(text, "-").run()


_NUMBER, _UPPER, _LETTERS, _CONNECTOR, _PUNCTUATION, _OTHER, _NONE = range(7)
"""Kinds of words."""


def _is_punctuation(char: str) -> bool:
    return unicodedata.category(char).startswith("P")


def _is_number(char: str) -> bool:
    return unicodedata.category(char).startswith("N")


def _run(text: str, pos: int, test: Callable[[str], bool]) -> int:
    while pos < len(text) and test(text[pos]):
        pos += 1
    return pos


def _next_word(text: str, pos: int) -> tuple[int, int]:
    """The kind of the word at a place and where it ends."""
    if pos >= len(text):
        return _NONE, pos
    char = text[pos]
    if _connects(char):
        return _CONNECTOR, _run(text, pos, _connects)
    if _is_punctuation(char):
        return _PUNCTUATION, _run(text, pos, _is_punctuation)
    if _is_upper(char):
        return _UPPER, _upper_end(text, pos + 1)
    if _is_letter(char):
        return _LETTERS, _run(text, pos, _is_lower_letter)
    if _is_number(char):
        return _NUMBER, _run(text, pos, _is_number)
    return _OTHER, _run(text, pos + 1, _is_other)


def _is_lower_letter(char: str) -> bool:
    return _is_letter(char) and not _is_upper(char)


def _is_other(char: str) -> bool:
    return not (_connects(char) or _is_letter(char) or _is_number(char) or _is_punctuation(char))


def _upper_end(text: str, pos: int) -> int:
    if pos < len(text) and _is_upper(text[pos]):
        end = _run(text, pos, _is_upper)
        return end - 1 if end < len(text) and _is_letter(text[end]) else end
    return _run(text, pos, _is_lower_letter)


class _Joiner:
    """Walks over the words of a text, puts them in small letters and the connector between them."""

    def __init__(self, text: str, connector: str) -> None:
        self._text = text
        self._connector = connector
        self._out: list[str] = []
        self._kind, self._start, self._end = _NONE, 0, 0

    def run(self) -> str:
        self._advance()
        while self._end < len(self._text):
            kind, start, end = self._kind, self._start, self._end
            if kind != _CONNECTOR:
                self._add(kind, start, end)
            self._advance()
            if kind == _NUMBER:
                self._add_letters_and_numbers()
                self._connect()
            elif kind == _CONNECTOR:
                self._add(kind, start, end)
            elif kind != _PUNCTUATION:
                self._after_word()
        self._add(self._kind, self._start, self._end)
        return "".join(self._out)

    def _advance(self) -> None:
        self._start = self._end
        self._kind, self._end = _next_word(self._text, self._end)

    def _add(self, kind: int, start: int, end: int) -> None:
        word = self._text[start:end]
        if kind in (_UPPER, _CONNECTOR):
            word = "".join(self._connector if _connects(char) else _small(char) for char in word)
        self._out.append(word)

    def _connect(self) -> None:
        if self._kind not in (_NONE, _PUNCTUATION, _CONNECTOR):
            self._out.append(self._connector)

    def _add_letters_and_numbers(self) -> None:
        while self._kind in (_LETTERS, _NUMBER):
            self._add(self._kind, self._start, self._end)
            self._advance()

    def _after_word(self) -> None:
        """A number belongs to the word before it, unless small letters follow: `Bld4Floor` but `http_2xx`."""
        if self._kind != _NUMBER:
            self._connect()
        elif self._end < len(self._text):
            number = self._start, self._end
            self._advance()
            if self._kind == _LETTERS:
                self._out.append(self._connector)
            self._add(_NUMBER, *number)
            self._add_letters_and_numbers()
            self._connect()


def _small(char: str) -> str:
    return _lower(char) if _is_upper(char) else char
