"""The check for words that must not come back: what it finds, what it accepts, and that its exceptions only shrink."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.wording import EXCEPTIONS, LISTS_THE_WORDS, WORDS, exceptions, prose, shrunk, strings, unreleased, wording

ROOT = Path(__file__).parents[1]
AT_FIRST = 29
"""Exceptions when the check was introduced; there are never more."""
OLD = {
    "is told, tells of": ["the reason is told", "it was told once", "a metric tells\nof it", "`x` tells whether"],
    "of ours, ours to write": ["a label of ours", "keys that are ours to write"],
    "goes (for a label or file)": [
        "its labels go",
        "the file\ngoes when the program ends",
        "it then goes.",
        "Keys may go, and",
    ],
    "makes no sense": ["an object that makes no sense", "they make no sense"],
    "mishap, hiccup, trouble": ["a mishap", "something hiccuped", "API trouble"],
    "one right more": ["needs one right more", "two rights more"],
    "beat": ["at the next beat", "three Beats missed"],
    "reckoned": ["is reckoned from the size", "it reckons the size"],
    "is no news": ["a missing file is no news"],
    "needs a look": ["a node that needs a look"],
    "in vain": ["tried in vain"],
    "what came of it": ["removes what came of it", "what comes of features"],
    "passed over": ["invalid ones are passed over"],
    "heard, spoke": ["the node was last heard of", "its worker spoke"],
    "looked after": ["the lease is looked after"],
    "trying on": ["not taken, trying on"],
    "stands there": ["what stands there"],
    "laid over": ["a layer laid over another"],
    "of late": ["changed of late"],
    "unforeseen": ["an unforeseen error"],
    "under way": ["a call under way"],
    "judge, verdict": ["nodes are judged", "the verdict on a node"],
    "is away": ["a worker that is away", "when masters are away"],
}
FINE = [
    "the report goes to the master",
    "the request goes back",
    "a key goes into the annotation",
    "where the labels go",
    "as far as they go",
    "one heartbeat a minute",
    "see troubleshooting.md",
    "no newsletter",
    "rightsMore",
    "a pass over all nodes",
    "calls are passed over gRPC",
    "hours, of course",
]


def names(text: str) -> list[str]:
    return [word.name for word in WORDS if word.lines(text)]


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in OLD.items() for text in texts])
def test_old_words_are_found(name: str, text: str) -> None:
    assert name in names(text)


@pytest.mark.parametrize("text", FINE)
def test_ordinary_sentences_are_not(text: str) -> None:
    assert names(text) == []


def test_every_word_has_examples() -> None:
    assert [word.name for word in WORDS] == list(OLD)


def test_the_style_guide_has_the_same_list() -> None:
    section = (ROOT / LISTS_THE_WORDS).read_text().partition("## Words that do not come back")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", section, re.M)[2:]
    assert rows == [(word.name, word.better) for word in WORDS]


def test_lines_are_those_of_the_file() -> None:
    page = "one\n```\nmishap\n```\ntwo `a\nmishap`\n<!-- a -->\nmishap\n<!-- end of a -->\nits labels\ngo, a mishap\n"
    assert {word.name: word.lines(prose(page)) for word in WORDS if word.lines(prose(page))} == {
        "goes (for a label or file)": [10],
        "mishap, hiccup, trouble": [11],
    }
    module = '"""One.\n\nTwo words, a mishap.\n"""\nx = "mishap"\ny = f"a mishap of {x}"\n# a mishap\n'
    found = [start + line - 1 for start, text in strings(module) for word in WORDS for line in word.lines(text)]
    assert found == [3, 6]


def test_released_changes_stay_as_they_are() -> None:
    assert unreleased("# Changelog\n## [Unreleased]\nnew\n## [0.1.0] - 2026-01-01\nold\n").endswith("new\n")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "README.md": "First line.\nA mishap.\n",
        "CHANGELOG.md": "## [Unreleased]\nAPI trouble.\n\n## [0.1.0]\nA mishap.\n",
        "deploy/chart/NOTES.txt": "Keys of ours.\n",
        "nfd/master/a.py": '"""It is told."""\n',
        "gfd/b.py": "",
        EXCEPTIONS: "# head\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_it_names_file_line_and_the_better_word(project: Path) -> None:
    assert list(wording(project)) == [
        'README.md:2: "mishap, hiccup, trouble": write "error, failure, outage" (docs/style-guide.md)',
        'CHANGELOG.md:2: "mishap, hiccup, trouble": write "error, failure, outage" (docs/style-guide.md)',
        'deploy/chart/NOTES.txt:1: "of ours, ours to write": write "managed by nfd, of this product" '
        "(docs/style-guide.md)",
        'nfd/master/a.py:1: "is told, tells of": write "is reported, is logged, says" (docs/style-guide.md)',
    ]


def test_an_exception_holds_for_its_word_below_its_path(project: Path) -> None:
    (project / "README.md").write_text("Fine.\n")
    (project / "CHANGELOG.md").write_text("")
    (project / EXCEPTIONS).write_text(
        "# head\nnfd/master: is told, tells of\ndeploy: mishap, hiccup, trouble\nnfd/ma: beat\n"
    )
    lines = list(wording(project))
    assert [line.partition(": ")[0] for line in lines] == ["deploy/chart/NOTES.txt:1", EXCEPTIONS, EXCEPTIONS]
    assert 'deploy no longer has "mishap, hiccup, trouble"' in lines[1]
    assert shrunk(project) == "# head\nnfd/master: is told, tells of\n"
    (project / EXCEPTIONS).write_text("nfd: nonsense\n")
    with pytest.raises(ValueError, match="nonsense"):
        list(wording(project))


def test_there_are_not_more_exceptions_than_before() -> None:
    assert len(exceptions(ROOT)) <= AT_FIRST
