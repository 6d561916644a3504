"""Where tests keep what they build, on a machine that has nothing of it and on one without a home."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from tests.children import run
from tests.controlplane.build import OWN_CACHE, go_folders, locked, print_line, user_cache
from tests.nvml.library import compiler
from tests.vm import disks

ROOT = Path(__file__).parents[2]
ALONE = (ROOT / "tests/controlplane/build.py", Path(__file__))


def env(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "GOPATH", "GOCACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def test_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env(monkeypatch, HOME=str(tmp_path))
    assert user_cache() == tmp_path / ".cache"
    assert (tmp_path / ".cache").is_dir()
    assert go_folders() == {}
    env(monkeypatch, HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "not/yet"))
    assert user_cache() == tmp_path / "not/yet"


@pytest.mark.parametrize("home", [None, "", "/nowhere/at/all", "/proc", os.devnull])
def test_without_a_home_all_is_kept_below_the_clone(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    env(monkeypatch, **({} if home is None else {"HOME": home}))
    assert user_cache() == OWN_CACHE
    assert OWN_CACHE.is_relative_to(ROOT / ".state")
    assert go_folders() == {"GOPATH": str(OWN_CACHE / "go"), "GOCACHE": str(OWN_CACHE / "go-build")}
    monkeypatch.setenv("GOPATH", "/go")
    assert go_folders() == {"GOCACHE": str(OWN_CACHE / "go-build")}


def test_a_lock_makes_its_folder(tmp_path: Path) -> None:
    with locked(tmp_path / "not/yet/lock", print_line):
        assert (tmp_path / "not/yet").is_dir()


def test_caches_are_made_where_they_are_used(tmp_path: Path) -> None:
    """A disk of a machine, and libraries of a driver, on a machine where nobody made either."""
    if problem := disks.obstacle() or ("" if compiler() else "no C compiler"):
        assert os.environ.get("CI") != "true", problem
        pytest.skip(problem)
    (tmp_path / "tree").mkdir()
    script = """
from pathlib import Path
from tests.nvml.library import compile_libraries
from tests.vm.disks import make_disk
from tests.vm.packages import CACHE
make_disk(Path("tree"), CACHE / "disk.ext4")
print(compile_libraries())
"""
    (tmp_path / "script.py").write_text(script)
    places = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = run([sys.executable, "script.py"], cwd=tmp_path, env={"PATH": os.environ["PATH"], **places})
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "cache")
    assert (tmp_path / "cache/nfd-vm/disk.ext4").stat().st_size > 2**20
    assert not (tmp_path / "home").exists()


def test_nobody_else_looks_for_the_users_folders() -> None:
    """Else a folder that only an earlier run made would be used."""
    files = [path for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py") if path not in ALONE]
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr in ("home", "expanduser"))
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and "/.cache" in node.value)
    ]
    assert wrong == []
