"""Layers, what each lays over the one before, and what is wrong with them."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nfd.config.load import check, files, inline, layer_of, load, read_file
from nfd.config.overlay import Layer, Origin
from nfd.config.yamltext import MAX_BYTES, parse
from nfd.errors import ConfigError
from tests.config.sample import Config


def layer(text: str, name: str = "f", origin: Origin = Origin.FILE) -> Layer:
    return layer_of(name, parse(text, name), origin)


def value(config: Any, path: str) -> Any:
    for name in path.split("."):
        config = getattr(config, name)
    return getattr(config, "pattern", config)


MERGES: list[tuple[str, list[str], dict[str, Any]]] = [
    ("nothing", [""], {"core.sleep_interval": 60, "sources.pci.device_class_whitelist": ("03", "0b40")}),
    (
        "empty sections",
        ["core:\nsources: {pci: null, fake: }"],
        {"core.port": 8080, "sources.fake.labels": {"a": "true"}},
    ),
    ("letters' case", ["CORE: {SLEEPINTERVAL: 1m}"], {"core.sleep_interval": 60}),
    ("two spellings merge", ["Core: {port: 1}\ncore: {qps: 2}"], {"core.port": 1, "core.qps": 2.0}),
    ("a key twice", ["core: {port: 1, port: 2}"], {"core.port": 2}),
    ("later layers win", ["core: {port: 1, qps: 3}", "core: {port: 2}"], {"core.port": 2, "core.qps": 3.0}),
    ("null keeps a value", ["core: {port: 1}", "core: {port: null}"], {"core.port": 1}),
    ("nanoseconds", ["core: {sleepInterval: 5000000000}"], {"core.sleep_interval": 5}),
    (
        "a list replaces",
        ["sources: {pci: {deviceClassWhitelist: ['12']}}"],
        {"sources.pci.device_class_whitelist": ("12",)},
    ),
    ("an empty list", ["sources: {pci: {deviceClassWhitelist: []}}"], {"sources.pci.device_class_whitelist": ()}),
    ("a null list", ["sources: {pci: {deviceClassWhitelist: }}"], {"sources.pci.device_class_whitelist": ()}),
    (
        "nothing in a list keeps the text of its place",
        ["sources: {pci: {deviceClassWhitelist: [~, '12', ~]}}"],
        {"sources.pci.device_class_whitelist": ("03", "12", "")},
    ),
    ("maps merge", ["sources: {fake: {labels: {b: 'x'}}}"], {"sources.fake.labels": {"a": "true", "b": "x"}}),
    ("a null map", ["sources: {fake: {labels: }}"], {"sources.fake.labels": {}}),
    (
        "objects lie over objects",
        ["sources: {fake: {instances: [{x: '9'}]}}"],
        {"sources.fake.instances": ({"name": "one", "x": "9"},)},
    ),
    (
        "and new ones follow",
        ["sources: {fake: {instances: [{}, {}, {z: w}]}}"],
        {"sources.fake.instances": ({"name": "one", "x": "1"}, {"name": "two"}, {"z": "w"})},
    ),
    (
        "free objects too",
        ["sources: {custom: [{name: a, labels: {x: '1'}}]}", "sources: {custom: [{labels: {z: '2'}}]}"],
        {"sources.custom.rules": ({"name": "a", "labels": {"x": "1", "z": "2"}},)},
    ),
    ("united lists", ["core: {deny: [a, b]}", "core: {deny: [b, c]}"], {"core.deny": ("a", "b", "c")}),
    ("the deprecated key wins", ["core: {sources: [x], labelSources: [z]}"], {"core.label_sources": ("x",)}),
    ("but not when null", ["core: {sources: , labelSources: [z]}"], {"core.label_sources": ("z",)}),
    ("whole fractions", ["core: {port: 2.0, qps: 3}"], {"core.port": 2, "core.qps": 3.0}),
    ("klog is loose", ["core: {klog: {v: '3', logDir: /x, skipHeaders: 'true'}}"], {"core.klog.v": 3}),
    ("json", ['{"core": {"port": 7}}'], {"core.port": 7}),
]


@pytest.mark.parametrize(("texts", "expected"), [m[1:] for m in MERGES], ids=[m[0] for m in MERGES])
def test_layers(texts: list[str], expected: dict[str, Any]) -> None:
    config, _ = load(Config, [layer(text) for text in texts])
    assert {path: value(config, path) for path in expected} == expected


WARNINGS = [
    ("core: {colour: blue}", "f:1: core.colour: unknown key"),
    ("core: {prot: 1}", "f:1: core.prot: unknown key; did you mean port?"),
    ("sources:\n  gpu: {}", "f:2: sources.gpu: unknown key"),
    (
        "sources: {pci: {deviceClassWhitelist: [\n  '03',\n  0300]}}",
        "f:3: sources.pci.deviceClassWhitelist[1]: expected text, a number is used as '192'; put it in quotes",
    ),
    (
        "sources: {fake: {labels: {b: yes}}}",
        "f:1: sources.fake.labels.b: expected text, a boolean is used as 'true'; put it in quotes",
    ),
    ("core: {sources: [x]}", "f:1: core.sources: is deprecated; use labelSources"),
    ("core: {klog: {nope: 1}}", "f:1: core.klog.nope: unknown key"),
    ("core:\n  PORT: 1\n  port: 2", "f:2: core.PORT: is the same key as port, which overrides it"),
    ("core:\n  port: 1\n  port: 2", "f:3: core.port: is written twice; the last one is used"),
]


@pytest.mark.parametrize(("text", "warning"), WARNINGS)
def test_warnings_name_file_and_key(text: str, warning: str) -> None:
    assert [str(one) for one in load(Config, [layer(text)]).findings] == [warning]
    assert [str(one) for one in check(Config, [layer(text)])] == [warning]


ERRORS = [
    ("core: 5", "f:1: core: expected a section, found a number"),
    ("core: [a]", "f:1: core: expected a section, found a list"),
    ("- a", "f: expected a mapping, found a list"),
    ("core: {labelSources: all}", "f:1: core.labelSources: expected a list, found text"),
    ("core:\n  labelSources: [[a]]", "f:2: core.labelSources[0]: expected text, found a list"),
    ("core: {noPublish: 'true'}", "f:1: core.noPublish: expected true or false, found text"),
    ("core: {port: '8080'}", "f:1: core.port: expected a whole number, found text"),
    ("core: {port: 1.5}", "f:1: core.port: expected a whole number, found a number"),
    ("core: {port: .inf}", "f:1: core.port: expected a whole number, found a number"),
    ("core: {port: true}", "f:1: core.port: expected a whole number, found a boolean"),
    ("core: {qps: x}", "f:1: core.qps: expected a number, found text"),
    ("core: {sleepInterval: soon}", "f:1: core.sleepInterval: 'soon' is not a duration such as 60s or 1h30m"),
    ("core: {sleepInterval: true}", "f:1: core.sleepInterval: expected a duration such as 60s or 1h30m"),
    ("core: {sleepInterval: .inf}", "f:1: core.sleepInterval: inf is longer than a duration can be, 292 years"),
    (
        "core: {sleepInterval: 9999999h}",
        "f:1: core.sleepInterval: '9999999h' is longer than a duration can be, 292 years",
    ),
    ("core: {sleepInterval: '5'}", "f:1: core.sleepInterval: '5' is not a duration such as 60s or 1h30m"),
    ("core: {mode: both}", "f:1: core.mode: 'both' is not one of 'none', 'single'"),
    ("sources: {fake: {labels: [a]}}", "f:1: sources.fake.labels: expected a mapping, found a list"),
    ("sources: {custom: {name: x}}", "f:1: sources.custom: expected a list, found a mapping"),
    ("core: {klog: {v: many}}", "f:1: core.klog.v: 'many' is not a whole number"),
    ("core: {port: x, qps: y}", "f:1: core.port: expected a whole number, found text (and 1 more)"),
]


@pytest.mark.parametrize(("text", "reason"), ERRORS)
def test_wrong_types_are_errors(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(Config, [layer(text)])
    assert str(caught.value) == reason


def test_a_bad_pattern_is_an_error_that_names_the_place() -> None:
    with pytest.raises(
        ConfigError, match=r"^f:2: core\.labelWhiteList: '\(' is not a regular expression \(RE2\): missing \): \($"
    ):
        load(Config, [layer("core:\n  labelWhiteList: '('")])


def test_strict_text() -> None:
    with pytest.raises(ConfigError, match=r"core\.nodeName: expected text, found a number 192; put it in quotes"):
        load(Config, [layer("core: {nodeName: 0300}")], strict_text=True)


def test_deprecated_keys_count_in_files_only() -> None:
    config, findings = load(Config, [layer("core: {sources: [x]}"), *inline("core: {sources: [z]}")])
    assert config.core.label_sources == ("x",)
    assert "--options: core.sources: can only be set in files; use labelSources" in map(str, findings)
    config, _ = load(Config, [layer("core: {sources: [x]}"), *inline("core: {labelSources: [z]}")])
    assert config.core.label_sources == ("z",)


def test_files_and_drop_ins(tmp_path: Path) -> None:
    path = tmp_path / "w.conf"
    assert files(path) == []
    assert files("") == []
    with pytest.raises(ConfigError, match=r"w\.conf: No such file"):
        files(path, required=True)
    path.write_text("core: {port: 1, qps: 1}")
    folder = tmp_path / "w.conf.d"
    folder.mkdir()
    (folder / "20-b.conf").write_text("core: {port: 3}")
    (folder / "10-a.yaml").write_text("core: {port: 2, nodeName: a}")
    (folder / ".hidden").write_text("{")
    (folder / "..data").mkdir()
    config, _ = load(Config, files(path))
    assert (config.core.port, config.core.qps, config.core.node_name) == (3, 1, "a")
    path.unlink()
    assert load(Config, files(path)).config.core.port == 3


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a regular file"):
        files(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="not a regular file"):
        files(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="null byte"):
        files("a\0b")
    (tmp_path / "big").write_bytes(b"#" * 2**21)
    with pytest.raises(ConfigError, match="larger than 1024 KiB"):
        files(tmp_path / "big")


def test_drop_ins_that_cannot_be_examined(tmp_path: Path) -> None:
    """A link to a name that no file system has; the same happens in a folder that may be listed and not searched."""
    (tmp_path / "w.conf").write_text("core: {port: 1}")
    folder = tmp_path / "w.conf.d"
    folder.mkdir()
    (folder / "10.conf").symlink_to("x" * 300)
    with pytest.raises(ConfigError, match=r"w\.conf\.d: File name too long"):
        files(tmp_path / "w.conf")


def test_the_null_device_is_an_empty_file() -> None:
    assert load(Config, files("/dev/null", required=True)) == load(Config, [])
    with pytest.raises(ConfigError, match="/dev/zero: is not a regular file"):
        files("/dev/zero", required=True, pipes=True)


def test_a_pipe_is_read_to_its_end_where_a_person_asks(tmp_path: Path) -> None:
    named = tmp_path / "pipe"
    os.mkfifo(named)
    with ThreadPoolExecutor() as pool:
        written = pool.submit(named.write_text, "core: {port: 7}")
        assert load(Config, files(named, pipes=True)).config.core.port == 7
        assert written.result(10)
        written = pool.submit(named.write_bytes, b"#" * (MAX_BYTES + 1))
        with pytest.raises(ConfigError, match="larger than 1024 KiB"):
            files(named, pipes=True)
        assert written.result(10)
    reader, writer = os.pipe()
    os.write(writer, b"core: {port: 8}")
    os.close(writer)
    assert read_file(f"/dev/fd/{reader}", pipes=True) == b"core: {port: 8}"
    os.close(reader)


def test_a_configuration_is_frozen() -> None:
    config, _ = load(Config, [])
    with pytest.raises(ValueError, match="frozen"):
        config.core.port = 3


@pytest.mark.parametrize(
    ("start", "line", "end"),
    [
        ("core: &a\n", "  k{}: 1\n", "sources: *a\n"),
        ("core:\n", "  k{}: 1\n", ""),
        ("core:\n  <<:\n", "  - {{k{}: 1}}\n", ""),
    ],
    ids=["behind an alias", "plain", "merged"],
)
def test_many_unknown_keys_take_time_in_proportion(start: str, line: str, end: str) -> None:
    took = []
    for count in (500, 2000):
        began = time.process_time()
        findings = check(Config, [layer(start + "".join(map(line.format, range(count))) + end)])
        took.append(time.process_time() - began)
        assert len(findings) >= count
    assert took[1] < 10 * max(took[0], 0.02)
