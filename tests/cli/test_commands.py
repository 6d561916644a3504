"""The commands of `nfd` as a person calls them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nfd import __version__
from nfd.cli import COMMANDS
from nfd.config.yamltext import parse
from tests.children import run
from tests.cli.small import make

ID = "feature.node.kubernetes.io/system-os_release.ID"
Run = Callable[..., tuple[int, str, str]]


def test_version_and_help(run: Run) -> None:
    for words in ("--version", "-version", "version"):
        assert run(words) == (0, f"nfd {__version__}\n", "")
    status, out, _ = run("--help")
    assert status == 0
    assert all(name in out for name in COMMANDS)
    for name in set(COMMANDS) - {"up"}:
        status, out, _ = run(name, "--help")
        assert (status, out.startswith(f"usage: nfd {name}")) == (0, True)


def test_questions_load_nothing() -> None:
    script = "import sys; from nfd.cli import main; main(['--version']); print(sorted(sys.modules))"
    loaded = run([sys.executable, "-c", script]).stdout
    assert [name for name in ("pydantic", "yaml", "argparse", "grpc", "nfd.config") if f"'{name}'" in loaded] == []


EMPTY = str(Path(__file__).parent)
"""A folder, of no machine."""
USAGE = [
    (("bogus",), "nfd: bogus: unknown command"),
    (("discover", "--bogus"), "--bogus"),
    (("discover", "-o", "xml"), "-o"),
    (("discover", "--replay", "/nowhere/at/all"), "--replay /nowhere/at/all: No such file"),
    (("discover", "--replay", EMPTY), f"--replay {EMPTY}: no machine is recorded there"),
    (("export", "labels", "--replay", EMPTY), f"--replay {EMPTY}: no machine is recorded there"),
    (("discover", "--host-root", "/nowhere/at/all"), "--host-root /nowhere/at/all: No such file"),
    (("discover", "--config", "/nowhere/x.conf"), "/nowhere/x.conf: No such file"),
    (("discover", "stray"), "stray"),
    (("discover", "--sources", "cpu,-nope"), "--sources: unknown source '-nope'"),
    (("up", "--nodes", ""), "--nodes: the path is empty"),
    (("discover", "--replay", ""), "--replay: the path is empty"),
    (("discover", "--host-root="), "--host-root: the path is empty"),
    (("discover", "--config="), "--config: the path is empty"),
    (("plan", "--config="), "--config: the path is empty"),
    (("plan", "--rules", ""), "--rules: the path is empty"),
    (("plan", "--rules=r", "--token-file="), "--token-file: the path is empty"),
    (("config", "validate", ""), "FILE: the path is empty"),
    (("rules", "validate", "r.yaml", ""), "FILE: the path is empty"),
    (("rules", "eval", "--rules=r", "--features="), "--features: the path is empty"),
    (("validate", "-f", ""), "-f/--nodefeaturerule-file: the path is empty"),
    (("dryrun", "-f", "r", "-n", ""), "-n/--nodefeature-file: the path is empty"),
    (("export", "labels", "-p", ""), "-p/--path: the path is empty"),
    (("report", "n", "-O", ""), "-O/--output-file: the path is empty"),
    (("record", ""), "DIR: the path is empty"),
    (("nodes", "--kubeconfig", "/nowhere/k"), "nodes: kubeconfig /nowhere/k: No such file or directory\n"),
    (("explain", "-"), "LABEL"),
    (("explain", "node1", "x"), "NODE node1"),
    (("record",), "DIR"),
    (("config", "bogus"), "bogus"),
    (("config", "validate"), "FILE"),
    (("rules", "eval"), "--rules"),
    (("rules", "validate", "/nowhere/r.yaml"), "/nowhere/r.yaml: No such file"),
]


@pytest.mark.parametrize(("words", "named"), USAGE)
def test_usage_errors_are_one_line_that_names_what_is_wrong(run: Run, words: tuple[str, ...], named: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert named in err
    assert err.count("\n") == 1


def test_a_machine_may_be_a_library_for_its_gpus_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFD_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1")
    status, _, err = run("discover", "--replay", EMPTY, "--sources", "nvidia")
    assert (status, "no machine is recorded" in err) == (0, False), err


def test_no_command(run: Run) -> None:
    status, out, err = run()
    assert (status, out) == (2, "")
    assert err.startswith("Usage: nfd COMMAND")


def test_labels(run: Run, machine: str) -> None:
    status, out, err = run("discover", "--replay", machine)
    lines = out.splitlines()
    keys = [line.partition("=")[0] for line in lines]
    assert status == 0
    assert keys == sorted(keys)
    assert f"{ID}=debian" in lines
    assert "feature.node.kubernetes.io/mine=1" in lines
    assert "feature.node.kubernetes.io/pci-0302_10de.present=true" in lines
    assert not any("other.kubernetes.io" in line for line in lines)
    assert "master: other.kubernetes.io/x: dropped: namespace" in err


def test_sources_and_config(run: Run, machine: str, tmp_path: Path) -> None:
    assert run("discover", "--replay", machine, "--sources", "system")[1].splitlines()[0] == f"{ID}=debian"
    assert "os_release" not in run("discover", "--replay", machine, "--sources", "all,-system")[1]
    (tmp_path / "c").write_text("core: {labelSources: [system], labelWhiteList: 'ID$', colour: x}")
    status, out, err = run("discover", "--replay", machine, "--config", str(tmp_path / "c"))
    assert (status, out.splitlines()) == (
        0,
        [f"{ID}=debian", "feature.node.kubernetes.io/system-os_release.VERSION_ID=12"],
    )
    assert "core.colour: unknown key" in err
    (tmp_path / "c").write_text("core: {labelSources: system}")
    status, out, err = run("discover", "--replay", machine, "--config", str(tmp_path / "c"))
    assert (status, out) == (2, "")
    assert err.endswith("c:1: core.labelSources: expected a list, found text\n")


def test_json_and_features_say_the_same(run: Run, machine: str, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("core: {noPublishFeatures: ['kernel.*']}")
    words = ("discover", "--replay", machine, "--config", str(tmp_path / "c"), "-o")
    status, out, _ = run(*words, "json")
    found = json.loads(out)
    assert status == 0
    assert found.keys() == {"labels", "features", "problems"}
    assert found["labels"][ID] == "debian"
    assert found["features"]["attributes"]["kernel.config"]["elements"] == {"NO_HZ": "y", "HZ": "250"}
    assert all(one.keys() == {"source", "subject", "reason"} for one in found["problems"])
    assert any("bad/one/two" in one["subject"] for one in found["problems"])
    assert parse(run(*words, "features")[1], "f").data == {"features": found["features"]}


def test_table(run: Run, machine: str) -> None:
    status, out, _ = run("discover", "--replay", machine, "-o", "table")
    assert status == 0
    assert "\x1b" not in out
    assert "\nsystem\n" in out
    assert out.index("system-os_release.ID") < out.index("problems") < out.index("labels from")
    columns = {line.rindex("  ") for line in out.splitlines() if line.startswith("  feature.")}
    assert len(columns) == 1


def test_a_source_that_fails_altogether_is_status_1(run: Run, tmp_path: Path) -> None:
    make(tmp_path, {"sys/block/x": "", "etc/os-release": "ID=x"})
    record = {"failures": {"sys/class/net/": [5, "Input/output error"]}}
    (tmp_path / "host.json").write_text(json.dumps(record))
    (tmp_path / "sys/class/net").mkdir(parents=True)
    status, out, err = run("discover", "--replay", str(tmp_path))
    assert status == 1
    assert ID in out
    assert "network" in err


def test_record_and_replay(run: Run, machine: str, tmp_path: Path) -> None:
    target = str(tmp_path / "new/recording")
    status, out, err = run("record", "--replay", machine, target)
    assert (status, err) == (0, "")
    assert out.startswith(f"{target}: ")
    assert run("discover", "--replay", target)[1] == run("discover", "--replay", machine)[1]
    status, _, err = run("record", "--replay", machine, target)
    assert (status, err) == (2, f"nfd record: {target}: is not empty\n")


def test_a_recording_of_the_running_machine(run: Run, tmp_path: Path) -> None:
    target = str(tmp_path / "recording")
    assert run("record", target)[0] == 0
    assert run("discover", "--replay", target)[1] == run("discover")[1]


def test_a_serial_number_in_a_label_is_replaced_and_said(run: Run, tmp_path: Path) -> None:
    device = "sys/bus/usb/devices/1-1"
    files = {"bDeviceClass": "ff", "idVendor": "18d1", "idProduct": "9302", "serial": "ABC123"}
    machine = str(make(tmp_path / "machine", {f"{device}/{name}": text for name, text in files.items()}))
    (tmp_path / "c").write_text("sources: {usb: {deviceLabelFields: [serial]}}")
    status, _, err = run("record", "--replay", machine, "--config", str(tmp_path / "c"), str(tmp_path / "out"))
    assert status == 1
    assert "usb-ABC123.present: true here, (none) in the recording" in err


EXPLANATIONS = [
    ("system-os_release.ID", ["=debian", "set by source system", "from feature system.osrelease: ID=debian"]),
    ("pci-0302_10de.present", ["set by source pci", "class=0302", "vendor=10de"]),
    ("pci-0200_8086.present", ["is missing", "feature pci.device has class=0200", "sources.pci"]),
    ("kernel-config.HZ", ["is missing", "feature kernel.config has HZ, but source kernel makes no label of it"]),
    ("kernel-config.PREEMPT", ["is missing", "feature kernel.config has no PREEMPT"]),
    ("other.kubernetes.io/x", ["is missing", "namespace 'other.kubernetes.io' is not allowed"]),
    ("fake-fakefeature1", ["is missing", "source fake would set it to 'true'", "core.featureSources"]),
    (
        "rdma.capable",
        ["is missing", "rule 'RDMA capable static rule' would set it", "vendor In [15b3] does not match"],
    ),
    ("ruled", ["=yes", "set by rule 'good'", "from feature kernel.config: NO_HZ=y"]),
    ("unruled", ["is missing", "rule 'bad' would set it", "HZ In [1000] does not match: it is '250'"]),
    ("misnamed", ["is missing", "feature kernel.konfig is missing; did you mean kernel.config?"]),
    ("system-os_release.IE", ["is missing", "source system makes no such label", "system.osrelease (ID=", ID]),
    ("memory-numa", ["is missing", "source memory makes no such label"]),
    ("nvidia.com/gpu.product", ["is missing", "source nvidia makes no such label"]),
    (
        "vendor.io/x",
        ["is missing", "no matching rule and no source sets it here; sources that ran: accelerator, amd, cpu,"],
    ),
    ("unheard", ["is missing", "no source sets it here"]),
]
RULES = """
apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeatureRule
metadata: {name: r}
spec:
  rules:
  - name: good
    labels: {ruled: 'yes'}
    matchFeatures: [{feature: kernel.config, matchExpressions: {NO_HZ: {op: In, value: ['y']}}}]
  - name: bad
    labels: {unruled: 'yes'}
    matchFeatures: [{feature: kernel.config, matchExpressions: {HZ: {op: In, value: ['1000']}}}]
  - name: odd
    labels: {misnamed: 'yes'}
    matchFeatures: [{feature: kernel.konfig, matchExpressions: {HZ: {op: Exists}}}]
