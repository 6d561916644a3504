"""Tables of the pages: forges leave out what stands in a row beyond the columns of its head."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.checks import repeated
from tests.docs.test_links import FENCE, PAGES, ROOT

SEPARATOR = re.compile(r"\|( *:?-+:? *\|)+")
CELL_END = re.compile(r"(?<!\\)\|")


def odd_rows(text: str) -> list[str]:
    """Rows that have not as many cells as the head of their table has."""
    found, columns = [], 0
    lines = FENCE.sub("", text).splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        line, following = line.strip(), following.strip()
        if SEPARATOR.fullmatch(following):
            columns = len(CELL_END.findall(following))
        if not line.startswith("|"):
            columns = 0
        elif columns and len(CELL_END.findall(line)) != columns:
            found.append(line)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_rows_fit_their_table(page: Path) -> None:
    assert odd_rows(page.read_text()) == []


def test_a_row_that_does_not_is_found() -> None:
    table = "text\n| a | b |\n| --- | --- |\n| `1\\|2` | 3 |\n| 4 | 5 | 6 |\n| 7 |\n\n| x | y | z |\n"
    assert odd_rows(table) == ["| 4 | 5 | 6 |", "| 7 |"]


def test_values_are_kept_in_one_way() -> None:
    """`--reuse-values` would go without the defaults of a newer chart."""
    upgrades = [page for page in PAGES if re.search(r"--(?:reset-then-)?reuse-values", page.read_text())]
    assert len(upgrades) >= 3
    assert [page for page in upgrades if re.search(r"--reuse-values", page.read_text())] == []


def test_a_row_that_stands_twice_is_found() -> None:
    table = "| upstream | here |\n| --- | --- |\n| reports are objects | gRPC |\n| another row of it | x |\n"
    assert list(repeated(table)) == []
    assert list(repeated(f"{table}\nText.\n\n{table}")) == []
    (found,) = repeated(f"{table}| reports are objects | reports go over gRPC |\n")
    assert found == "5: the table already has a row that begins with: reports are objects"
