"""A child that fails is a failure with its reason, wherever tests and measurements start one."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.children import ChildError, run, run_binary

ROOT = Path(__file__).parents[1]
HELPER = ROOT / "tests/children.py"


def script(code: str) -> list[str]:
    return [sys.executable, "-c", f"import sys, time\n{code}"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('all is well'); sys.exit('no such folder')", "exit status 1:\nno such folder"),
        ("print('on the wrong stream'); sys.exit(3)", "exit status 3:\non the wrong stream"),
        ("sys.exit(4)", "exit status 4, without a word"),
        ("sys.stderr.buffer.write(b'\\xff odd'); sys.exit(1)", "\ufffd odd"),
        ("print('asleep', file=sys.stderr, flush=True); time.sleep(60)", "not over after 2 s:\nasleep"),
    ],
)
def test_the_error_has_what_the_child_said(code: str, said: str) -> None:
    with pytest.raises(ChildError, match=r"sys\.exit|time\.sleep") as caught:
        run_binary(script(code), timeout=2)
    assert said in str(caught.value)


def test_what_it_prints_comes_back() -> None:
    assert run(script("print(input())"), input="text").stdout == "text\n"
    assert run_binary(script("print(input())"), input=b"bytes").stdout == b"bytes\n"


FAILING = """
import os
import sys
from pathlib import Path
from tests.children import LOGS
from tests.controlplane.process import Process

LOG = Path(__file__).with_name("log")

def test_it():
    old = LOG.with_name("old")
    old.write_text("nothing new")
    os.utime(old, (1, 1))
    LOGS[old] = "idle"
    beside = Process("server", [sys.executable, "-c", "raise SystemExit('the disk is full')"], LOG)
    beside.start()
    beside._running.wait(30)
    assert beside.alive()
"""


def test_a_failure_tells_what_ran_beside_it(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING)
    words = ["-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", str(tmp_path / "test_failing.py")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with pytest.raises(ChildError) as caught:
        run([sys.executable, *words], cwd=tmp_path, env=env, stderr=subprocess.STDOUT, timeout=60)
    said = str(caught.value)
    assert "log of server" in said
    assert "the disk is full" in said
    assert "log of idle" not in said


def checked(path: Path) -> Iterator[str]:
    """Calls that leave a child's failure to `subprocess`, whose error lacks the reason."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        asked = any(word.arg == "check" and getattr(word.value, "value", None) is not False for word in node.keywords)
        if name in ("check_output", "check_call", "check_returncode") or (name == "run" and asked):
            yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_nobody_else_lets_a_child_fail_without_its_reason() -> None:
    files = [path for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py") if path != HELPER]
    assert len(files) > 300
    assert [place for path in files for place in checked(path)] == []