"""


@pytest.mark.parametrize(("label", "words"), EXPLANATIONS)
def test_explain(run: Run, machine: str, tmp_path: Path, label: str, words: list[str]) -> None:
    (tmp_path / "r.yaml").write_text(RULES)
    status, out, err = run("explain", "--replay", machine, "--rules", str(tmp_path / "r.yaml"), "-", label)
    assert (status, err) == (0, "")
    assert [word for word in words if word not in out] == []


def test_rules(run: Run, machine: str, tmp_path: Path) -> None:
    rules, features = str(tmp_path / "r.yaml"), str(tmp_path / "f.yaml")
    (tmp_path / "r.yaml").write_text(RULES)
    (tmp_path / "f.yaml").write_text(run("discover", "--replay", machine, "-o", "features")[1])
    status, out, _ = run("rules", "eval", "--rules", rules, "--features", features)
    assert (status, json.loads(out)["labels"]) == (0, {"feature.node.kubernetes.io/ruled": "yes"})
    unknown = (
        f"{rules}:15: warning: feature 'kernel.konfig': no source of nfd provides it; did you mean kernel.config?\n"
    )
    assert run("rules", "validate", rules) == (0, f"{unknown}{RULES.count('- name:')} rules, ok\n", "")
    (tmp_path / "r.yaml").write_text(RULES.replace("name: bad", "name: bad\n    colour: x"))
    status, out, _ = run("rules", "validate", rules)
    assert status == 1
    assert out.startswith(f"{rules}:11: ")


def test_the_file_of_the_device_plugin(run: Run, tmp_path: Path) -> None:
    """It is known by its keys, whatever its name; `--program` says so too."""
    path = tmp_path / "config.yaml"
    path.write_text(
        "version: v1\nflags:\n  migStrategy: single\n  gdf: {}\nsharing: {mps: {resources: [{name: gpu}]}}\n"
    )
    wanted = f"{path}:4: flags.gdf: unknown key; did you mean gfd?\n"
    wanted += f"{path}:5: sharing.mps.resources[0].replicas: is required\n"
    for words in ((), ("--program", "gfd")):
        assert run("config", "validate", *words, str(path))[:2] == (1, wanted)
    path.write_text("version: v1\nflags:\n  migStrategy: single\n")
    assert run("config", "validate", str(path)) == (0, "", "")
    path.write_text("version: 1\nflags: {migStrategy: Single}\n")
    assert run("config", "validate", str(path))[1].startswith(f"{path}:1: version: expected text")


def test_config(run: Run, tmp_path: Path) -> None:
    for program in ("worker", "master", "gfd"):
        assert json.loads(run("config", "schema", "--program", program)[1])["type"] == "object"
        assert "## `" in run("config", "docs", "--program", program)[1]
        example = run("config", "example", "--program", program)[1]
        path = tmp_path / f"nfd-{program}.conf"
        path.write_text(example)
        assert run("config", "validate", str(path)) == (0, "", "")
        path.write_text("".join(line.removeprefix("#") for line in example.splitlines(keepends=True)))
        assert run("config", "validate", str(path)) == (0, "", "")
    path = tmp_path / "bad.conf"
    path.write_text("core:\n  colour: x\n  labelSources: [cpuu]\nsources:\n  pci: {deviceClassWhitelist: [0300]}\n")
    status, out, _ = run("config", "validate", str(path))
    assert status == 1
    assert f"{path}:3: core.labelSources[0]: unknown source 'cpuu'" in out
    assert [line.partition(": ")[2].partition(": ")[0] for line in out.splitlines()] == [
        "core.colour",
        "core.labelSources[0]",
        "sources.pci.deviceClassWhitelist[0]",
    ]
