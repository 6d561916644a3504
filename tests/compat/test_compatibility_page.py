"""docs/compatibility.md: its specification, pushed to a registry, gives the table that stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nfd.cli import main
from tests.cli.small import MACHINE, make
from tests.compat.registries import REPOSITORY, Publisher, registry

PAGE = Path(__file__).parents[2] / "docs/compatibility.md"


def test_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.read_text()
    (specification,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)
    (shown,) = re.findall(r"^```console\n\$ nfd compat[^\n]*\n(.*?)^```$", page, re.M | re.S)
    with registry(tmp_path / "registry") as host:
        publisher = Publisher(host)
        publisher.attach(publisher.image("1"), specification)
        machine = make(tmp_path / "machine", MACHINE)
        words = [f"--image={host}/{REPOSITORY}:1", "--plain-http", f"--replay={machine}"]
        assert main(["compat", "validate-node", *words]) == 0
    assert capsys.readouterr().out == shown
