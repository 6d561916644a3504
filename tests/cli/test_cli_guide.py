"""docs/cli.md: every command in it, run on the recorded fleet, prints what stands there.

`pytest tests/cli/test_cli_guide.py --update-expected` writes what is printed now into the page.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nfd.cli import COMMANDS, inspect_gpushare, main
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import eventually
from tests.fleet20.place import SELECTOR, FleetPlace, fleet_on
from tests.master.custom_resources import API

PAGE = Path(__file__).parents[2] / "docs/cli.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"[Ff]ile `([\w.-]+)`:\n\n```yaml\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^\$ nfd (.*)\n", re.M)
AGE = re.compile(r"(?<=  )\d+[smhd](?: +|$)", re.M)
"""An age in a table, with the blanks behind it."""
NODES = ("nodes", "gpus", "find", "plan")
"""Commands about all nodes: other tests may have left some."""


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetPlace]:
    with fleet_on(control_plane, tmp_path_factory.mktemp("guide"), "--serve-reports", "--enable-taints") as place:
        control_plane.create("/api/v1/namespaces", {"metadata": {"name": "nfd"}})
        config = {"metadata": {"name": "nfd-worker-conf"}, "data": {"nfd-worker.conf": "core: {}\n"}}
        control_plane.create("/api/v1/namespaces/nfd/configmaps", config)
        yield place


@pytest.fixture(autouse=True)
def _here(fleet: FleetPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the files of the page, and the cluster as a person has it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(fleet.plane.kubeconfig))
    (tmp_path / "recordings").symlink_to(fleet.folder / "machines")
    for name, text in FILE.findall(PAGE.read_text()):
        (tmp_path / name).write_text(text)


def words_of(line: str, fleet: FleetPlace) -> list[str]:
    """What a person types, and what tells the fleet from what other tests have left."""
    words = [str(word).strip("'") for word in re.findall(r"'[^']*'|\S+", line)]
    if words[0] in NODES and not {"--selector", "--replay"} & {*words}:
        words += ["-l", SELECTOR]
    url = f"http://localhost:{fleet.master.http_port}"
    if words[0] == "plan" and "--replay" not in words:
        words.append(f"--master={url}")
    return [url if word == "http://localhost:8081" else word for word in words]


def printed(line: str, fleet: FleetPlace, capsys: pytest.CaptureFixture[str]) -> str:
    line, _, file = line.partition(" > ")
    status = main(words_of(line, fleet))
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    if file:
        Path(file).write_text(out)
        return ""
    return AGE.sub(lambda found: "2m".ljust(len(found[0])) if found[0].endswith(" ") else "2m", out)


def test_the_guide(fleet: FleetPlace, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    """Ages apart, word by word."""
    page = PAGE.read_text()
    commands = [line for block in BLOCK.findall(page) for line in COMMAND.findall(block)]
    assert {line.split()[0] for line in commands} == {*COMMANDS} - {"up", "completion", "compat"}

    def run_block(found: re.Match[str]) -> str:
        parts = [f"$ nfd {line}\n{printed(line, fleet, capsys)}" for line in COMMAND.findall(found[1])]
        return "```console\n" + "\n".join(parts) + "```"

    now = BLOCK.sub(run_block, page)
    if request.config.getoption("--update-expected"):
        PAGE.write_text(now)
    assert now.splitlines() == PAGE.read_text().splitlines()


def test_a_report_names_no_machine(fleet: FleetPlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Identifiers of the Node and names of nodes are gone, features and configuration there."""
    node = fleet.node("gpu-a100-3")
    url = f"http://localhost:{fleet.master.http_port}"
    words = ["--names", "--namespace=nfd", f"--master={url}", "-O", str(tmp_path / "x.tar.gz")]
    assert main(["report", "gpu-a100-3", *words]) == 0, capsys.readouterr().err
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        files = {one.name.partition("/")[2]: archive.extractfile(one) for one in archive.getmembers()}
        texts = {name: file.read().decode() for name, file in files.items() if file is not None}
    assert {"node.yaml", "summary.json", "versions.json", "features.yaml", "report.json"} <= texts.keys()
    assert texts["config/nfd-worker-conf/nfd-worker.conf"] == "core: {}\n"
    whole = "".join(texts.values())
    secrets = [node["metadata"]["uid"], node["status"]["nodeInfo"]["bootID"], *(one.name for one in fleet.nodes)]
    assert [secret for secret in secrets if secret in whole] == []
    assert yaml.safe_load(texts["node.yaml"])["metadata"]["labels"]["nvidia.com/gpu.state"] == "degraded"
    assert main(["report", "gpu-a100-3", *words]) == 2
    assert "already exists" in capsys.readouterr().err


