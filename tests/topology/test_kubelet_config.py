"""The kubelet's configuration, over TLS with a token and from a file; and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nfd.errors import HostError
from nfd.topology import cli
from nfd.topology.kubelet import Manager, default_uri, read_manager
from tests.controlplane import pki
from tests.deploy.rendering import chart_objects, container_of, one, overlay
from tests.deploy.settings import SETTINGS
from tests.topology.kubelet import configz

CONFIG = {"topologyManagerPolicy": "restricted", "topologyManagerScope": "pod", "nodeStatusMaxImages": 50}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> pki.Pki:
    return pki.create(tmp_path_factory.mktemp("kubelet"))


async def test_from_the_kubelet_itself(files: pki.Pki, tmp_path: Path) -> None:
    """Its certificate is one of its own making. The token is read anew each time."""
    token = tmp_path / "token"
    token.write_text("right\n")
    with configz(CONFIG, "right".__eq__, files.certificate, files.key) as uri:
        assert await read_manager(uri, str(token)) == Manager("restricted", "pod")
        token.write_text("wrong")
        with pytest.raises(HostError, match="answers 401"):
            await read_manager(uri, str(token))
    with pytest.raises(HostError, match=uri):
        await read_manager(uri, str(token))
    with pytest.raises(HostError, match="no-such-token"):
        await read_manager(uri, "/no-such-token")


@pytest.mark.parametrize("config", [{"padding": "x" * 2_000_000}, [], {"topologyManagerPolicy": 3}])
async def test_what_is_no_configuration(files: pki.Pki, tmp_path: Path, config: Any) -> None:
    (tmp_path / "token").write_text("t")
    with configz(config, "t".__eq__, files.certificate, files.key) as uri, pytest.raises(HostError):
        await read_manager(uri, str(tmp_path / "token"))


@pytest.mark.parametrize(
    ("text", "manager"),
    [
        (json.dumps(CONFIG), Manager("restricted", "pod")),
        ("kind: KubeletConfiguration\ntopologyManagerPolicy: best-effort\n", Manager("best-effort", "container")),
        ("kind: KubeletConfiguration\n", Manager("none", "container")),
    ],
)
async def test_from_a_file_with_kubernetes_defaults(tmp_path: Path, text: str, manager: Manager) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert await read_manager(f"file://{tmp_path}/config.yaml", "") == manager


@pytest.mark.parametrize("text", ["[1]", "a: [", "topologyManagerScope: {}"])
async def test_a_file_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(HostError, match=r"config\.yaml"):
        await read_manager(f"file://{tmp_path}/config.yaml", "")


def test_addresses() -> None:
    assert default_uri("10.0.0.1") == "https://10.0.0.1:10250/configz"
    assert default_uri("fd00::1") == "https://[fd00::1]:10250/configz"
    assert default_uri("") == ""


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("-kubelet-config-uri=http://kubelet/configz",), "kubelet-config-uri"),
        (("-sleep-interval=-1s",), "sleep-interval"),
        (("-watch-namespace=A B",), "watch-namespace"),
        (("-port=70000",), "port"),
        (("-config={folder}/wrong.conf",), "excludeList"),
        (("-config=",), "NODE_ADDRESS"),
        (("-host-root=/no/such/root",), "/no/such/root"),
        (("stray",), "stray"),
        (("-nothing",), "nothing"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    named: str,
) -> None:
    monkeypatch.setenv("NODE_NAME", "node1")
    monkeypatch.delenv("NODE_ADDRESS", raising=False)
    (tmp_path / "wrong.conf").write_text("excludeList: [cpu]\n")
    assert cli.main([flag.format(folder=tmp_path) for flag in flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("nfd-topology-updater: ")
    assert named in line


def test_help_names_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    wanted = "oneshot no-publish kubeconfig port sleep-interval watch-namespace kubelet-config-uri api-auth-token-file"
    wanted += " podresources-socket config pods-fingerprint kubelet-state-dir host-root"
    assert all(f"-{name}" in text for name in wanted.split())


@pytest.mark.parametrize("flag", ["-version", "--version"])
def test_the_version(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert cli.main([flag]) == 0
    assert capsys.readouterr().out.startswith("nfd-topology-updater ")


@pytest.mark.parametrize("dashes", ["-", "--"])
def test_every_flag_of_nfd_is_taken(dashes: str) -> None:
    """NFD documentation, "Topology Updater Cmdline Reference", and klog's."""
    words = (
        "oneshot=false no-publish=false kubeconfig= port=8080 sleep-interval=1m watch-namespace=* kubelet-config-uri="
    )
    words += " api-auth-token-file=/t podresources-socket=/s config= pods-fingerprint=true kubelet-state-dir= v=1"
    words += " logtostderr=true add_dir_header=false skip_headers=false stderrthreshold=2 vmodule= metrics=8081"
    for word in words.split():
        assert cli.main([f"{dashes}{word}", "-version"]) == 0, word


@pytest.mark.parametrize("shipped", ["manifests", "chart", "chart with files"])
def test_what_is_shipped_fits_the_program(shipped: str) -> None:
    """Its flags are taken, and the socket and sysfs are where it looks for them."""
    values = SETTINGS["topology-updater-files"] if shipped.endswith("files") else SETTINGS["topology-updater"]
    objects = overlay("topologyupdater") if shipped == "manifests" else chart_objects(values)
    container = container_of(one(objects, "DaemonSet", "topology-updater"))
    assert container["command"] == ["nfd-topology-updater"]
    assert cli.main([*container["args"], "--version"]) == 0
    root = {each["name"]: each.get("value") for each in container["env"]}["NFD_HOST_ROOT"]
    places = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert places["host-sys"] == f"{root}/sys"
    assert places["pod-resources"] == f"{root}/{cli.SOCKET.rpartition('/')[0]}"
    assert places["nfd-topology-updater-conf"] == cli.CONFIG_FILE.rpartition("/")[0]
    files = {word.rpartition("file://")[2] for word in container["args"] if "file://" in word}
    assert files <= {places.get("kubelet-config")}
