"""What a reload makes of files that are gone or empty: the configuration in use stays."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nfd.config.flags import Parsed, configure, daemon_flags, parse
from nfd.config.yamltext import MAX_BYTES
from nfd.errors import ConfigError, FileGone
from tests.config.sample import Config

MAIN, DROP_IN = "x.conf", "x.conf.d/10.conf"
EMPTY = ("", " \n\t\r\n", "\ufeff", "\ufeff\n")
SAYS_DEFAULTS = ("{}", "# nothing\n", "---\n", "~", "--- {}")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "x.conf.d").mkdir()
    (tmp_path / MAIN).write_text("core: {port: 1}")
    (tmp_path / DROP_IN).write_text("core: {qps: 2}")
    return tmp_path


def command(place: Path) -> Parsed:
    return parse("prog", [f"--config={place / MAIN}"], daemon_flags("/nowhere"), Config, "X", environment={})


def values(parsed: Parsed) -> tuple[int, float]:
    core: Any = configure(Config, parsed).config.core
    return core.port, core.qps


def gone(parsed: Parsed) -> FileGone:
    with pytest.raises(FileGone) as caught:
        configure(Config, parsed)
    return caught.value


@pytest.mark.parametrize("name", [MAIN, DROP_IN])
@pytest.mark.parametrize("text", EMPTY)
def test_an_empty_file_is_no_news(place: Path, name: str, text: str) -> None:
    parsed, before = command(place), (place / name).read_text()
    assert values(parsed) == (1, 2)
    (place / name).write_text(text)
    assert (str(gone(parsed)).partition(";")[0], gone(parsed).news) == (f"{place / name}: is empty", False)
    (place / name).write_text(before)
    assert values(parsed) == (1, 2)
    (place / name).write_text(text)
    assert gone(parsed).news


@pytest.mark.parametrize(("name", "left"), [(MAIN, (8080, 2)), (DROP_IN, (1, 5))])
@pytest.mark.parametrize("text", SAYS_DEFAULTS)
def test_a_file_that_says_so_means_the_defaults(place: Path, name: str, left: tuple[int, float], text: str) -> None:
    parsed = command(place)
    assert values(parsed) == (1, 2)
    (place / name).write_text(text)
    assert values(parsed) == left
    (place / name).unlink()
    assert values(parsed) == left, "what said nothing may go"


def _renamed(place: Path) -> None:
    (place / MAIN).rename(place / "kept")


def _dangling(place: Path) -> None:
    (place / MAIN).unlink()
    (place / MAIN).symlink_to(place / "nowhere")


def _without_key(place: Path) -> None:
    """What a mounted ConfigMap does."""
    (place / MAIN).unlink()
    shutil.rmtree(place / "x.conf.d")


@pytest.mark.parametrize("remove", [_renamed, _dangling, _without_key])
def test_a_main_file_that_is_gone_is_no_news(place: Path, remove: Callable[[Path], None]) -> None:
    parsed = command(place)
    values(parsed)
    remove(place)
    assert (gone(parsed).news, gone(parsed).news) == (True, False)
    assert values(command(place))[0] == 8080, "a new start has nothing that could stay"


def test_a_drop_in_is_taken_back_by_itself_but_not_with_its_folder(place: Path) -> None:
    parsed = command(place)
    assert values(parsed) == (1, 2)
    (place / "x.conf.d").rename(place / "away")
    assert "10.conf: is gone" in str(gone(parsed))
    (place / "away").rename(place / "x.conf.d")
    assert values(parsed) == (1, 2)
    (place / DROP_IN).unlink()
    assert values(parsed) == (1, 5)


def test_a_configuration_that_was_refused_holds_nothing(place: Path) -> None:
    """Files count by the configuration in use."""
    parsed = command(place)
    (place / DROP_IN).unlink()
    values(parsed)
    (place / DROP_IN).write_text("core: {port: no}")
    with pytest.raises(ConfigError, match="expected a whole number"):
        configure(Config, parsed)
    (place / DROP_IN).write_text("")
    assert values(parsed) == (1, 5)


def test_a_swap_of_a_mounted_config_map_is_taken_at_once(tmp_path: Path) -> None:
    for version, port in (("one", 1), ("two", 2)):
        (tmp_path / version).mkdir()
        (tmp_path / version / MAIN).write_text(f"core: {{port: {port}}}")
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / MAIN).symlink_to(f"..data/{MAIN}")
    parsed = command(tmp_path)
    assert values(parsed)[0] == 1
    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert values(parsed)[0] == 2


def test_a_named_file_that_never_was_is_said_once(tmp_path: Path) -> None:
    parsed = command(tmp_path)
    assert [str(one).partition(";")[0] for one in configure(Config, parsed).findings] == [
        f"{tmp_path / MAIN}: no such file"
    ]
    assert not configure(Config, parsed).findings
    unnamed = parse("prog", [], daemon_flags(str(tmp_path / MAIN)), Config, "X", environment={})
    assert not configure(Config, unnamed).findings
    (tmp_path / MAIN).write_text("")
    assert not configure(Config, command(tmp_path)).findings


def _unreadable(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _too_large(path: Path) -> None:
    path.write_text(f"# {'x' * MAX_BYTES}")


SPOILT = [
    _unreadable,
    _too_large,
    lambda path: path.write_text("core: ["),
    lambda path: path.write_text("core: {qps: many}"),
    lambda path: path.write_text("core: {sleepInterval: soon}"),
    lambda path: path.write_text("- a list"),
]


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_spoilt_drop_in_costs_no_other_file(place: Path, spoil: Callable[[Path], object]) -> None:
    """What it said before counts, and a finding tells; what is new elsewhere is taken, and what goes is gone."""
    other = place / "x.conf.d/20.conf"
    other.write_text("core: {mode: single}")
    parsed = command(place)
    assert (*values(parsed), configure(Config, parsed).config.core.mode) == (1, 2, "single")
    spoil(place / DROP_IN)
    (place / MAIN).write_text("core: {port: 3}")
    other.unlink()
    loaded = configure(Config, parsed)
    assert (loaded.config.core.port, loaded.config.core.qps, loaded.config.core.mode) == (3, 2, "none")
    (finding,) = loaded.findings
    assert str(finding).startswith(f"{place / DROP_IN}: is invalid, its previous content stays in use:  ")
    assert values(parsed) == (3, 2), "and so it stays"
    (place / DROP_IN).unlink()
    assert values(parsed) == (3, 5), "until it is taken back"
    spoil_new = place / "x.conf.d/30.conf"
    spoil_new.write_text("x")
    spoil(spoil_new)
    with pytest.raises(ConfigError):
        values(parsed)


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_spoilt_file_is_no_configuration(place: Path, spoil: Callable[[Path], object]) -> None:
    """The one that `--config` names, and any file at the start."""
    parsed = command(place)
    assert values(parsed) == (1, 2)
    spoil(place / MAIN)
    with pytest.raises(ConfigError):
        values(parsed)
    (place / MAIN).unlink()
    (place / MAIN).write_text("core: {port: 1}")
    spoil(place / DROP_IN)
    with pytest.raises(ConfigError):
        values(command(place))
