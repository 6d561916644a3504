"""Links between pages lead somewhere, and docs/README.md leads to every page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*FRONT, *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> list[str]:
    found = LINK.findall(FENCE.sub("", page.read_text()))
    return [link for link in found if "://" not in link]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Of its headings, as forges make them: lower case, blanks become dashes, other signs vanish."""
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.M)
    return frozenset(re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs/README.md"
    reached = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    pages = {page for page in PAGES if page not in (*FRONT, index)}
    assert {page for page in pages if page not in reached and page.parent not in reached} == set()
