"""Rules of the worker: static ones, configured ones and those of custom.d."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nfd.config.load import inline, load
from nfd.discovery import Discovery, Plan, discover
from nfd.host import CUSTOM_D
from nfd.host.replay import Replay
from nfd.sources import custom, kernel, memory, pci, section
from nfd.worker.config import model
from tests.sources.hosts import make_host, scan

NUMA = {"feature": "memory.numa", "matchExpressions": {"node_count": {"op": "Exists"}}}
NODES = {"sys/bus/node/devices/node0/": ""}


def rules(*names: str) -> str:
    """A rule file; each rule gives a label of its name."""
    return "".join(f"- name: {name}\n  labels: {{{name}: '1'}}\n" for name in names)


def device(vendor: str) -> dict[str, str]:
    folder = "sys/bus/pci/devices/0000:01:00.0"
    names = ("class", "vendor", "device", "subsystem_vendor", "subsystem_device")
    return {f"{folder}/{name}": f"0x{vendor}\n" for name in names}


def scan_all(host: Replay, previous: Discovery | None = None, *configured: Any) -> Discovery:
    found = (kernel.SOURCE, memory.SOURCE, pci.SOURCE)
    config = section()(custom=custom.Config(rules=configured))
    configs = {source.name: getattr(config, source.name) for source in (*found, custom.SOURCE)}
    return discover(host, Plan(found, (custom.SOURCE,), configs), previous)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {}),
        (device("15b3"), {"rdma.capable": "true"}),
        (device("8086"), {}),
        ({"proc/modules": "ib_uverbs 1\nrdma_ucm 1\n"}, {"rdma.available": "true"}),
        ({"proc/modules": "ib_uverbs 1\n"}, {}),
    ],
)
def test_static_rules(tmp_path: Path, files: dict[str, str], expected: dict[str, str]) -> None:
    found = scan_all(make_host(tmp_path, files))
    assert found.labels == expected
    assert not found.failed


def test_files_in_their_order_hidden_ones_and_deeper_ones_left_out(tmp_path: Path) -> None:
    files = {
        f"{CUSTOM_D}/b": rules("b"),
        f"{CUSTOM_D}/.hidden": rules("hidden"),
        f"{CUSTOM_D}/a/x.yaml": rules("a-x"),
        f"{CUSTOM_D}/a/.y": rules("a-y"),
        f"{CUSTOM_D}/a/deep/z": rules("a-deep-z"),
        f"{CUSTOM_D}/.folder/v": rules("folder-v"),
        f"{CUSTOM_D}/..copy/u": rules("copy-u"),
    }
    host = make_host(tmp_path, files)
    assert list(scan(host, custom.SOURCE).labels) == ["folder-v", "a-x", "b"]


def test_a_configmap_mount(tmp_path: Path) -> None:
    host = make_host(tmp_path, {f"{CUSTOM_D}/..2024/rules.yaml": rules("mounted"), "other/": ""})
    folder = tmp_path / CUSTOM_D
    (folder / "..data").symlink_to("..2024")
    (folder / "rules.yaml").symlink_to("..data/rules.yaml")
    found = scan(host, custom.SOURCE)
    assert found.labels == {"mounted": "1"}
    assert not found.failed


def test_configured_rules_come_before_files_and_see_the_static_ones(tmp_path: Path) -> None:
    matched = {"feature": "rule.matched", "matchExpressions": {"rdma.capable": {"op": "IsTrue"}}}
    rule = {"name": "r", "labels": {"who": "config", "fast": "1"}, "matchFeatures": [matched]}
    file = (
        "- name: f\n  labels: {who: file}\n  matchFeatures:\n  - {feature: rule.matched, matchExpressions: [fast=1]}\n"
    )
    host = make_host(tmp_path, device("15b3") | {f"{CUSTOM_D}/f": file})
    assert scan_all(host, None, rule).labels == {"rdma.capable": "true", "who": "file", "fast": "1"}


def test_what_a_rule_gives_is_not_cleaned(tmp_path: Path) -> None:
    bad = {"bad key": "1", "value": "a b", "ref": "@cpu.model.id", "/slash": "1", "a.b/c/d": "1", "X/y": "1"}
    rule = {"name": "r", "labels": {"good": "1", "vendor.example/good": ""} | bad}
    found = scan_all(make_host(tmp_path, {}), None, rule)
    assert found.labels == {"good": "1", "vendor.example/good": ""}
    assert {problem.subject for problem in found.problems} == bad.keys()


@pytest.mark.parametrize(
    "text",
    [
        "- name: [",
        "- name: a\n  taints: []\n",
        "- name: a\n  lables: {x: '1'}\n",
        "- matchFeatures: [{feature: a.b, matchExpression: {}}]",
        "- 5",
        "just text",
    ],
)
def test_a_rejected_file_is_told_and_removes_nothing(tmp_path: Path, text: str) -> None:
    host = make_host(tmp_path, {f"{CUSTOM_D}/a": rules("a"), f"{CUSTOM_D}/b": text})
    found = scan(host, custom.SOURCE)
    assert found.labels == {"a": "1"}
    assert f"{CUSTOM_D}/b" in found.failed["custom"]
    assert [problem.subject for problem in found.problems] == [f"{CUSTOM_D}/b"]
    assert found.lost == frozenset()


def test_what_nfd_passes_over_rejects_no_file(tmp_path: Path) -> None:
    term = "{feature: memory.numa, matchExpressions: {node_count: {op: Exists, values: [x]}}}"
    text = f"-\n- name: r\n  labels: {{r: '1'}}\n  matchFeatures: [{term}]\n"
    found = scan_all(make_host(tmp_path, NODES | {f"{CUSTOM_D}/a": text}))
    assert found.labels == {"r": "1"}
    assert not found.failed
    assert "values" in found.problems[0].reason


def test_an_unreadable_file_leaves_the_others(tmp_path: Path) -> None:
    host = make_host(tmp_path, {f"{CUSTOM_D}/a": rules("a")})
    (tmp_path / CUSTOM_D / "b").symlink_to("b")
    found = scan(host, custom.SOURCE)
    assert found.labels == {"a": "1"}
    assert f"{CUSTOM_D}/b" in found.failed["custom"]


def test_a_bad_rule_spoils_only_itself(tmp_path: Path) -> None:
    wrong = {"feature": "memory.numa", "matchExpressions": {"node_count": {"op": "Gt", "value": ["many"]}}}
    bad = {"name": "bad", "labels": {"bad": "1"}, "matchFeatures": [wrong]}
    odd = {"name": "odd", "labels": ["no", "mapping"]}
    found = scan_all(make_host(tmp_path, NODES), None, bad, odd, {"name": "good", "labels": {"good": "1"}})
    assert found.labels == {"good": "1"}
    assert any("bad" in problem.subject for problem in found.problems)
    assert sum("odd" in problem.subject for problem in found.problems) == 1


def test_templates_know_the_time_of_the_machine(tmp_path: Path) -> None:
    host = make_host(tmp_path, {"host.json": '{"time": 1700000000}'})
    rule = {"name": "t", "labelsTemplate": 'year={{ now | date "2006" }}', "matchFeatures": [NUMA]}
    make_host(tmp_path, NODES)
    assert scan_all(host, None, rule).labels == {"year": "2023"}


def test_no_label_goes_before_all_features_have_been_read(tmp_path: Path) -> None:
    rule = {"name": "n", "labels": {"nodes": "1"}, "matchFeatures": [NUMA]}
    host = make_host(tmp_path, NODES)
    nodes = tmp_path / "sys/bus/node/devices"
    known = scan_all(host, None, rule)
    assert known.labels == {"nodes": "1"}
    (nodes / "node0").rmdir()
    nodes.rmdir()
    nodes.symlink_to("devices")
    fresh = scan_all(host, None, rule)
    assert fresh.failed.keys() == {"memory", "custom"}
    later = scan_all(host, known, rule)
    assert later.labels == {"nodes": "1"}
    assert later.failed.keys() == {"memory"}


def test_rules_in_the_configuration_file() -> None:
    text = "sources:\n  custom:\n  - name: a\n    labels: {a: '1'}\n"
    config, findings = load(model(), inline(text))
    assert config.sources.custom.rules[0]["labels"] == {"a": "1"}
    assert not findings


def test_nothing_where_text_belongs_is_empty_text(tmp_path: Path) -> None:
    text = "sources:\n  custom:\n  - name:\n    labels: {a: , b: true, c: 1.50}\n    vars: {v: null}\n"
    config, _ = load(model(), inline(text))
    found = scan_all(make_host(tmp_path, {f"{CUSTOM_D}/f": "- labels: {f: }\n"}), None, *config.sources.custom.rules)
    assert found.labels == {"a": "", "b": "true", "c": "1.5", "f": ""}
    assert not found.failed
    assert any("empty text" in problem.reason for problem in found.problems)


def test_a_label_of_two_rules_is_a_note(tmp_path: Path) -> None:
    """The later one counts; the same value twice is nothing to tell."""
    configured = [{"name": name, "labels": {"x": name, "y": "same"}} for name in ("one", "two")]
    found = scan_all(make_host(tmp_path, {}), None, *configured)
    assert found.labels == {"x": "two", "y": "same"}
    assert [(one.source, one.subject, one.reason) for one in found.problems] == [
        ("custom", "x", "rule 'two' writes 'two' over 'one', which rule 'one' gives")
    ]


MANY = """- name: many
  labelsTemplate: "{{{{range untilStep 0 {0} 1}}}}{1}{{{{.}}}}={2}\\n{{{{end}}}}"
  matchFeatures: {3}
