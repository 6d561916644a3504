"""`nfd explain - features.d`: what each line of the feature files became, and why not; the guide's file among them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
FOLDER = "etc/kubernetes/node-feature-discovery/features.d"
GUIDE = Path(__file__).parents[2] / "docs/rules.md"
F = "feature.node.kubernetes.io/"


@pytest.fixture
def told(run: Run, tmp_path: Path) -> Callable[..., list[str]]:
    """Of these files on a machine that has nothing else."""

    def ask(*words: str, **files: str) -> list[str]:
        (tmp_path / FOLDER).mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / FOLDER / name).write_text(text)
        status, out, err = run("explain", "--host-root", str(tmp_path), *words, "-", "features.d")
        assert (status, err) == (0, "")
        return out.splitlines()

    return ask


def test_the_file_of_the_guide(told: Callable[..., list[str]]) -> None:
    section = GUIDE.read_text().partition("## Feature files")[2]
    (text,) = re.findall(r"^```\n(.*?)^```$", section, re.M | re.S)[:1]
    assert told(mine=text) == [
        f"mine:2: rack=12  label {F}rack=12; feature local.feature",
        "mine:3: example.com/tested  label example.com/tested=true; feature local.feature",
        f"mine:5: for-people=only a label  label {F}for-people: value 'only a label' became 'only_a_label'; no feature",
        "mine:7: speed=100  no label; feature local.feature",
        f"mine:9: maintenance=planned  label {F}maintenance=planned; feature local.feature",
    ]


def test_what_became_nothing(told: Callable[..., list[str]]) -> None:
    old = "# +expiry-time=2020-01-01T00:00:00Z\nold=1\n"
    assert told(mine=f"rack=1\nkubernetes.io/zone=a\n# +nosuch\n{old}", other="rack=2\n", **{".part": "rack=3"}) == [
        ".part: not read, because its name begins with a dot",
        f"mine:1: rack=1  label {F}rack is overridden by a later line; overridden by a later line as feature",
        "mine:2: kubernetes.io/zone=a  label kubernetes.io/zone: dropped: namespace 'kubernetes.io' is not allowed; "
        "feature local.feature",
        "mine:3: # +nosuch  ignored: there is no directive 'nosuch', only expiry-time, no-feature and no-label",
        "mine:5: old=1  expired",
        f"other:1: rack=2  label {F}rack=2; feature local.feature",
    ]


def test_no_file(told: Callable[..., list[str]]) -> None:
    assert told() == [f"/{FOLDER} has no file"]


def test_a_source_that_is_disabled(told: Callable[..., list[str]]) -> None:
    found = told("--sources", "cpu", mine="rack=1\n", big="a" * 70_000)
    assert found[0] == f"{FOLDER}/big: is larger than 65536 bytes and left out"
    assert found[1].startswith(f"mine:1: rack=1  no label {F}rack: source local is disabled; ")
