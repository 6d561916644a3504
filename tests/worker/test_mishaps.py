"""Mistakes of those who write configuration and rules, while nfd-worker runs: no label goes, and each is told once."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.rpc.loopback import Running, running
from tests.worker.process import FEATURES_D, Worker, make_machine, until, worker

CUSTOM_D = "etc/kubernetes/node-feature-discovery/custom.d"
GONE = "configuration file is missing or empty; the configuration in use stays"
REFUSED = "configuration is invalid; the previous one stays in use"
FAILED = "source failed; its last good result stays"
RULE = "sources: {custom: [{name: r, labels: {example.com/rule: '1'}}]}\n"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    (tmp_path / "machine" / CUSTOM_D).mkdir(parents=True)
    return make_machine(tmp_path / "machine")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "w.conf").write_text(RULE)
    return folder / "w.conf"


def flags(machine: Path, config: Path, master: Running) -> list[str]:
    return [f"--host-root={machine}", f"--server=localhost:{master.port}", "-port=0", f"--config={config}"]


def said(ours: Worker, event: str) -> list[dict[str, Any]]:
    return [line for line in ours.lines if line["event"] == event and line.get("source") != "nvidia"]


async def failed(ours: Worker, times: int) -> None:
    await until(lambda: len(said(ours, FAILED)) >= times)


async def loaded(ours: Worker, config: Path, text: str) -> None:
    """Write the file and wait until it is in use."""
    before = ours.events().count("configuration loaded")
    config.write_text(text)
    await ours.says("configuration loaded", before + 1)


async def test_no_label_goes_with_a_configuration_file(machine: Path, config: Path) -> None:
    """Moved away or emptied, with file events and with SIGHUP; `{}` is what takes the rule back."""
    async with running() as master, worker(*flags(machine, config, master)) as ours:
        await until(lambda: bool(master.taken.reports))
        config.rename(f"{config}~")
        await ours.says(GONE)
        ours.process.send_signal(signal.SIGHUP)
        await loaded(ours, config, RULE)
        config.write_text("")
        await ours.says(GONE, 2)
        await loaded(ours, config, RULE + "core: {sleepInterval: 50s}\n")
        assert [label["error"].partition(";")[0] for label in said(ours, GONE)] == [
            f"{config}: is gone",
            f"{config}: is empty",
        ]
        assert all("example.com/rule" in report.labels for report in master.taken.reports)
        await loaded(ours, config, "{}")
        await until(lambda: "example.com/rule" not in master.taken.reports[-1].labels)
        assert not said(ours, REFUSED)


async def test_a_configuration_of_unknown_sources_alone_is_refused(machine: Path, config: Path) -> None:
    """One of several misspelt is a warning with file, line and key."""
    async with running() as master, worker(*flags(machine, config, master)) as ours:
        await until(lambda: bool(master.taken.reports))
        before = set(master.taken.reports[0].labels)
        config.write_text("core:\n  labelSources: [kernal]\n")
        await ours.says(REFUSED)
        assert said(ours, REFUSED)[0]["error"] == "core.labelSources: it contains no known source"
        (warning,) = said(ours, "configuration")
        assert warning["error"].startswith(
            f"{config}:2: core.labelSources[0]: unknown source 'kernal'; known are accelerator,"
        )
        assert (warning["level"], warning["path"]) == ("warning", f"{config}:2")
        assert all(set(report.labels) == before for report in master.taken.reports)
        await loaded(ours, config, "core:\n  labelSources: [pci,\n   lokal]\n")
        assert any(f"{config}:3: core.labelSources[1]" in line["error"] for line in said(ours, "configuration"))
        assert not said(ours, "feature adapted")


async def test_every_reason_of_a_failing_source_is_told_once(machine: Path, config: Path) -> None:
    """Of custom.d and of features.d."""
    rules, features = machine / CUSTOM_D / "r.yaml", machine / FEATURES_D / "odd"
    reasons = ("not YAML", "has no anchor", "unknown key", "symbolic links", "is larger than")
    texts = ("- {", "- &a [*a]", "- {name: x, lables: {}}", "- {")
    async with running() as master, worker(*flags(machine, config, master)) as ours:
        await until(lambda: bool(master.taken.reports))
        for count, text in enumerate(texts[:3], 1):
            rules.write_text(text)
            await failed(ours, count)
        rules.write_text(texts[3])
        features.symlink_to("odd")
        await failed(ours, 4)
        features.unlink()
        features.write_text("x" * 70_000)
        await failed(ours, 5)
        told = said(ours, FAILED)
        assert [line["source"] for line in told] == [*["custom"] * 3, *["local"] * 2]
        for line, reason in zip(told, reasons, strict=True):
            assert reason in line["error"]
        rules.write_text("[]")
        features.unlink()
        await ours.says("source works again", 2)


async def test_a_key_written_twice_in_a_rule_file_is_a_warning(machine: Path, config: Path) -> None:
    (machine / CUSTOM_D / "r.yaml").write_text("- name: x\n  labels: {a: '1'}\n  labels: {b: '2'}\n")
    async with running() as master, worker(*flags(machine, config, master)) as ours:
        await until(lambda: bool(master.taken.reports))
        (line,) = said(ours, "mistake in a rule")
        assert (line["level"], line["source"], line["path"]) == ("warning", "custom", f"{CUSTOM_D}/r.yaml")
        assert "3" in line["error"]
        assert "labels is written twice" in line["error"]
