"""Completion in the shells themselves, as far as they are there, and the reference made from the same parsers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nfd.cli import COMMANDS, main
from nfd.cli.completion import all_commands, render
from nfd.cli.kubectl_complete import main as kubectl_complete
from nfd.cli.reference import manual, page
from tests.children import run
from tests.e2e.programs import SCRIPTS

Run = Callable[..., tuple[int, str, str]]
ASK = """
source "$1"; shift
COMP_WORDS=(nfd "$@"); COMP_CWORD=$#; COMPREPLY=()
_nfd
printf '%s\\n' "${COMPREPLY[@]}"
"""
TYPED = [
    ([""], {*COMMANDS, "--help", "--version"}),
    (["no"], {"nodes"}),
    (["nodes", "-o", ""], {"table", "wide", "json", "yaml", "name"}),
    (["nodes", "--wh"], {"--where"}),
    (["rules", ""], {"eval", "validate", "-h", "--help"}),
    (["rules", "eval", "--out"], {"--output"}),
    (["rules", "eval", "--rules", "a.y"], {"a.yaml"}),
    (["plan", "--replay", "a."], {"a.yaml"}),
    (["completion", "z"], {"zsh"}),
    (["config", "docs", "--program", "m"], {"master"}),
    (["find", "--kubeconfig", "zz"], {""}),
]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").touch()
    (tmp_path / "nfd.bash").write_text(render("bash"))
    return tmp_path / "nfd.bash"


@pytest.mark.parametrize(
    ("typed", "offered"), TYPED, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_bash(typed: list[str], offered: set[str], script: Path) -> None:
    assert ask("bash", script, typed) == offered


def ask(shell: str, script: Path, typed: list[str]) -> set[str]:
    command = [shell, "-c", ASK, shell, str(script), *typed]
    done = run(command, cwd=script.parent)
    assert done.stderr == ""
    return set(done.stdout.split("\n")[:-1])


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ([""], {*COMMANDS, ":4"}),
        (["no"], {"nodes", ":4"}),
        (["zzz", ""], {":4"}),
        (["nodes", "-o", ""], {"table", "wide", "json", "yaml", "name", ":4"}),
        (["nodes", "--wh"], {"--where", ":4"}),
        (["rules", ""], {"eval", "validate", ":4"}),
        (["rules", "eval", "--out"], {"--output", ":4"}),
        (["rules", "validate", ""], {":0"}),
        (["plan", "--replay", ""], {":0"}),
        (["completion", "z"], {"zsh", ":4"}),
    ],
)
def test_kubectl(typed: list[str], offered: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    """As kubectl asks: one offer a line, with a description behind a tab, then what else may be offered."""
    assert kubectl_complete(typed) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition("\t")[0] for line in lines} == offered
    assert lines[-1] in (":0", ":4")


def test_kubectl_runs_it(tmp_path: Path) -> None:
    """The real kubectl finds the program by its name, and completes `kubectl nfd`."""
    own = tmp_path / "kubectl_complete-nfd"
    own.write_text(f"#!{sys.executable}\nimport sys\nfrom nfd.cli.kubectl_complete import main\nsys.exit(main())\n")
    own.chmod(0o755)
    path = f"{tmp_path}:{SCRIPTS}:{os.environ['PATH']}"
    done = run(["kubectl", "__complete", "nfd", "find", "--sort"], env={**os.environ, "PATH": path})
    assert done.stdout.splitlines()[0].startswith("--sort-by")


def test_bash_asks_the_cluster_for_nodes(script: Path) -> None:
    """By the same program; here a function stands where a cluster would."""
    (script.parent / "with").write_text(
        f'nfd() {{ [ "$*" = "nodes -o name" ] && echo node/gpu-1 && echo node/gpu-2; }}\nsource {script}\n'
    )
    assert ask("bash", script.parent / "with", ["diff", "gpu"]) == {"gpu-1", "gpu-2"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_scripts(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        assert os.environ.get("CI") != "true", f"the Debian package {shell} is missing"
        pytest.skip(f"{shell} is not installed (Debian package {shell})")
    (tmp_path / "script").write_text(render(shell))
    run([shell, "-n", str(tmp_path / "script")], timeout=30)


def test_fish_names_every_flag() -> None:
    text = render("fish")
    for words in all_commands():
        for flag in words.flags:
            assert all(f"-{'l' if name.startswith('--') else 's'} {name.lstrip('-')}" in text for name in flag.names)


def test_every_command_has_help_with_examples(run: Run) -> None:
    for name in ("nodes", "gpus", "find", "diff", "plan", "report", "completion"):
        status, out, err = run(name, "--help")
        assert (status, err) == (0, "")
        assert f"\nexamples:\n  nfd {name}" in out
        assert run("help", name) == (0, out, "")


def test_reference_and_manual_name_every_command_and_flag(run: Run) -> None:
    text, roff = page(), manual()
    assert run("help", "--man") == (0, roff, "")
    for words in all_commands():
        assert f"nfd {' '.join(words.path)}" in text
        for flag in words.flags:
            if "--help" not in flag.names:
                assert ", ".join(flag.names) in text
                assert ", ".join(flag.names).replace("-", r"\-") in roff
    assert [line for line in roff.splitlines() if line[:1] == "'" or "\t" in line] == []


def test_help_of_what_is_no_command(run: Run) -> None:
    status, _, err = run("help", "bogus")
    assert (status, "bogus: unknown command" in err) == (2, True)
    assert main(["completion", "tcsh"]) == 2
