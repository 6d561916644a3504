"""The workflow that releases: actionlint and shellcheck find nothing, actions are pinned, and its commands exist."""

from __future__ import annotations

import hashlib
import os
import re
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.children import ChildError, run
from tests.controlplane.build import cache_root, find_go, locked, print_line
from tests.deploy.rendering import ROOT

MODULE = Path(__file__).parent / "actionlint"
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


@pytest.fixture(scope="module")
def actionlint() -> Path:
    """Built from its Go module into the user's cache, once."""
    digest = hashlib.sha256(b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))).hexdigest()[:16]
    folder = cache_root() / f"actionlint-{digest}"
    with locked(folder / "lock", print_line), tempfile.TemporaryDirectory(dir=folder) as temporary:
        if not (folder / "actionlint").exists():
            go = find_go(print_line)
            own = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off"}
            package = "github.com/rhysd/actionlint/cmd/actionlint"
            command = [go.program, "build", "-trimpath", "-buildvcs=false", f"-o={temporary}/actionlint", package]
            run(command, cwd=MODULE, env=os.environ | go.env | own)
            Path(temporary, "actionlint").replace(folder / "actionlint")
    return folder / "actionlint"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actionlint(actionlint: Path, path: Path) -> None:
    """The shell scripts of its steps too."""
    shellcheck = Path(sysconfig.get_path("scripts"), "shellcheck")
    assert shellcheck.exists()
    run([actionlint, f"-shellcheck={shellcheck}", "-pyflakes=", str(path)])


PAGES = sorted(
    path for path in (ROOT / "docs").glob("*.md") if re.search(r"^runs-on: |^    runs-on: ", path.read_text(), re.M)
)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_examples_in_the_documentation(actionlint: Path, page: Path, tmp_path: Path) -> None:
    """Workflows on pages, which are pinned as our own are."""
    found = [text for text in re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.M | re.S) if "runs-on:" in text]
    assert found
    for number, text in enumerate(found):
        path = tmp_path / f"{number}.yml"
        path.write_text(text)
        test_actionlint(actionlint, path)
        test_actions_are_pinned(path)


def test_there_is_an_example() -> None:
    assert "pull-requests.md" in [page.name for page in PAGES]


def test_actionlint_finds_what_is_wrong(actionlint: Path, tmp_path: Path) -> None:
    """A check that cannot fail shows nothing."""
    path = tmp_path / "release.yml"
    path.write_text(WORKFLOWS[0].read_text().replace("${{ vars.REGISTRY }}", "${{ var.REGISTRY }}"))
    with pytest.raises(ChildError, match="undefined variable"):
        run([actionlint, "-shellcheck=", "-pyflakes=", str(path)])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned(path: Path) -> None:
    """By the commit, with the version beside it."""
    used = re.findall(r"uses: (.+)", path.read_text())
    assert used
    assert [one for one in used if not PINNED.fullmatch(one)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_it_has_no_more_rights_than_it_says(path: Path) -> None:
    """None by default, and no token stays in the checkout."""
    workflow: dict[str, Any] = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        (checkout,) = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert checkout["with"]["persist-credentials"] is False
        for target in re.findall(r"\bmake ([a-z-]+)", "\n".join(step.get("run", "") for step in job["steps"])):
            assert re.search(rf"^{target}: ", (ROOT / "Makefile").read_text(), re.M), target
