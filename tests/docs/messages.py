"""The texts in our programs: string constants, and the fixed parts of those with values in them, joined by `…`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLANK = "…"


@cache
def texts() -> frozenset[str]:
    """Of nfd and gfd, docstrings left out."""
    files = [file for folder in ("nfd", "gfd") for file in sorted((ROOT / folder).rglob("*.py"))]
    return frozenset(text for file in files for text in texts_of(ast.parse(file.read_text())))


def texts_of(tree: ast.AST) -> Iterator[str]:
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))  # a docstring
        elif isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else BLANK for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def is_said(message: str) -> bool:
    """Whether a text of ours has the fixed parts of the message, in their order."""
    parts = [part.strip() for part in message.split(BLANK) if part.strip()]
    return any(_in_order(parts, text) for text in texts())


def _in_order(parts: list[str], text: str) -> bool:
    place = 0
    for part in parts:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return True
