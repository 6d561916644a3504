"""Text of others in a line that this program prints."""

from __future__ import annotations

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