"""
EVER = "[{feature: memory.numa, matchExpressions: {node_count: {op: Exists}}}]"


@pytest.mark.parametrize(
    ("count", "value", "reason"),
    [
        (2001, "1", "gives 2001 labels; at most 2000 are allowed here"),
        (1500, "1" * 60, "letters of labels; at most 65536 are allowed here"),
    ],
)
def test_a_rule_that_gives_too_much_fails_alone(tmp_path: Path, count: int, value: str, reason: str) -> None:
    """A master would reject the report with the labels of all sources."""
    files = {f"{CUSTOM_D}/a": MANY.format(count, "n", value, EVER), f"{CUSTOM_D}/b": rules("b")}
    found = scan_all(make_host(tmp_path, NODES | files))
    assert found.labels == {"b": "1"}
    assert "rule 'many' failed" in found.failed["custom"]
    assert reason in found.failed["custom"]
    assert "custom" in found.doubtful


def test_rules_that_give_too_much_together(tmp_path: Path) -> None:
    """Those that fit are there."""
    files = {f"{CUSTOM_D}/{name}": MANY.format(1500, name, "1", EVER) for name in "abc"}
    found = scan_all(make_host(tmp_path, NODES | files))
    assert len(found.labels) == 3000
    assert "gives 1500 labels; at most 1000 are allowed here" in found.failed["custom"]
