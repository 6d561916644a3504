"""Machines that users reported: `expected.yaml` of a case has all its labels and the features that the report is about.

`pytest tests/cli/test_report_machines.py --update-expected` rewrites the values of what is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_commands import Run

CASES = Path(__file__).parents[1] / "cases/reports"
MACHINES = sorted(path.parent.name for path in CASES.glob("*/expected.yaml"))


def test_there_are_some() -> None:
    assert len(MACHINES) >= 4
    assert {path.parent.name for path in CASES.glob("*/machine")} == set(MACHINES)


@pytest.mark.parametrize("case", MACHINES)
def test_machine(run: Run, case: str, request: pytest.FixtureRequest) -> None:
    file = CASES / case / "expected.yaml"
    wanted: dict[str, Any] = yaml.safe_load(file.read_text())
    replay = ("--replay", str(CASES / case / "machine"))
    _, features, _ = run("discover", *replay, "-o", "features")
    read = yaml.safe_load(features)["features"]
    _, labels, _ = run("discover", *replay, "-o", "labels")
    found = {
        "labels": dict(line.split("=", 1) for line in labels.splitlines()),
        "features": {
            kind: {name: read[kind].get(name, {}).get("elements") for name in names}
            for kind, names in wanted["features"].items()
        },
    }
    if request.config.getoption("--update-expected"):
        file.write_text(yaml.safe_dump(found))
    else:
        assert found == wanted
