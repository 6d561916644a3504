"""Foreign text in a line of ours."""

from __future__ import annotations


def visible(text: str) -> str:
    """Control characters as escapes: foreign text forges no line and gives the terminal no orders."""
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
