"""`nfd nodes` as a list: its order, what is cut, what is printed when nothing is there, and how it goes on."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nfd.cli.nodes import natural, order_of
from nfd.cli.terminal_tables import Style, Table
from nfd.errors import ConfigError
from nfd.fleet.node_summary import NodeSummary
from tests.controlplane.cluster import ControlPlane

Run = Callable[..., tuple[int, str, str]]
HEAD = ("NAME", "GPUS", "PROBLEMS", "CPU", "KERNEL")
ROWS = [
    ["gpu-a100-new", "1×NVIDIA-A100-SXM4-40GB", "", "AMD Milan", "5.14.0-427.13.1.el9_4.x86_64"],
    ["gpu-a100-3", "3/4×NVIDIA-A100-SXM4-80GB", "GPUs degraded, 1 of 4 GPUs failing, not ready", "AMD", "6.8.0"],
]
PREFIX = "feature.node.kubernetes.io"


def table(width: int) -> list[str]:
    return Table(HEAD, Style(False), (), width, kept=2).text(ROWS).splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_problems_are_never_cut(width: int) -> None:
    lines = table(width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert [word for word in ROWS[1][2].split() if word not in words] == []


def test_what_is_left_out_is_said() -> None:
    assert table(80)[-1] == "(too narrow for CPU, KERNEL)"
    assert table(48)[-1] == "(too narrow for GPUS, CPU, KERNEL)"
    assert not table(200)[-1].startswith("(")


def test_a_table_keeps_its_widths() -> None:
    one = Table(("A", "B"), Style(False))
    assert one.text([["long name", "x"]]) == "A          B\nlong name  x\n"
    assert one.text([["s", "y"]], heading=False) == "s          y\n"


def test_orders() -> None:
    assert sorted(["n10", "n9", "a", ""], key=natural) == ["", "a", "n9", "n10"]
    nodes = [
        NodeSummary("b", labels={"x.io/v": "9"}, cores=2),
        NodeSummary("a", labels={"x.io/v": "10"}),
        NodeSummary("c"),
    ]
    for column, wanted in (
        ("name", "abc"),
        ("{.metadata.name}", "abc"),
        ("x.io/v", "bac"),
        (r".metadata.labels.x\.io/v", "bac"),
        ("cores", "bac"),
        ("last-report", "bac"),
    ):
        assert "".join(one.name for one in sorted(nodes, key=order_of(column, nodes))) == wanted, column
    with pytest.raises(ConfigError, match=r"--sort-by kernal: no such column, .*did you mean kernel"):
        order_of("kernal", nodes)


@pytest.fixture
def nodes(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlPlane]:
    """Two nodes of this test alone; neither is ready."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    for name, model in (("lists-2", "9"), ("lists-10", "10")):
        labels = {"lists": "yes", f"{PREFIX}/cpu-model.id": model}
        control_plane.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    yield control_plane
    for name in ("lists-2", "lists-10"):
        control_plane.request("DELETE", f"/api/v1/nodes/{name}")


def test_flags_of_kubectl(run: Run, nodes: ControlPlane) -> None:
    mine = ("nodes", "-l", "lists=yes")
    assert run(*mine, "-o", "name") == (0, "node/lists-10\nnode/lists-2\n", "")
    assert run(*mine, "-o", "name", "--sort-by", "cpu-model.id")[1] == "node/lists-2\nnode/lists-10\n"
    assert run("nodes", "node/lists-2", "-o", "name")[1] == "node/lists-2\n"
    out = run(*mine, "--no-headers")[1]
    assert [line.split()[0] for line in out.splitlines()] == ["lists-10", "lists-2"]
    assert run(*mine, "-o", "wide")[1].startswith("NAME      GPUS  PROBLEMS   CPU ")
    assert run("nodes", "-l", "lists=no", "--problems") == (0, "", "no problems\n")
    assert run("nodes", "-l", "lists=no") == (0, "", "no nodes\n")
    assert run(*mine, "--watch", "-o", "json")[0] == 2
    assert run("find", "/lists = yes", "-o", "name", "-l", "lists")[1] == "node/lists-10\nnode/lists-2\n"
    assert run("find", "/lists = yes", "--no-headers", "-l", "lists")[1].startswith("lists-10  yes\n")


