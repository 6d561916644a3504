"""`gpu-feature-discovery` after a hang-up: labels that get another place, and a configuration that cannot be used."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.children import LOGS
from tests.gfd.cases import PROGRAM, prepare, read_labels
from tests.gfd.machines import H100
from tests.gfd.test_agent import DEADLINE, wait_for
from tests.gfd.test_output import device
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

REPLICAS = "nvidia.com/gpu.replicas"
SHARED = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 4}]}}\n"
FLAGS = ("--use-node-feature-api=false", "--sleep-interval=50ms", "--no-timestamp", "--config-file={DIR}/config.yaml")


class Program:
    """The program, told only by its configuration file where to write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        start = prepare({"machine": {"devices": [H100]}, "plain": True, "flags": FLAGS, "config": "{}"}, folder)
        self.configure("one")
        LOGS[folder / "log"] = PROGRAM.name
        with (folder / "log").open("w") as log, (folder / "printed").open("w") as printed:
            self.process = subprocess.Popen(
                [str(PROGRAM), *start.argv], env=dict(start.environment), stdout=printed, stderr=log
            )

    def configure(self, name: str, more: str = "", flags: str = "") -> None:
        path = self.folder / name if name else ""
        text = f"version: v1\nflags: {{gfd: {{outputFile: '{path}'}}{flags}}}\n{more}"
        (self.folder / "config.yaml").write_text(text)

    def reload(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    def reload_and_pass(self) -> None:
        """The second reload begins when the pass after the first one is over."""
        for _ in range(2):
            before = self.reloads()
            self.reload()
            wait_for(lambda before=before: self.reloads() > before, "the reload")

    def reloads(self) -> int:
        return (self.folder / "log").read_text().count("configuration reloaded")

    def labels(self, name: str) -> dict[str, str]:
        file = self.folder / name
        return read_labels(file.read_text()) if file.exists() else {}

    def logged(self, text: str) -> bool:
        return text in (self.folder / "log").read_text()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    one = Program(tmp_path)
    try:
        wait_for(lambda: one.labels("one").get(REPLICAS) == "1", "the first labels")
        yield one
    finally:
        one.process.kill()
        one.process.wait()


@pytest.mark.parametrize("name", ["two", ""], ids=["another file", "standard output"])
def test_labels_move(program: Program, name: str) -> None:
    """Those in the former file go once the new ones are written: NFD would read both, and the later name wins."""
    program.configure(name, SHARED)
    program.reload()
    wait_for(lambda: not (program.folder / "one").exists(), "the former file goes")
    assert program.labels(name or "printed")[REPLICAS] == "4"
    program.configure("one")
    program.reload()
    wait_for(lambda: program.labels("one").get(REPLICAS) == "1", "the labels are back")
    wait_for(lambda: not name or not (program.folder / name).exists(), "the former file goes")
    program.process.send_signal(signal.SIGTERM)
    assert program.process.wait(DEADLINE) == 0


def test_signals_that_mean_nothing_end_nothing(program: Program) -> None:
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        program.process.send_signal(number)
    program.configure("one", SHARED)
    program.reload()
    wait_for(lambda: program.labels("one").get(REPLICAS) == "4", "the new configuration")


def test_labels_stay_while_the_new_place_takes_none(program: Program) -> None:
    (program.folder / "other").symlink_to(".")
    program.configure("missing/two", SHARED)
    program.reload()
    wait_for(lambda: program.logged("cannot write labels"), "the folder is missing")
    assert program.labels("one")[REPLICAS] == "1"
    program.configure("other/one", SHARED)
    program.reload()
    wait_for(lambda: program.labels("one").get(REPLICAS) == "4", "the same file by another name")


@pytest.mark.parametrize("make", [os.mkfifo, device, os.mkdir], ids=["pipe", "device", "folder"])
def test_a_place_that_took_no_labels_is_not_taken_away(program: Program, make: Callable[[Path], None]) -> None:
    make(program.folder / "wrong")
    program.configure("wrong")
    program.reload()
    wait_for(lambda: program.logged("is not a regular file"), "the place is refused")
    assert program.labels("one")[REPLICAS] == "1"
    program.configure("two")
    program.reload()
    wait_for(lambda: not (program.folder / "one").exists(), "the former file goes")
    assert program.labels("two")[REPLICAS] == "1"
    assert (program.folder / "wrong").lstat()


@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_the_same_file_by_another_name_is_not_taken_away(program: Program, link: str) -> None:
    """Once the names part, because a label changes and the new name is replaced, the former one is of the past."""
    one, two = program.folder / "one", program.folder / "two"
    two.symlink_to("one") if link == "symbolic" else two.hardlink_to(one)
    program.configure("two")
    program.reload_and_pass()
    assert program.labels("one")[REPLICAS] == program.labels("two")[REPLICAS] == "1"
    program.configure("two", SHARED)
    program.reload()
    wait_for(lambda: not one.exists(), "the former file goes")
    assert program.labels("two")[REPLICAS] == "4"


@pytest.mark.parametrize("content", [None, "", " \n\t\n", "\ufeff"], ids=["missing", "empty", "blank", "mark"])
def test_a_file_that_is_being_written_anew_changes_nothing(program: Program, content: str | None) -> None:
    file = program.folder / "config.yaml"
    program.configure("two", SHARED)
    program.reload()
    wait_for(lambda: program.labels("two").get(REPLICAS) == "4", "the labels")
    file.unlink() if content is None else file.write_text(content)
    program.reload_and_pass()
    assert program.logged(f"{file}: is {'missing' if content is None else 'empty'}; its previous content")
    assert program.labels("two")[REPLICAS] == "4"
    program.configure("two")
    program.reload()
    wait_for(lambda: program.labels("two").get(REPLICAS) == "1", "the file is there again")


def test_a_strategy_that_is_none_changes_nothing(program: Program) -> None:
    program.configure("two", SHARED, ", migStrategy: double")
    program.reload()
    wait_for(lambda: program.logged("cannot reload"), "the strategy is refused")
    assert program.labels("one")[REPLICAS] == "1"
    assert program.logged("config.yaml:2: flags.migStrategy")
    assert not program.logged("cannot write labels")
    assert not (program.folder / "two").exists()
