"""Files that are missing or empty: at the start, and at a reload, when somebody is writing them anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gfd.agent import make_run, read_families
from gfd.families import overlay
from gfd.options import Choice, Config, Flags, Loaded, parse_options
from nfd.config.options import Option, options
from nfd.errors import ConfigError

BLANK = ["", "\n", " \t\r\n\n", "\ufeff", "\ufeff \n"]
DEFAULTS = ["{}", "version: v1\n", "# nothing\n", "---\n", "null\n", "flags: {}\n"]
GIVEN = "flags: {migStrategy: single}\n"
TABLE = '"14.0": vera\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.yaml"


def read(file: Path, current: Loaded | None = None) -> Loaded:
    return choice(file).load(current)


def choice(file: Path) -> Choice:
    return parse_options([f"--config-file={file}"], {})


def given(file: Path) -> Loaded:
    file.write_text(GIVEN)
    return read(file)


@pytest.mark.parametrize("text", [*BLANK, *DEFAULTS])
def test_at_the_start_nothing_means_defaults(file: Path, text: str) -> None:
    file.write_text(text)
    config = read(file)
    assert (config.config.flags, config.warnings) == (Flags(), ())


@pytest.mark.parametrize("leaf", [leaf for leaf in options(Config) if not leaf.mark.outside], ids=lambda leaf: leaf.key)
def test_null_means_the_default(file: Path, leaf: Option) -> None:
    """Of every type: a default need not be what the text of a file gives (a number is nanoseconds)."""
    data: Any = None
    for key in reversed(leaf.path):
        data = {key: data}
    file.write_text(yaml.safe_dump(data))
    loaded = read(file)
    assert (loaded.config, loaded.warnings) == (Config(config_file=str(file)), ())


@pytest.mark.parametrize("text", BLANK)
def test_at_a_reload_an_empty_file_is_no_news(file: Path, text: str) -> None:
    config = given(file)
    file.write_text(text)
    for _ in range(2):
        config = read(file, config)
        assert config.config.flags.mig_strategy == "single"
        assert config.warnings == (f"{file}: is empty; its previous content stays in use",)
    file.write_text(GIVEN)
    assert read(file, config).warnings == ()


def test_at_a_reload_a_missing_file_is_no_news(file: Path) -> None:
    config = given(file)
    file.unlink()
    config = read(file, config)
    assert config.config.flags.mig_strategy == "single"
    assert config.warnings == (f"{file}: is missing; its previous content stays in use",)
    with pytest.raises(ConfigError, match="No such file"):
        read(file)


@pytest.mark.parametrize("text", DEFAULTS)
def test_at_a_reload_what_says_nothing_means_defaults(file: Path, text: str) -> None:
    config = given(file)
    file.write_text(text)
    config = read(file, config)
    assert (config.config.flags, config.warnings) == (Flags(), ())


def test_a_file_that_was_empty_before_is_empty_without_a_word(file: Path) -> None:
    file.write_text("")
    config = read(file, read(file))
    assert (config.config.flags, config.warnings) == (Flags(), ())


def test_the_null_device_means_defaults_at_a_reload_too(file: Path) -> None:
    """So says the config-manager that there is no configuration for this node."""
    config = given(file)
    file.unlink()
    file.symlink_to("/dev/null")
    config = read(file, config)
    assert (config.config.flags, config.warnings) == (Flags(), ())


@pytest.mark.parametrize("text", [None, *BLANK])
def test_families_stay_while_their_file_is_written_anew(file: Path, text: str | None) -> None:
    file.write_text(TABLE)
    families = parse_options([f"--families-file={file}"], {})
    run = make_run(families.load(), 0)
    file.unlink() if text is None else file.write_text(text)
    again = make_run(families.load(run.loaded), 0, run)
    assert again.settings.families == overlay({"14.0": "vera"})
    file.write_text("{}")
    assert make_run(families.load(again.loaded), 0, again).settings.families == overlay({})
    file.write_text("")
    assert read_families(str(file)) == overlay({})
