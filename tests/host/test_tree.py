"""Links are followed as if the tree's root were `/`, by the kernel and by hand, and nothing outside is ever opened."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nfd.host import tree
from nfd.host.tree import LOOK, MAX_LINKS, Tree

OUTSIDE = "OUTSIDE"
WAYS = ("kernel", "by hand")
Forest = dict[str, str | tuple[str]]
"""Path → text of a file, or (target,) of a link; folders are those above."""


def open_tree(root: Path, way: str) -> Tree:
    found = Tree(root)
    if way == "by hand":
        found._open = partial(tree._walk, found._dir)
    return found


def supported(root: Path, way: str) -> bool:
    directory = os.open(root, LOOK | os.O_DIRECTORY)
    try:
        os.close(tree._kernel_opener(directory)(".", LOOK))
    except OSError:
        return way != "kernel"
    finally:
        os.close(directory)
    return True


def plant(base: Path, forest: Forest) -> Path:
    """A root with the forest in it, and the same names all around it."""
    root = base / "a" / "root"
    root.mkdir(parents=True)
    for name in ("a", "b", "c", "file"):
        for place in (base, base / "a"):
            if not (place / name).exists():
                (place / name).write_text(OUTSIDE)
    for path, content in forest.items():
        where = root / path
        where.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            where.write_text(content)
        else:
            where.symlink_to(content[0])
    return root


FOREST: Forest = {
    "etc/real": "inside",
    "etc/absolute": ("/etc/real",),
    "etc/up": ("../../../../etc/real",),
    "etc/here": ("./real",),
    "etc/slash": ("real/",),
    "out": ("/../../file",),
    "dir": ("etc",),
    "dirslash": ("/etc/",),
    "loop": ("loop",),
    "one": ("two",),
    "two": ("one",),
    "dangling": ("nowhere",),
    "deep/a/b/link": ("../../../dir/absolute",),
    **{f"chain{index}": (f"chain{index + 1}",) for index in range(MAX_LINKS)},
    f"chain{MAX_LINKS}": "far",
}
READS: list[tuple[str, str | int]] = [
    ("etc/real", "inside"),
    ("/etc/real", "inside"),
    ("//etc/./real", "inside"),
    ("etc/absolute", "inside"),
    ("etc/up", "inside"),
    ("etc/here", "inside"),
    ("dir/real", "inside"),
    ("dirslash/real", "inside"),
    ("dir/../etc/real", "inside"),
    ("../../etc/real", "inside"),
    ("deep/a/b/link", "inside"),
    ("deep/a/b/../../a/b/link", "inside"),
    ("chain0", "far"),
    ("etc", errno.EISDIR),
    ("", errno.EISDIR),
    (".", errno.EISDIR),
    ("dir", errno.EISDIR),
    ("etc/slash", errno.ENOTDIR),
    ("etc/real/", errno.ENOTDIR),
    ("etc/real/.", errno.ENOTDIR),
    ("etc/real/x", errno.ENOTDIR),
    ("etc/real/..", errno.ENOTDIR),
    ("etc/real/../real", errno.ENOTDIR),
    ("out", errno.ENOENT),
    ("../file", errno.ENOENT),
    ("nothing", errno.ENOENT),
    ("nothing/../etc/real", errno.ENOENT),
    ("dangling", errno.ENOENT),
    ("loop", errno.ELOOP),
    ("one/x", errno.ELOOP),
    ("x" * 300, errno.ENAMETOOLONG),
    ("etc/re\0al", errno.EINVAL),
]


def outcome(found: Tree, path: str) -> str | int | None:
    try:
        return found.read(path, 100).decode()
    except OSError as error:
        return error.errno


@pytest.mark.parametrize("way", WAYS)
def test_paths(tmp_path: Path, way: str) -> None:
    root = plant(tmp_path, FOREST)
    if not supported(root, way):
        pytest.skip("this kernel has no openat2")
    found = open_tree(root, way)
    assert {path: outcome(found, path) for path, _ in READS} == dict(READS)
    assert found.names("dir") == ["absolute", "here", "real", "slash", "up"]
    assert found.names("dir/") == found.names("etc/.") == found.names("/dirslash")
    assert found.stat("etc/up").st_ino == (root / "etc/real").stat().st_ino
    assert found.has("dir") and not found.has("dangling")  # noqa: PT018
    (root / "chainx").symlink_to("chain0")
    assert outcome(found, "chainx") == errno.ELOOP


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_file_and_the_beginning_of_one(tmp_path: Path, way: str) -> None:
    root = plant(tmp_path, {"big": "x" * 101})
    if not supported(root, way):
        pytest.skip("this kernel has no openat2")
    os.mkfifo(root / "pipe")
    found = open_tree(root, way)
    assert outcome(found, "pipe") == 0
    assert found.read("big", 100) == b"x" * 100


NAMES = st.sampled_from(["a", "b", "c"])
TARGETS = st.builds(
    lambda slash, parts, end: (slash + "/".join(parts) + end) or ".",
    st.sampled_from(["", "/"]),
    st.lists(st.sampled_from(["a", "b", "c", "..", ".."]), max_size=5),
    st.sampled_from(["", "", "/"]),
)
PLACES = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    forest: Forest = {}
    for path in draw(st.lists(PLACES, unique=True, max_size=8)):
        if not any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in forest):
            forest[path] = (draw(TARGETS),) if draw(st.booleans()) else path
    return forest


def model(forest: Forest, path: str) -> str | int:
    """What a process in a chroot reads: the text, or the error."""
    folders = {""} | {path[:end] for path in forest for end in range(len(path)) if path[end] == "/"}
    todo, here, links = _words(path), "", 0
    while todo:
        word = todo.pop(0)
        if here not in folders:
            return errno.ENOTDIR
        if word == "..":
            here = here.rpartition("/")[0]
        elif word != ".":
            step = f"{here}/{word}".lstrip("/")
            content = forest.get(step)
            if content is None and step not in folders:
                return errno.ENOENT
            if isinstance(content, tuple):
                links += 1
                if links > MAX_LINKS:
                    return errno.ELOOP
                todo, here = [*_words(content[0]), *todo], "" if content[0].startswith("/") else here
            else:
                here = step
    content = forest.get(here)
    return content if isinstance(content, str) else errno.EISDIR


def _words(path: str) -> list[str]:
    return [word for word in path.split("/") if word] + (["."] if path.endswith("/") else [])


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(forests(), st.lists(TARGETS, min_size=1, max_size=10))
def test_any_forest_is_as_in_a_chroot(forest: Forest, paths: list[str]) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = plant(Path(base), forest)
        expected = {path: model(forest, path.lstrip("/") or ".") for path in paths}
        for way in WAYS:
            if supported(root, way):
                found = open_tree(root, way)
                assert {path: outcome(found, path) for path in paths} == expected
                found.close()


@pytest.fixture(autouse=True)
def no_descriptor_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    yield
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # noqa: PTH208
