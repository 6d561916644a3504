"""The commands of README.md work on this machine, and those for a cluster are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from nfd.cli import main
from nfd.cli.parsers import make_parser

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LINES = [
    line.removeprefix("$ ").partition(" #")[0].strip()
    for block in re.findall(r"^```console\n(.*?)^```$", README, re.M | re.S)
    for line in block.splitlines()
]
HERE = [line.removeprefix(".venv/bin/nfd ") for line in LINES if line.startswith(".venv/bin/nfd ")]
ON_A_CLUSTER = [line.removeprefix("kubectl nfd ") for line in LINES if line.startswith("kubectl nfd ")]


def test_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In their order: later ones read what earlier ones wrote. What cannot be read here is told, and fails nothing."""
    monkeypatch.chdir(ROOT)
    assert len(HERE) > 5
    for line in HERE:
        words, _, file = line.replace("/tmp/", f"{tmp_path}/").partition(" > ")
        assert main(shlex.split(words)) == 0, (line, capsys.readouterr().err)
        out = capsys.readouterr().out
        assert out, line
        if file:
            Path(file).write_text(out)


@pytest.mark.parametrize("line", ON_A_CLUSTER)
def test_on_a_cluster(line: str) -> None:
    name, *words = shlex.split(line)
    make_parser("nfd", name)[0].parse_args(words)


def test_make() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert {"up", "test", "cluster"} <= named <= targets
