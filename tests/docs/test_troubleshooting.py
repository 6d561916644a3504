"""docs/troubleshooting.md quotes what our programs say, and names commands that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from nfd.cli import COMMANDS
from nfd.cli.parsers import make_parser
from tests.docs.messages import is_said

PAGE = (Path(__file__).parents[2] / "docs/troubleshooting.md").read_text()
ROWS = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| `")]
MESSAGES = sorted({text for row in ROWS for text in re.findall(r"`([^`]+)`", row)})
LINES = [line for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.M | re.S) for line in block.splitlines()]
NFD = re.compile(r"^\$ (?:kubectl |.* exec POD -- )?nfd ")
OURS = sorted({NFD.sub("", line) for line in LINES if NFD.match(line)})


@pytest.mark.parametrize("message", MESSAGES)
def test_a_program_says_so(message: str) -> None:
    assert is_said(message)


def test_nobody_says_anything_else() -> None:
    assert len(MESSAGES) > 35
    assert not is_said("the flux compensator is … empty")


@pytest.mark.parametrize("command", OURS)
def test_a_command_is_there(command: str) -> None:
    """Its flags too."""
    name, *words = shlex.split(command)
    assert name in COMMANDS
    make_parser("nfd", name)[0].parse_args(words)


def test_contents() -> None:
    """Every section is in the contents."""
    heads = re.findall(r"^## (.*)$", PAGE, re.M)
    anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
    listed = PAGE.partition("Contents: ")[2].partition("\n\n")[0]
    assert set(re.findall(r"\(#([\w-]+)\)", listed)) == anchors
