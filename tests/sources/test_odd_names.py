"""Names and variables that are not UTF-8: as features they are text that every program can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.config.yamltext import dump, parse
from nfd.discovery import Plan, discover
from nfd.features import printable, to_json
from nfd.host import MAX_FILE
from nfd.host.replay import Replay
from nfd.sources import BUILT_IN, cpu, system
from tests.sources.hosts import make_host, scan

HOSTS = Path(__file__).parents[1] / "hosts"
ODD = "\udcff"
"""How Python shows the byte FF in a name (PEP 383)."""
ANY = st.text(st.characters() | st.sampled_from("\ud800\udbff\udc00\udcff\udfff"))


class Doubled(Replay):
    """In its folders, each name is there a second time with another end."""

    def data(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        return super().data(path.replace(ODD, ""), limit)

    def head(self, path: str, size: int) -> bytes | None:
        return super().head(path.replace(ODD, ""), size)

    def names(self, path: str) -> tuple[str, ...]:
        return double(super().names(path.replace(ODD, "")))

    def folders(self, path: str) -> tuple[str, ...]:
        return double(super().folders(path.replace(ODD, "")))

    def _stat(self, path: str) -> Any:
        return super()._stat(path.replace(ODD, ""))


def double(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(one for name in names for one in (name, f"{name}{ODD}"))


def texts(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        for key, value in found.items():
            yield key
            yield from texts(value)
    elif isinstance(found, list):
        for one in found:
            yield from texts(one)
    else:
        yield found


@pytest.mark.parametrize(
    "machine", ["amd-mi300x-cpx", "amazon-linux-2023-graviton3-metal", "arch-alder-lake", "made-mixed", "notebook"]
)
def test_every_text_of_a_feature_is_unicode(machine: str) -> None:
    plan = Plan(BUILT_IN, BUILT_IN, {source.name: source.config() for source in BUILT_IN})
    host = Doubled(HOSTS / machine, {"NODE_NAME": f"node{ODD}"})
    try:
        found = discover(host, plan)
    finally:
        host._tree.close()
    assert found.features.attributes[system.NAME]["nodename"] == "node\ufffd"
    for text in texts(to_json(found.features)):
        text.encode()


def test_the_name_of_a_vulnerability(tmp_path: Path) -> None:
    folder = "sys/devices/system/cpu/vulnerabilities"
    make_host(tmp_path, {f"{folder}/meltdown": "Not affected\n"})
    found = scan(Doubled(tmp_path), cpu.SOURCE)
    assert found.features.attributes["cpu.vulnerability"].keys() == {"meltdown", "meltdown\ufffd"}


@given(ANY)
def test_any_text_can_be_written(text: str) -> None:
    printable(text).encode()
    if text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text):
        assert printable(text) == text


@given(st.lists(st.sampled_from(["a", "é", "\ud800", ODD, "\udfff"])).map("".join))
def test_any_text_is_written_as_yaml(text: str) -> None:
    assert parse(dump({text: text}).encode(), "x").data == {printable(text): printable(text)}