ODD = [
    (["nodes", "no-such-node"], "NODE no-such-node: no such node"),
    (["nodes", "--where", "a ="], "expression, column 4: expected a value at the end"),
    (["nodes", "-l", "a=b=c"], "-l/--selector: 'a=b=c'"),
    (["gpus", "--selector=pool in a"], "-l/--selector: 'pool in a' is not one of KEY, !KEY"),
    (["find", "a b"], "expression, column 3"),
    (["diff", "gpu-t4-1", "nope"], "NODE nope: no such node"),
    (["report", "nope"], "NODE nope: no such node"),
    (["plan"], "no change given: use --config, --rules or --delete-rules"),
    (["plan", "--rules", "/nowhere/x.yaml"], "/nowhere/x.yaml: No such file"),
    (["plan", "--delete-rules", "nope"], "--delete-rules nope: no such NodeFeatureRule"),
    (["plan", "--config", "/nowhere/x.conf"], "/nowhere/x.conf: No such file"),
    (["plan", "--delete-rules", "x", "--master", "http://example.com"], "a token is never sent in plain text"),
    (["plan", "--delete-rules", "x", "--master", "localhost:1"], "must be http://HOST:PORT"),
    (["plan", "--delete-rules", "x", "--master", "http://[::1"], "--master http://[::1: "),
    (["report", ""], "NODE '' is empty"),
    (["report", "a/b"], "NODE 'a/b' "),
    (["nodes", "--kubeconfig", "/nowhere/k"], "kubeconfig /nowhere/k: "),
]


@pytest.mark.parametrize(("words", "said"), ODD, ids=lambda value: value[0] if isinstance(value, list) else "")
def test_mistakes(words: list[str], said: str, fleet: FleetPlace, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit status 2."""
    more = [] if words[0] != "plan" or "--master" in words else [f"--master=http://localhost:{fleet.master.http_port}"]
    assert main([*words, *more]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def test_the_table_of_gpushare_is_the_one_of_nfd_gpus(fleet: FleetPlace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpus", "--pods"]) == 0
    table = capsys.readouterr().out
    assert "aliyun.com/gpu-mem" in table
    assert inspect_gpushare([]) == 0
    assert capsys.readouterr().out == table


def test_what_fails_is_no_usage_error(fleet: FleetPlace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--delete-rules=x", f"--master=http://localhost:{fleet.plane.ports.etcd}"]) == 1
    assert "the master does not serve reports; start it with --serve-reports" in capsys.readouterr().err
    assert main(["plan", "--delete-rules=x", "--master=http://localhost:1"]) == 1
    assert "port-forward" in capsys.readouterr().err
    assert main(["nodes", "-l", "no/such"]) == 0
    assert capsys.readouterr() == ("", "no nodes\n")


def test_explain_names_the_term_that_fails(fleet: FleetPlace, capsys: pytest.CaptureFixture[str]) -> None:
    """By the features that the worker reported, and the rules of the cluster."""
    rule = yaml.safe_load(dict(FILE.findall(PAGE.read_text()))["rules.yaml"])
    url = f"http://localhost:{fleet.master.http_port}"
    fleet.plane.request("POST", f"{API}/nodefeaturerules", rule)
    try:
        assert main(["explain", "gpu-t4-1", "big-gpus", f"--master={url}"]) == 0
        missing = capsys.readouterr().out
        label = "feature.node.kubernetes.io/big-gpus"
        eventually(lambda: label in fleet.node("gpu-h200-1")["metadata"]["labels"])
        assert main(["explain", "gpu-h200-1", "big-gpus", f"--master={url}"]) == 0
        present = capsys.readouterr().out
        assert main(["explain", "cpu-x86-1", "big-gpus", f"--master={url}"]) == 0
        assert f"cpu-x86-1 has not reported to {url}" in capsys.readouterr().out
    finally:
        fleet.plane.request("DELETE", f"{API}/nodefeaturerules/{rule['metadata']['name']}")
    query = f"/api/v1/nodes?labelSelector={SELECTOR},{label}"
    eventually(lambda: not fleet.plane.request("GET", query)["items"])
    eventually(lambda: not any(label in str(fleet.node(one.name)["spec"]) for one in fleet.nodes))
    assert "nvidia.gpu: memory Gt [80000] does not match: it is '15360'" in missing
    assert "from feature nvidia.gpu" in present


@pytest.mark.parametrize("name", ["nfd-worker-conf", "release-node-feature-discovery-worker-conf"])
def test_the_present_configuration_is_that_of_the_cluster(
    name: str, fleet: FleetPlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ConfigMap of the master's namespace counts: what it says already is no change; mistakes in it name it."""
    path = "/api/v1/namespaces/node-feature-discovery/configmaps"
    new = "sources: {pci: {deviceLabelFields: [vendor]}}\n"
    (tmp_path / "nfd-worker.conf").write_text(new)
    words = words_of("plan --config nfd-worker.conf", fleet)
    config = {"metadata": {"name": name}, "data": {"nfd-worker.conf": new}}
    fleet.plane.request("POST", path, config)
    try:
        assert main(words) == 0
        assert capsys.readouterr().out.splitlines()[-1] == "0 of 20 nodes change: 0 added, 0 changed, 0 removed"
        fleet.plane.request("PATCH", f"{path}/{name}", {"data": {"nfd-worker.conf": "core: {labelSources: 7}"}})
        assert main(words) == 2
        assert f"ConfigMap node-feature-discovery/{name}:1: core.labelSources" in capsys.readouterr().err
    finally:
        fleet.plane.request("DELETE", f"{path}/{name}")
