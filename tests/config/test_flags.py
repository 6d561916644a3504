"""Command lines and environment, as Go reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nfd import __version__
from nfd.config.flags import Extra, Gate, Parsed, configure, daemon_flags, feature_gates, parse
from nfd.config.option_values import parse_integer
from nfd.errors import ConfigError
from tests.config.sample import Config

EXTRAS = (
    *daemon_flags("/nowhere/x.conf"),
    feature_gates({"A": Gate(False), "B": Gate(True, locked=True), "C": Gate(True)}),
    Extra("oneshot", "once", False, switch=True, env=("X_ONESHOT", "ONESHOT")),
    Extra("output-file", "where", "/out", aliases=("output", "o"), env=("X_OUT",)),
    Extra("limit", "how many", 3, parse_integer, env=("X_LIMIT",)),
)


def run(*words: str, **environment: str) -> Parsed:
    return parse("prog", words, EXTRAS, Config, "NFD_WORKER", environment=environment)


def core(*words: str, **environment: str) -> Any:
    return configure(Config, run(*words, **environment)).config.core


@pytest.mark.parametrize(
    "words",
    [("-port", "9"), ("--port", "9"), ("-port=9",), ("--port=9",), ("--core.port", "9"), ("-port=1", "-port=011")],
)
def test_spellings(words: tuple[str, ...]) -> None:
    assert core(*words).port == 9


def test_switches_take_a_value_only_after_an_equals_sign() -> None:
    assert core("-no-publish").no_publish is True
    assert core("-no-publish=false").no_publish is False
    assert core("--no-publish=T").no_publish is True
    assert run("-oneshot", "--port", "1")["oneshot"] is True
    with pytest.raises(ConfigError, match="'false': not a flag"):
        run("-oneshot", "false")


LISTS = [
    ("-label-sources=cpu, pci,,", ("cpu", "pci")),
    ("-label-sources=", ()),
    ("-deny-label-ns=a, b", ("a", " b")),
    ("-deny-label-ns=", ("",)),
]


@pytest.mark.parametrize(("word", "expected"), LISTS)
def test_lists(word: str, expected: tuple[str, ...]) -> None:
    assert (core(word).label_sources if "sources" in word else core(word).deny) == expected


def test_a_flag_replaces_what_files_united(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_text("core: {deny: [a]}")
    assert core("-config", str(path), "-options", "core: {deny: [b]}").deny == ("a", "b")
    assert core("-config", str(path), "-deny-label-ns", "c").deny == ("c",)


def test_order_of_layers(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_text("core: {port: 1}")
    words = ["-config", str(path)]
    assert core(*words).port == 1
    words += ["-options", '{"core": {"port": 2}}']
    assert core(*words).port == 2
    assert core(*words, NFD_WORKER_CORE_PORT="3").port == 3
    assert core(*words, NFD_WORKER_CORE_PORT="3", OLD_PORT="4").port == 4
    assert core(*words, "-port=5", OLD_PORT="4").port == 5


def test_maps_merge_and_durations_and_patterns() -> None:
    config = configure(
        Config, run("--sources.fake.labels=b=1,c=2", "--core.sleep-interval=1m30s", "--label-whitelist=^x")
    ).config
    assert config.sources.fake.labels == {"a": "true", "b": "1", "c": "2"}
    assert config.core.sleep_interval == 90
    assert config.core.label_white_list.pattern == "^x"


def test_empty_variables() -> None:
    found = run(X_OUT="", X_ONESHOT="", X_LIMIT="")
    assert (found["output-file"], found["oneshot"], found["limit"]) == ("", False, 3)
    assert found.given == {"output-file", "oneshot"}
    assert (
        core(NFD_WORKER_CORE_PORT="", NFD_WORKER_CORE_LABEL_SOURCES="", NFD_WORKER_CORE_NO_PUBLISH="").label_sources
        == ()
    )
    assert run(X_ONESHOT="", ONESHOT="true")["oneshot"] is False


def test_service_links_of_kubernetes_are_no_settings() -> None:
    assert core(NFD_WORKER_CORE_PORT="tcp://10.0.0.1:8080").port == 8080


def test_klog_flags() -> None:
    klog = core("-v=4", "-alsologtostderr", "-log_file_max_size", "5", "--stderrthreshold=INFO").klog
    assert (klog.v, klog.also_to_stderr, klog.log_file_max_size, klog.threshold) == (4, True, 5, "INFO")


GATES: list[tuple[tuple[str, ...], dict[str, bool]]] = [
    ((), {}),
    ((" A = TRUE ,, B=1",), {"A": True}),
    (("A=true", "C=false"), {"A": True, "C": False}),
    (("A=true,C=false", "C=true"), {"A": True}),
    (("A=true", "", "B=true", "A=false"), {}),
]


@pytest.mark.parametrize(("texts", "changed"), GATES)
def test_feature_gates(texts: tuple[str, ...], changed: dict[str, bool]) -> None:
    """Flags add up, and of two for one gate the later one applies: NFD's chart renders one flag for each gate."""
    gates = {"A": False, "B": True, "C": True}
    assert run(*(f"-feature-gates={text}" for text in texts))["feature-gates"] == gates | changed


