"""docs/rule-examples.md: each rule, on the features below it, gives what stands there.

`pytest tests/docs/test_rule_examples.py --update-expected` writes what comes out now into the page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nfd.cli import main
from nfd.rules.check import validate_text

PAGE = Path(__file__).parents[2] / "docs/rule-examples.md"
EXAMPLE = re.compile(r"^## (\d+)\..*?^```yaml\n(.*?)^```$.*?^```yaml\n(.*?)^```$.*?^```json\n(.*?)^```$", re.M | re.S)
EXAMPLES = EXAMPLE.findall(PAGE.read_text())
WRONG = "10"
Capture = pytest.CaptureFixture[str]


def outcome(rules: str, features: str, folder: Path, capsys: Capture) -> dict[str, Any]:
    """What `nfd rules eval` prints, empty parts left out."""
    for name, text in (("rules.yaml", rules), ("features.yaml", features)):
        (folder / name).write_text(text)
    status = main(["rules", "eval", "--rules", str(folder / "rules.yaml"), "--features", str(folder / "features.yaml")])
    found = json.loads(capsys.readouterr().out)
    assert status == bool(found["errors"])
    return {part: value for part, value in found.items() if value}


def test_there_are_ten() -> None:
    assert [number for number, *_ in EXAMPLES] == [str(number) for number in range(1, 11)]


@pytest.mark.parametrize(("number", "rules", "features", "wanted"), EXAMPLES, ids=[one[0] for one in EXAMPLES])
def test_example(
    number: str,
    rules: str,
    features: str,
    wanted: str,
    tmp_path: Path,
    capsys: Capture,
    request: pytest.FixtureRequest,
) -> None:
    found = outcome(rules, features, tmp_path, capsys)
    if request.config.getoption("--update-expected"):
        if found != json.loads(wanted):
            block = "```json\n{}\n```"
            text = block.format(json.dumps(found, indent=2))
            PAGE.write_text(PAGE.read_text().replace(block.format(wanted.rstrip()), text))
        return
    assert found == json.loads(wanted)
    assert bool(validate_text("x", rules)) == (number == WRONG)
