"""Links between pages lead somewhere, docs/README.md leads to every page, and modules that the code names exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*FRONT, *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = sorted(path for folder in ("nfd", "gfd") for path in (ROOT / folder).rglob("*.py"))
MODULE = re.compile(r"`([a-z_]+\.py)`|`((?:nfd|gfd)(?:\.[a-z_]+)+)(?:\.[A-Za-z_]+)?`")


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


def module_exists(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or path.is_dir()


def missing_modules(text: str) -> list[str]:
    """Names in backquotes that look like modules of the code and are none. The last part may be a name within one."""
    files = {path.name for path in CODE}
    found = []
    for file, dotted in MODULE.findall(text):
        known = file in files if file else module_exists(dotted) or module_exists(dotted.rpartition(".")[0])
        if not known:
            found.append(file or dotted)
    return found


@pytest.mark.parametrize("folder", ["nfd", "gfd"])
def test_modules_that_the_code_names_exist(folder: str) -> None:
    found = {str(path.relative_to(ROOT)): missing_modules(path.read_text()) for path in CODE if folder in path.parts}
    assert {path: names for path, names in found.items() if names} == {}


PACKAGES = [path for path in CODE if path.name == "__init__.py"]
NOT_MODULES = {"env", "expandenv", "nfd"}
"""Words in docstrings of packages that are names of something else."""


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_modules_that_a_package_names_exist(path: Path) -> None:
    words = re.findall(r"`([a-z_]+)`", ast.get_docstring(ast.parse(path.read_text())) or "")
    known = {one.stem for one in path.parent.iterdir()} | NOT_MODULES
    assert [word for word in words if word not in known] == []


def test_a_module_that_does_not_exist_is_found() -> None:
    text = "start at `engine.py`, `nfd.rules.evaluate` or `nfd.rules.evaluate.run_custom`, not `nfd.rulez.evaluate`"
    assert missing_modules(text) == ["engine.py", "nfd.rulez.evaluate"]
