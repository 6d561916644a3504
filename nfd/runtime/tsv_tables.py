"""Tables in packages: tab-separated text, `#` starts a comment line, the first other line names the columns."""

from __future__ import annotations

import pkgutil


def rows(package: str, name: str) -> list[list[str]]:
    """The cells of each row."""
    text = (pkgutil.get_data(package, name) or b"").decode()
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")][1:]
