"""`nfd up`: worker, gRPC and master in one process, no cluster and no configuration."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.machines import Machine, expected_labels
from tests.e2e.nodes import ORIGINS, OWNED, F
from tests.e2e.programs import Program, eventually

RECORDING = "debian-12-epyc-milan"
NAME = "mine"
Start = Callable[..., Program]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Start]:
    """Starts it with its Node files in `nodes`."""
    made: list[Program] = []

    def start(*flags: str) -> Program:
        words = ("up", f"--nodes={tmp_path / 'nodes'}", *flags)
        made.append(Program("nfd", words, tmp_path / f"up-{len(made)}.log", variables={"NODE_NAME": NAME}))
        made[-1].start()
        return made[-1]

    yield start
    for program in made:
        program.kill()
        assert "Traceback" not in program.text()


def read(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((tmp_path / "nodes" / f"{NAME}.yaml").read_text())
    return found


def labels(tmp_path: Path) -> dict[str, str]:
    return dict(read(tmp_path)["metadata"]["labels"])


def test_it_prints_a_table_labels_the_node_file_and_ctrl_c_ends_it_within_2_s(up: Start, tmp_path: Path) -> None:
    """The file holds exactly the labels that the recording expects, and the ownership annotations."""
    machine, wanted = Machine.like(RECORDING, tmp_path / "machine"), expected_labels(RECORDING)
    program = up(f"--replay={machine.root}")
    eventually(lambda: "the Node object is in" in program.text())
    node = read(tmp_path)
    assert (node["apiVersion"], node["kind"], node["metadata"]["name"]) == ("v1", "Node", NAME)
    assert node["metadata"]["labels"] == wanted
    assert node["metadata"]["annotations"].keys() == {OWNED, ORIGINS}
    table = program.text()
    assert table.startswith(f"node {NAME}: {len(wanted)} labels\n")
    rows = [line.split() for line in table.splitlines() if line.startswith("  ")]
    assert {row[0] for row in rows} >= wanted.keys()
    assert program.stop(signal.SIGINT, seconds=10) == 0
    assert program.text().endswith(f"\nended; the labels stay in {tmp_path / 'nodes' / NAME}.yaml\n")
    assert labels(tmp_path) == wanted


def test_a_changed_configuration_is_read_again(up: Start, tmp_path: Path) -> None:
    """Written in place, or as another file in place of the old one."""
    machine, config = Machine.like(RECORDING, tmp_path / "machine"), tmp_path / "conf"
    config.write_text("core: {labelSources: [cpu], sleepInterval: 1h}\n")
    program = up(f"--replay={machine.root}", f"--config={config}")
    eventually(lambda: "watching for changes" in program.text())
    assert not any(key.startswith(F + "kernel-") for key in labels(tmp_path))
    config.write_text("core: {labelSources: [cpu, kernel], sleepInterval: 1h}\n")
    eventually(lambda: f"+ {F}kernel-version.full=" in program.text())
    (tmp_path / "new").write_text("core: {labelSources: [kernel], sleepInterval: 1h}\n")
    (tmp_path / "new").replace(config)
    eventually(lambda: all(key.startswith(F + "kernel-") for key in labels(tmp_path)))
    before = labels(tmp_path)
    config.write_text("")
    eventually(lambda: "missing or empty" in program.text())
    config.write_text("core: {labelSources: [kernel, lokal], sleepInterval: 1h}\n")
    eventually(lambda: "core.labelSources[1]" in program.text())
    assert labels(tmp_path) == before
    assert program.stop(signal.SIGINT, seconds=10) == 0


def test_this_machines_labels(up: Start, tmp_path: Path) -> None:
    """Whatever runs the tests has a processor, a kernel and a distribution."""
    program = up("--oneshot")
    assert program.wait(30) == 0
    found = {key.removeprefix(F).partition(".")[0] for key in labels(tmp_path)}
    assert {"kernel-version", "system-os_release"} <= found
    assert any(key.startswith("cpu-") for key in found)
    assert program.text().startswith(f"node {NAME}: {len(labels(tmp_path))} labels\n")


def test_it_keeps_watching_and_leaves_foreign_labels_alone(up: Start, tmp_path: Path) -> None:
    """An edit by hand stays, one of our own keys comes back, a change of the machine is printed and written."""
    machine, wanted = Machine.like(RECORDING, tmp_path / "machine"), expected_labels(RECORDING)
    (tmp_path / "conf").write_text("core: {sleepInterval: 1s}\n")
    program = up(f"--replay={machine.root}", f"--config={tmp_path / 'conf'}")
    eventually(lambda: "the Node object is in" in program.text())
    edit(tmp_path, {"foo": "bar", F + "theirs": "1", F + "system-os_release.ID": None})
    foreign = {"foo": "bar", F + "theirs": "1"}
    eventually(lambda: labels(tmp_path) == wanted | foreign)
    machine.plug("0000:c1:00.0", "120000", "1eac")
    new = {F + "pci-1200_1eac.present": "true", F + "pci-1eac.present": "true"}
    eventually(lambda: labels(tmp_path) == wanted | foreign | new)
    eventually(lambda: f"+ {F}pci-1eac.present=true\n" in program.text())
    assert program.stop(signal.SIGINT, seconds=10) == 0

    once = up(f"--replay={machine.root}", "--oneshot")
    assert once.wait(30) == 0
    assert labels(tmp_path) == wanted | foreign | new


def edit(tmp_path: Path, changes: dict[str, str | None]) -> None:
    """As an editor does it: another file in place of the old one."""
    node = read(tmp_path)
    merged = node["metadata"]["labels"] | changes
    node["metadata"]["labels"] = {key: value for key, value in merged.items() if value is not None}
    new = tmp_path / "nodes" / "new"
    new.write_text(yaml.safe_dump(node))
    new.replace(tmp_path / "nodes" / f"{NAME}.yaml")