def start(*words: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nfd.cli", *words]
    return subprocess.Popen(command, text=True, cwd=Path(__file__).parents[2], **options)  # type: ignore[call-overload,no-any-return]


def test_watch(nodes: ControlPlane) -> None:
    """Each change that shows is a line; a label that no column has and another node's change are none."""
    process = start("nodes", "-w", "-l", "lists=yes", stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline().split()[0] for _ in range(3)] == ["NAME", "lists-10", "lists-2"]
        nodes.request("PATCH", "/api/v1/nodes/lists-2", {"spec": {"unschedulable": True}})
        assert "cordoned" in (line := process.stdout.readline())
        assert line.startswith("lists-2 ")
        nodes.request("PATCH", "/api/v1/nodes/lists-10", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})
        assert "k:NoSchedule" in (line := process.stdout.readline())
        assert line.startswith("lists-10 ")
        process.stdout.close()
        nodes.request("PATCH", "/api/v1/nodes/lists-2", {"spec": {"unschedulable": False}})
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def test_a_terminal_of_80_columns(nodes: ControlPlane) -> None:
    ours, theirs = pty.openpty()
    size = {**os.environ, "COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"}
    process = start("nodes", "--problems", "-l", "lists=yes", stdout=theirs, env=size)
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(ours, 65536):
            seen += part
    os.close(ours)
    assert process.wait(60) == 0
    lines = seen.decode().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[:3] == ["NAME", "GPUS", "PROBLEMS"]
    assert "not ready" in lines[1]


def test_lists_of_find_and_gpus(run: Run, nodes: ControlPlane) -> None:
    """As those of `nfd nodes`."""
    mine = ("find", "/lists = yes", "-l", "lists")
    assert run(*mine, "-o", "name", "--sort-by", "cpu-model.id")[1] == "node/lists-2\nnode/lists-10\n"
    wide = run(*mine, "-o", "wide")[1].splitlines()
    assert wide[0].split()[:4] == ["NAME", "lists", "GPUS", "PROBLEMS"]
    assert wide[1].split()[:3] == ["lists-10", "yes", "-"]
    assert run(*mine, "--watch", "-o", "json")[0] == 2
    assert run("find", "--drift", "--watch")[0] == 2
    nodes.request("PATCH", "/api/v1/nodes/lists-2", {"metadata": {"labels": GPU_LABELS}})
    room = {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": "2"}}
    nodes.request("PATCH", "/api/v1/nodes/lists-2/status", {"status": room})
    gpus = ("gpus", "-l", "lists=yes")
    assert run(*gpus, "-o", "name") == (0, "node/lists-2\n", "")
    assert run(*gpus, "-o", "table", "--no-headers")[1].split()[:2] == ["lists-2", "2×NVIDIA-L4"]
    assert "0/2" in run(*gpus, "-o", "wide", "--sort-by", "gpus")[1]
    assert run(*gpus, "--pods") == (0, "", "no pod holds an accelerator\n")
    assert run(*gpus, "--watch")[0] == run(*gpus, "-o", "json", "--no-headers")[0] == 2


GPU_LABELS = {f"nvidia.com/gpu.{name}": value for name, value in (("count", "2"), ("product", "NVIDIA-L4"))}


def test_find_and_gpus_go_on(nodes: ControlPlane) -> None:
    """`find` prints a node that begins or ceases to match; `gpus` one whose line has changed."""
    find = start("find", "/lists = yes and nvidia.com/gpu.count", "-w", "--no-headers", stdout=subprocess.PIPE)
    gpus = start("gpus", "-l", "lists=yes", "-o", "table", "-w", stdout=subprocess.PIPE)
    try:
        assert find.stdout is not None
        assert gpus.stdout is not None
        for labels in (GPU_LABELS, {"nvidia.com/gpu.count": "1"}, {"nvidia.com/gpu.count": None}):
            nodes.request("PATCH", "/api/v1/nodes/lists-2", {"metadata": {"labels": labels}})
            assert find.stdout.readline().split()[0] == "lists-2"
            if labels is GPU_LABELS:
                assert gpus.stdout.readline().split()[0] == "NAME"
                assert gpus.stdout.readline().split()[:2] == ["lists-2", "2×NVIDIA-L4"]
    finally:
        for process in (find, gpus):
            process.kill()
            process.communicate()