def test_other_flags_replace() -> None:
    """Also lists, as NFD's StringSetVal and StringSliceVal do (pkg/utils/flags.go)."""
    assert core("-label-sources=a,b", "-label-sources=c").label_sources == ("c",)


ERRORS = [
    (("-nope",), "-nope: unknown flag"),
    (("--confg=x",), "--confg: unknown flag; did you mean config?"),
    (("--nope=1",), "--nope: unknown flag"),
    (("-port",), "-port: needs a value"),
    (("-port=x",), "-port: 'x' is not a whole number"),
    (("-no-publish=maybe",), "-no-publish: 'maybe' is not true or false"),
    (("-limit=1.5",), "-limit: '1.5' is not a whole number"),
    (("stray",), "'stray': not a flag; prog takes no arguments"),
    (("-oneshot", "--", "-port"), "'-port': not a flag; prog takes no arguments"),
    (("-feature-gates=D=1",), "-feature-gates: 'D' is not a feature gate; known: A, B, C"),
    (("-feature-gates=D=1", "-feature-gates=A=1"), "-feature-gates: 'D' is not a feature gate; known: A, B, C"),
    (("-feature-gates=B=false",), "-feature-gates: B is locked to true"),
    (("-feature-gates=A",), "-feature-gates: '' is not true or false"),
    (("--sources.fake.labels=x",), "-sources.fake.labels: 'x' is not NAME=VALUE"),
    (("-o=1", "--output=2"), "-output: is the same flag as -o; use only one"),
    (("--port=1", "--core.port=2"), "-core.port: is the same flag as -port; use only one"),
    (("--core.sources=x",), "--core.sources: unknown flag; did you mean core.label-sources?"),
    (("--sources.custom=x",), "--sources.custom: unknown flag"),
]


@pytest.mark.parametrize(("words", "reason"), ERRORS)
def test_usage_errors_name_the_flag(words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run(*words)
    assert str(caught.value) == reason


def test_bad_values_found_at_validation_name_flag_or_variable() -> None:
    with pytest.raises(ConfigError, match=r"^-core\.mode: core\.mode: 'x' is not one of 'none', 'single'"):
        core("--core.mode=x")
    with pytest.raises(
        ConfigError, match=r"^NFD_WORKER_CORE_SLEEP_INTERVAL: core\.sleepInterval: 'x' is not a duration"
    ):
        core(NFD_WORKER_CORE_SLEEP_INTERVAL="x")
    with pytest.raises(ConfigError, match=r"^--options: core\.port: expected a whole number"):
        core("-options", "core: {port: x}")


def test_questions() -> None:
    assert run("-version").answer == f"prog {__version__}"
    assert run("-port=7", "-h").answer == run("--help").answer
    assert "--label-sources" in run("-h").answer
    assert parse("gfd", ["-v"], version_flags=("version", "v")).answer == f"gfd {__version__}"
    assert not run("-version=false", "--help=0").answer
    with pytest.raises(ConfigError, match=r"^-version: 'x' is not true or false$"):
        run("--version=x")


def test_stray_words_where_they_are_ignored() -> None:
    found = parse("gfd", ["-o", "a", "", "x", "-o", "b"], EXTRAS, allow_words=True, environment={})
    assert (found["output-file"], found.rest) == ("a", ("x", "-o", "b"))
