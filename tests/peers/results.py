"""What `make peers` found: `results.json`, and the tables of the documentation that are made from it.

A run replaces its own rows and keeps those of tests that it did not run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

FILE = Path(__file__).with_name("results.json")
PAGES = {"docs/migrating.md": "take-over", "docs/consumers.md": "gpu-operator"}
"""Page -> its table, which is between `<!-- NAME -->` and `<!-- end of NAME -->`."""
HEADS = {
    "take-over": (
        "switch",
        "labels",
        "annotations",
        "taints",
        "resources",
        "only the former gave",
        "removed",
        "changed and changed back",
    ),
    "gpu-operator": ("GPU operator", "what it decided", "its DaemonSets", "writes of the master in 3 minutes"),
}

Rows = dict[str, list[str]]
"""First cell -> the others."""


def load() -> dict[str, Rows]:
    """All tables."""
    found: dict[str, Rows] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return {name: found.get(name, {}) for name in HEADS}


def save(new: Mapping[str, Rows]) -> None:
    """Rows of this run in the place of earlier ones with the same first cell."""
    known = load()
    merged = {name: rows | new.get(name, {}) for name, rows in known.items()}
    FILE.write_text(json.dumps(merged, indent=2, ensure_ascii=False) + "\n")


def lines(name: str) -> Iterable[str]:
    """The table as Markdown."""
    head = HEADS[name]
    for row in (head, ["---"] * len(head), *([first, *cells] for first, cells in load()[name].items())):
        yield f"| {' | '.join(row)} |"


def page(path: str, text: str) -> str:
    """The page with its table as it must be."""
    name = PAGES[path]
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    table = "\n".join(lines(name))
    return re.sub(f"{begin}.*?{end}", lambda _: f"{begin}{table}\n{end}", text, flags=re.DOTALL)
