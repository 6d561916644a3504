"""Text in messages and log lines: made safe to print, shortened if long; "did you mean", the name probably meant."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 4000
"""Characters of a foreign text: container runtimes break a line after 16 KiB."""


def visible(text: str) -> str:
    """Control characters as escapes: foreign text forges no line and gives the terminal no orders."""
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def shortened(text: str) -> str:
    """A text of any length without its middle: it begins with what it is about and often ends with the reason."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 2]}… ({len(text)} characters) …{text[-LONGEST // 2 :]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known name as the end of a message, if one is near and the word is none of them; case is ignored."""
    by_lower = {name.lower(): name for name in known}
    found = "" if word.lower() in by_lower else nearest(word.lower(), by_lower)
    return f"; did you mean {by_lower[found]}?" if found else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """The known name that is most like the word, "" if none is near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1)), "")


def known_nodes(known: int, nodes: int) -> str:
    """`features of 4,812 of 5,000 nodes known`; "" without nodes."""
    return f"features of {known:,} of {nodes:,} nodes known" if nodes else ""
