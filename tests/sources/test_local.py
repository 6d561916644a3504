"""Feature files."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd import names
from nfd.config.section import Section
from nfd.discovery import Plan, discover
from nfd.features import Features
from nfd.host import MAX_NOTES
from nfd.source import Source
from nfd.sources import local
from nfd.sources.local.featurefile import parse, parse_time
from tests.sources.hosts import make_host, scan

FOLDER = local.FOLDER
NOW = parse_time("2024-06-01T00:00:00Z")


@pytest.mark.parametrize(
    ("text", "labels", "features"),
    [
        ("a", {"a": "true"}, {"a": "true"}),
        ("a=", {"a": ""}, {"a": ""}),
        ("  a=1  ", {"a": "1"}, {"a": "1"}),
        ("\u2003\xa0a=1\x85\u3000", {"a": "1"}, {"a": "1"}),
        ("\x1ca=1\x1f", {"\x1ca": "1\x1f"}, {"\x1ca": "1\x1f"}),
        ("a = 1", {"a ": " 1"}, {"a ": " 1"}),
        ("a=b=c # no comment", {"a": "b=c # no comment"}, {"a": "b=c # no comment"}),
        ("=1", {"": "1"}, {"": "1"}),
        ("# a=1\n#a=1\n\n \t", {}, {}),
        ("\ufeff# a=1\nb=1", {"b": "1"}, {"b": "1"}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}, {"a": "1", "b": "2"}),
        ("# +no-label\na=1\nb=1", {"b": "1"}, {"a": "1", "b": "1"}),
        ("# +no-label=whatever\na=1", {}, {"a": "1"}),
        ("# +no-feature\na=1\nb=1", {"a": "1", "b": "1"}, {"b": "1"}),
        ("# +no-feature\n# +no-label\na=1\nb=1", {"b": "1"}, {"b": "1"}),
        ("#+no-label\na=1", {"a": "1"}, {"a": "1"}),
        ("a=1\n# +no-label\na=2", {}, {"a": "2"}),
        ("a=1\n# +no-feature\na=2", {"a": "2"}, {}),
        ("# +expiry-time=2024-05-31T23:59:59Z\na=1", {}, {}),
        ("# +expiry-time=2024-06-01T00:00:00Z\na=1", {"a": "1"}, {"a": "1"}),
        ("# +expiry-time=2024-06-01T01:30:00+02:00\na=1", {}, {}),
        ("# +expiry-time=2024-05-31T23:30:00-02:00\na=1", {"a": "1"}, {"a": "1"}),
        ("# +expiry-time=2024-05-31T9:30:00-14:30\na=1", {"a": "1"}, {"a": "1"}),
        ("# +expiry-time=2024-05-30T22:59:59,9-24:60\na=1", {}, {}),
        ("# +expiry-time=0000-02-29T00:00:00Z\na=1", {}, {}),
        ("# +expiry-time=9999-12-31T23:59:59-24:00\na=1", {"a": "1"}, {"a": "1"}),
        (
            "# +no-label\n# +expiry-time=2001-01-01T00:00:00Z\na=1\n# +expiry-time=2999-01-01T00:00:00Z\nb=1\nc=1",
            {"c": "1"},
            {"b": "1", "c": "1"},
        ),
    ],
)
def test_lines(text: str, labels: dict[str, str], features: dict[str, str]) -> None:
    entries = parse(text, NOW)
    assert (entries.labels, entries.features, entries.notes) == (labels, features, [])


@pytest.mark.parametrize(
    "directive",
    [
        "expiry-time",
        "expiry-time=",
        "expiry-time=soon",
        "expiry-time=2001-01-01",
        "expiry-time=2001-01-01T00:00:00",
        "expiry-time=2001-01-01t00:00:00z",
        "expiry-time=2001-02-30T00:00:00Z",
        "expiry-time=2001-13-01T00:00:00Z",
        "expiry-time=2001-1-01T00:00:00Z",
        "expiry-time=2001-01-01T24:00:00Z",
        "expiry-time=2001-01-01T00:00:60Z",
        "expiry-time=2001-01-01T00:00:00.Z",
        "expiry-time=2001-01-01T00:00:00-24:61",
        "expiry-time=2001-01-01T00:00:00+25:00",
        " no-label",
        "Something",
        "",
    ],
)
def test_a_directive_that_makes_no_sense_changes_nothing_and_is_told(directive: str) -> None:
    entries = parse(f"x=1\n# +{directive}\na=1", NOW)
    if directive:
        assert [line for line, _ in entries.notes] == [2]
    assert entries.labels == entries.features == {"x": "1", "a": "1"}


@given(st.text())
def test_a_time_is_a_number_or_a_clear_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text + "!")


@given(st.dictionaries(st.text("abcXYZ019._-/=+# \x00ü\u2028", min_size=1), st.text("ab01._-/=+# \x00ü", max_size=80)))
def test_every_label_is_legal(tmp_path_factory: pytest.TempPathFactory, entries: dict[str, str]) -> None:
    text = "\n".join(f"{key}={value}" for key, value in entries.items())
    found = scan(make_host(tmp_path_factory.mktemp("host"), {f"{FOLDER}/a": text}), local.SOURCE)
    for key, value in found.labels.items():
        assert names.key_problem(key) is None
        assert names.value_problem(value) is None


@given(st.binary())
def test_whatever_a_file_holds_is_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    host = make_host(tmp_path_factory.mktemp("host"), {f"{FOLDER}/a": data, f"{FOLDER}/b": "good=1"})
    found = scan(host, local.SOURCE)
    assert found.labels["good"] == "1"
    assert not found.failed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=legal\na!=cleaned", {"a": "legal"}),
        ("a!=cleaned\na=legal", {"a": "legal"}),
        ("a!=cleaned", {"a": "cleaned"}),
        ("a=legal\n/a=cleaned", {"a": "legal"}),
        (f"a=legal\n{names.FEATURE_NS}/a=cleaned!", {"a": "legal"}),
        (f"a=cleaned!\n{names.FEATURE_NS}/a=legal", {f"{names.FEATURE_NS}/a": "legal"}),
        (f"{names.FEATURE_NS}/kernel-kvm=cleaned!", {}),
        (f"{names.FEATURE_NS}/kernel-kvm=legal", {f"{names.FEATURE_NS}/kernel-kvm": "legal"}),
    ],
)
def test_what_is_cleaned_never_takes_the_place_of_what_is_legal(
    tmp_path: Path, text: str, expected: dict[str, str]
) -> None:
    kernel = Source("kernel", Section, lambda host, config: Features(), lambda features, config: {"kvm": "true"})
    host = make_host(tmp_path, {f"{FOLDER}/a": text})
    both = (kernel, local.SOURCE)
    found = discover(host, Plan(both, both, {"kernel": Section(), "local": Section()}))
    assert found.labels == {f"{names.FEATURE_NS}/kernel-kvm": "true"} | expected


def test_files_in_the_order_of_their_names_and_no_others(tmp_path: Path) -> None:
    files = {
        f"{FOLDER}/b": "x=2\ny=2",
        f"{FOLDER}/a": "x=1\nz=1",
        f"{FOLDER}/.hidden": "h=1",
        f"{FOLDER}/folder/c": "f=1",
        f"{FOLDER}/exact": "e=1\n".ljust(local.MAX_SIZE),
        f"{FOLDER}/large": "l=1\n".ljust(local.MAX_SIZE + 1),
    }
    host = make_host(tmp_path, files)
    os.mkfifo(tmp_path / FOLDER / "pipe")
    (tmp_path / FOLDER / "dangling").symlink_to("gone")
    found = scan(host, local.SOURCE)
    assert found.labels == {"e": "1", "x": "2", "y": "2", "z": "1"}
    assert {problem.subject.rpartition("/")[2] for problem in found.problems} == {"b", "dangling", "local"}
    assert found.failed, "what the large file said before it grew stays"


def long_entries(file: int) -> str:
    return "".join(f"# +no-label\nx{file}-{number}={'x' * 600}\n" for number in range(100))


@pytest.mark.parametrize(
    ("files", "kept"),
    [
        ({"a": [f"a{n}" for n in range(3000)], "b": ["b"], "c": [f"c{n}" for n in range(2000)], "d": ["d"]}, 3002),
        ({f"x{file:02}": [long_entries(file)] for file in range(20)} | {"y": ["y"]}, 1),
    ],
    ids=["entries", "bytes"],
)
def test_more_than_a_master_takes_is_left_out_by_file(files: dict[str, list[str]], kept: int, tmp_path: Path) -> None:
    found = scan(
        make_host(tmp_path, {f"{FOLDER}/{name}": "\n".join(lines) for name, lines in files.items()}), local.SOURCE
    )
    assert len(found.labels) == kept
    entries = found.features.attributes[local.FEATURE]
    assert sum(map(len, (*entries, *entries.values()))) <= local.MAX_TEXT
    (problem,) = found.problems
    assert "left out" in problem.reason
    assert found.failed


def test_links_stay_inside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret=1")
    root = tmp_path / "root"
    host = make_host(root, {"opt/x": "x=1", f"{FOLDER}/": ""})
    (root / FOLDER / "absolute").symlink_to("/opt/x")
    (root / FOLDER / "outside").symlink_to(outside)
    (root / FOLDER / "dots").symlink_to("../" * 20 + "outside")
    assert scan(host, local.SOURCE).labels == {"x": "1"}


def test_an_unreadable_file_keeps_its_labels_and_lets_others_change(tmp_path: Path) -> None:
    host = make_host(tmp_path, {f"{FOLDER}/a": "a=1", f"{FOLDER}/b": "b=1"})
    before = scan(host, local.SOURCE)
    file = tmp_path / FOLDER / "a"
    file.unlink()
    file.symlink_to("a")
    make_host(tmp_path, {f"{FOLDER}/b": "b=2"})
    after = scan(host, local.SOURCE, before)
    assert after.labels == {"a": "1", "b": "2"}
    assert f"{FOLDER}/a" in after.failed["local"]


def test_a_removed_file_takes_its_labels_along(tmp_path: Path) -> None:
    host = make_host(tmp_path, {f"{FOLDER}/a": "a=1", f"{FOLDER}/b": "b=1"})
    before = scan(host, local.SOURCE)
    (tmp_path / FOLDER / "a").unlink()
    assert scan(host, local.SOURCE, before).labels == {"b": "1"}


def test_no_folder_or_something_else_in_its_place(tmp_path: Path) -> None:
    empty = scan(make_host(tmp_path, {}), local.SOURCE)
    assert empty.features.attributes == {"local.label": {}, "local.feature": {}}
    assert empty.problems == ()
    place = tmp_path / FOLDER
    place.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        before = Path.cwd()
        os.chdir(place.parent)
        listener.bind(place.name)
        os.chdir(before)
    (problem,) = scan(make_host(tmp_path, {}), local.SOURCE).problems
    assert problem.reason.endswith("is not a directory")


def test_wrong_directives_are_shown_up_to_a_number(tmp_path: Path) -> None:
    wrong = "# +x\n" * 1000
    host = make_host(tmp_path, {f"{FOLDER}/{number:03}": wrong + f"a{number}=1\n" for number in range(100)})
    found = scan(host, local.SOURCE)
    problems = [problem for problem in found.problems if problem.source == "local"]
    assert len(problems) == MAX_NOTES + 1
    assert problems[local.SHOWN_NOTES].reason == f"{1000 - local.SHOWN_NOTES} more directives are wrong"
    assert problems[-1].reason == f"{100 * (local.SHOWN_NOTES + 1) - MAX_NOTES} further problems are not listed"
    assert len(found.labels) == 100
