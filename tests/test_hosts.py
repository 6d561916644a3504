"""Every machine of tests/hosts that has an `expected` folder: `nfd discover --replay` prints what is in there.

`pytest tests/test_hosts.py --update-expected` rewrites the folders, so that a changed label is a diff to review.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nfd.cli import main

HOSTS = Path(__file__).parent / "hosts"
MACHINES = sorted(path.parent.name for path in HOSTS.glob("*/expected"))
OUTPUTS = {"labels": "labels.txt", "features": "features.yaml"}

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in the directory is all there is."""
    for name in ("NODE_NAME", "NFD_NVML_LIBRARY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("machine", MACHINES)
def test_machine(machine: str, output: str, capsys: Output, request: pytest.FixtureRequest) -> None:
    """All sources, no configuration."""
    expected = HOSTS / machine / "expected" / OUTPUTS[output]
    status = main(["discover", "--replay", str(HOSTS / machine), "-o", output])
    found, problems = capsys.readouterr()
    assert status == 0, problems
    if request.config.getoption("--update-expected"):
        expected.write_text(found)
    assert found.splitlines() == expected.read_text().splitlines()


@pytest.mark.parametrize("machine", MACHINES)
def test_recording(machine: str, tmp_path: Path, capsys: Output) -> None:
    """A recording of the machine, scrubbed, gives the machine's labels again."""
    recording = tmp_path / "recording"
    assert main(["record", "--replay", str(HOSTS / machine), str(recording)]) == 0, capsys.readouterr().err
    capsys.readouterr()
    main(["discover", "--replay", str(recording), "-o", "labels"])
    assert capsys.readouterr().out == (HOSTS / machine / "expected" / OUTPUTS["labels"]).read_text()
