"""Standard streams that are closed, that nobody reads to the end, or that do not end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

NFD = f"{sys.executable} -m nfd.cli"
BAD = "apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\nmetadata: {name: Bad_%d}\nspec: {rules: 5}\n"


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Within a memory limit of 2 GB, so that what has no end fails."""
    words = ["bash", "-c", f"ulimit -v 2000000; set -o pipefail; {line}"]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=60, check=False)


@pytest.mark.parametrize("count", [1, 5000])
def test_a_verdict_that_is_not_read_to_the_end_is_no_success(count: int, tmp_path: Path) -> None:
    """1 if it was there, 141 if not yet."""
    (tmp_path / "bad.yaml").write_text("---\n".join(BAD % number for number in range(count)))
    for reader in ("true", "head -c 10"):
        done = shell(f"{NFD} rules validate bad.yaml | {reader}", tmp_path)
        assert done.returncode in (1, 141), done
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("rules validate - <&-", 2, "nfd rules: standard input: is closed\n"),
        ("config validate - <&-", 2, "nfd config: standard input: is closed\n"),
        ("discover --sources fake >&-", 1, "nfd: standard output: is closed\n"),
        ("rules validate /nowhere 2>&-", 2, ""),
        ("rules validate - < /dev/zero", 2, "nfd rules: standard input: is larger than 1024 KiB\n"),
        ("config validate - < /dev/zero", 2, "nfd config: standard input: is larger than 1024 KiB\n"),
    ],
)
def test_streams_that_are_closed_or_without_end(line: str, status: int, said: str, tmp_path: Path) -> None:
    done = shell(f"{NFD} {line}", tmp_path)
    assert (done.returncode, done.stderr) == (status, said)


def test_a_kubeconfig_that_a_shell_makes(tmp_path: Path) -> None:
    """`<(…)` is a pipe that is open already; another pipe is refused, for nobody may ever write to it."""
    cluster, user = {"server": "http://127.0.0.1:1"}, {"token": "t"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    done = shell(f"{NFD} nodes --kubeconfig <(cat config)", tmp_path)
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr or "/api/v1/nodes" in done.stderr
    done = shell(f"mkfifo pipe; {NFD} nodes --kubeconfig pipe", tmp_path)
    assert (done.returncode, "is not a regular file" in done.stderr) == (2, True)
