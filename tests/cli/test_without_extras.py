"""`pip install nfd-gfd` without the extra `master`: programs answer --help, and say in one line what is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from nfd.cli import COMMANDS
from nfd.runtime.optional_packages import PACKAGES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAMS: dict[str, str] = {
    name: where for name, where in PROJECT["scripts"].items() if not name.startswith("kubectl_complete-")
}
"""Those that people run; kubectl runs the others."""
BLOCKED = """
import importlib, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
sys.argv = {argv}
sys.exit(getattr(importlib.import_module({module!r}), {function!r})())
"""
SAID = re.compile(r"[^\n]*the package \w+ is not installed; run: pip install 'nfd-gfd\[master\]'\"?\}?\n")
ALIASES = {"kubectl-inspect-gpushare": "kubectl nfd"}
"""Programs that are a command of another one, whose name they print."""
NEED_MORE = {
    "nodes": "nodes",
    "gpus": "gpus",
    "find": "find cpu-model.id",
    "explain": "explain node cpu-model.id",
    "diff": "diff a b",
    "plan": "plan --config FILE",
    "report": "report node",
    "up": "up --oneshot --nodes nodes",
    "compat": "compat validate-node --image localhost:1/image",
    "test": "test -f RULES -n node",
}


def start(program: str, *words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    module, _, function = PROGRAMS[program].partition(":")
    code = BLOCKED.format(packages=set(PACKAGES), argv=[program, *words], module=module, function=function)
    variables = {"NODE_NAME": "a", "NAMESPACE": "a", "NODE_ADDRESS": "127.0.0.1", "CONFIG_FILE_SRCDIR": str(folder)}
    environment = {**os.environ, **variables, "CONFIG_FILE_DST": str(folder / "link"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=120, check=False
    )


def test_these_are_the_packages_of_the_extra() -> None:
    named = {re.split(r"[><=~]", one)[0] for one in PROJECT["optional-dependencies"]["master"]}
    imported = packages_distributions()
    assert {name for package in PACKAGES for name in imported[package]} == named


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_each_program_answers(program: str, flag: str) -> None:
    done = start(program, flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert ALIASES.get(program, program.removeprefix("kubectl-")) in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_answers(command: str) -> None:
    done = start("nfd", command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"nfd {command}" in done.stdout


@pytest.mark.parametrize("line", NEED_MORE.values(), ids=NEED_MORE)
def test_a_command_says_what_to_install(line: str, tmp_path: Path) -> None:
    (tmp_path / "FILE").write_text("{}")
    (tmp_path / "RULES").write_text((ROOT / "deploy/examples/rules.yaml").read_text())
    done = start("nfd", *line.split(), folder=tmp_path)
    assert done.returncode == 2
    assert SAID.fullmatch(done.stderr), done.stderr


@pytest.mark.parametrize(
    ("program", "words", "status"),
    [
        ("nfd-master", [], 2),
        ("nfd-gc", [], 2),
        ("nfd-topology-updater", [], 2),
        ("config-manager", ["--oneshot"], 1),
        ("gpu-feature-discovery", ["--oneshot", "--use-node-feature-api", "--fail-on-init-error=false"], 1),
    ],
)
def test_a_program_says_what_to_install(program: str, words: list[str], status: int, tmp_path: Path) -> None:
    done = start(program, *words, folder=tmp_path)
    assert done.returncode == status
    assert SAID.fullmatch(done.stderr.splitlines(keepends=True)[-1]), done.stderr


def test_what_needs_no_cluster_works(tmp_path: Path) -> None:
    """Scanning, rules and configuration."""
    for line in (
        "discover --sources cpu,kernel",
        "rules validate deploy/examples/rules.yaml",
        "config example --program worker",
        "completion bash",
    ):
        done = start("nfd", *line.split())
        assert done.returncode == 0, (line, done.stderr)
