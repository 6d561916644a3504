"""docs/adding-a-source.md: its module, installed with the entry point that stands there, is a source like any other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.labels import told

PAGE = (Path(__file__).parents[2] / "docs/adding-a-source.md").read_text()
(CODE,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
(ENTRY,) = re.findall(r'^\[project\.entry-points\."nfd\.sources"\]\n(.*?)\n```$', PAGE, re.M)
((COMMAND, OUTPUT),) = re.findall(r"^```console\n\$ nfd (.*?)\n(.*?)^```$", PAGE, re.M | re.S)
RUN = "import sys; from nfd.cli import main; sys.exit(main())"


@pytest.fixture
def nfd(tmp_path: Path) -> object:
    """Runs `nfd` where the plug-in is installed, in a folder with a machine that has a TPM."""
    site = tmp_path / "site"
    (site / "tpm_source-1.dist-info").mkdir(parents=True)
    (site / "tpm_source-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: tpm-source\nVersion: 1\n")
    (site / "tpm_source-1.dist-info/entry_points.txt").write_text(f"[nfd.sources]\n{ENTRY.replace(chr(34), '')}\n")
    (site / "tpm_source.py").write_text(CODE)
    chip = tmp_path / "machine/sys/class/tpm/tpm0"
    chip.mkdir(parents=True)
    (chip / "tpm_version_major").write_text("2\n")

    def run(*words: str) -> str:
        env = os.environ | {"PYTHONPATH": str(site)}
        command = [sys.executable, "-c", RUN, *words]
        answer = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run


def test_it_is_found_and_labels(nfd: object, tmp_path: Path) -> None:
    assert callable(nfd)
    assert nfd(*COMMAND.split()) == OUTPUT
    assert "tpm.device" in nfd("discover", "--replay", "machine", "-o", "features")
    (tmp_path / "w.conf").write_text('sources: {tpm: {versions: ["1"]}}\n')
    assert "tpm-present" not in nfd("discover", "--replay", "machine", "--config", "w.conf")
    assert nfd("config", "validate", "w.conf") == ""
    assert "NFD_WORKER_SOURCES_TPM_VERSIONS" in nfd("config", "docs")


def test_its_labels_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {"__name__": "tpm_source"}
    exec(compile(CODE, "tpm_source.py", "exec"), names)
    makes = names["labels"]
    assert callable(makes)
    assert [row.key for row in told(makes, "tpm", "tpm-")] == ["tpm-present"]


def test_it_is_typed(tmp_path: Path) -> None:
    """As strictly as everything here."""
    (tmp_path / "tpm_source.py").write_text(CODE)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(tmp_path / "tpm_source.py")]
    command += ["--config-file=", "--ignore-missing-imports", f"--cache-dir={root / '.mypy_cache'}"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout
