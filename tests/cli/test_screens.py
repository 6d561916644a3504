"""Tables and bars, the cleaning of reports, and plans on recorded machines: what needs no cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nfd.cli.nodes import age
from nfd.cli.report.bundle import Cleaner
from nfd.cli.terminal_tables import Style, bar, columns, size_text
from tests.cli.small import MACHINE, make

Run = Callable[..., tuple[int, str, str]]
PLAIN, COLOUR = Style(False), Style(True)
ROWS = [["gpu-1", "4×A100", "long text at the end"], ["b", "", "\x1b[31mred"]]


def test_columns() -> None:
    lines = columns(["NAME", "GPUS", "NOTE"], ROWS, PLAIN).splitlines()
    assert lines[1] == "gpu-1  4×A100  long text at the end"
    assert lines[2] == "b      -       \\x1b[31mred"


@pytest.mark.parametrize("width", [1, 8, 20, 30, 80])
def test_no_line_is_longer_than_the_screen(width: int) -> None:
    assert max(map(len, columns(["NAME", "GPUS", "NOTE"], ROWS, PLAIN, width=width).splitlines())) <= width


@pytest.mark.parametrize(
    ("taken", "total", "full"), [(0, 8, 0), (1, 800, 1), (799, 800, 19), (8, 8, 20), (9, 8, 20), (1, 0, 20), (0, 0, 0)]
)
def test_bars(taken: int, total: int, full: int) -> None:
    """Something is never shown as nothing, nor nearly full as full."""
    text = bar(taken, total, PLAIN)
    assert (len(text), text.count("█")) == (20, full)
    assert "\x1b[" in bar(taken, total, COLOUR)


def test_sizes_and_ages() -> None:
    assert [size_text(mib) for mib in (0, 512, 15360, 81559)] == ["", "512 MiB", "15 GiB", "79.65 GiB"]
    now = datetime(2026, 1, 2, tzinfo=UTC)
    times = ("", "2026-01-01T23:59:50Z", "2026-01-01T22:00:00Z", "2025-12-01T00:00:00Z", "2026-01-03T00:00:00Z", "odd")
    assert [age(time, now) for time in times] == ["", "10s", "2h", "32d", "0s", "?"]


SECRETS = [
    "00:1b:21:aa:bb:cc",
    "4c4c4544-0042-3510-8052-b4c04f4e3733",
    "10.20.30.40",
    "fd00:1:2::77",
    "2001:470:1:2:3:4:5:6",
]
FIELDS = ["machineID: 3f2a77c1aa0e4f7fb1d2f3a4b5c6d7e8", '"serial": "1322621064404"', "asset_tag=AB-12345"]
HARMLESS = [
    "0000:3b:00.0",
    "580.159.04",
    "6.8.0-45-generic",
    "2026-11-28T03:04:14Z",
    "127.0.0.1",
    "::1",
    "nvidia.com/gpu.memory: 81559",
    "v1.36.2",
]


def test_reports_lose_what_names_a_machine() -> None:
    """The same value becomes the same text, another one another."""
    cleaner = Cleaner(["gpu-1", "gpu-10"])
    text = " ".join([*SECRETS, *FIELDS, *HARMLESS])
    clean = cleaner.text(text)
    values = [*SECRETS, *(field.split(maxsplit=1)[-1].strip('"') for field in FIELDS[:2]), "AB-12345"]
    assert [value for value in values if value in clean] == []
    assert [value for value in HARMLESS if value not in clean] == []
    assert cleaner.text("10.20.30.40 10.20.30.41 10.20.30.40").split()[0::2] == [cleaner.text("10.20.30.40")] * 2
    assert cleaner.text("gpu-10 gpu-1 gpu-1.x gpu-100") == "node-1 node-2 gpu-1.x gpu-100"
    assert cleaner.text("Bearer eyJhbGciOiJSUzI1.eyJpc3MiOiJrdWJl.c2lnbmF0dXJl") == "Bearer (token 1)"


def test_a_plan_on_recorded_machines(run: Run, tmp_path: Path) -> None:
    """Folders of machines; the present files count; nothing changes where nothing does."""
    for name in ("a", "b"):
        make(tmp_path / "machines" / name, MACHINE)
    (tmp_path / "rule.yaml").write_text(
        "apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\nmetadata: {name: r}\nspec: {rules: [{name: r, "
        "labels: {new: '1'}, taints: [{key: example.com/t, effect: NoSchedule}], "
        "matchFeatures: [{feature: pci.device, matchExpressions: {vendor: {op: In, value: ['10de']}}}]}]}\n"
    )
    (tmp_path / "new.conf").write_text("core: {labelSources: [pci]}\n")
    (tmp_path / "nfd-master.conf").write_text("enableTaints: true\n")
    replay, rule = f"--replay={tmp_path / 'machines'}", str(tmp_path / "rule.yaml")
    status, out, err = run("plan", replay, "--rules", rule, f"--config={tmp_path / 'nfd-master.conf'}", "-o", "json")
    assert (status, err) == (0, "")
    added = {"labels": {"add": {"feature.node.kubernetes.io/new": {"after": "1"}}}}
    taint = {"taints": {"add": {"example.com/t:NoSchedule": {"after": ""}}}}
    assert json.loads(out)["nodes"] == {"a": {**added, **taint}, "b": {**added, **taint}}
    status, out, _ = run("plan", replay, "--rules", rule, "--current-rules", rule, "--exit-code")
    assert (status, out.splitlines()[-1]) == (0, "0 of 2 nodes change: 0 added, 0 changed, 0 removed")
    assert "warning: rule 'r' of NodeFeatureRule r: taints are disabled in the master" in out
    status, out, _ = run("plan", replay, f"--config={tmp_path / 'new.conf'}", "--exit-code")
    assert (status, "- feature.node.kubernetes.io/kernel-version.major=6 " in out) == (1, True)
    status, _, err = run("plan", "--replay=/nowhere/m", "--rules", rule)
    assert (status, "/nowhere/m" in err) == (2, True)
