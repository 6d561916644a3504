"""`$KUBECONFIG` lists, contexts, impersonation and timeouts as in kubectl; errors name context and kubeconfig."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import aio

from nfd.errors import ConfigError, Forbidden
from nfd.kube.client import connect
from nfd.kube.kubeconfig import Choice
from tests.controlplane.cluster import ControlPlane

Run = Callable[..., tuple[int, str, str]]
Json = dict[str, Any]
REFUSED = "http://127.0.0.1:9"


def kubeconfig(path: Path, *, current: str = "", **entries: dict[str, Json]) -> Path:
    """A file with these entries by kind and name."""
    content: Json = {"apiVersion": "v1", "kind": "Config"} | ({"current-context": current} if current else {})
    for kind, named in entries.items():
        content[kind] = [{"name": name, kind.removesuffix("s"): value} for name, value in named.items()]
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def real(control_plane: ControlPlane) -> tuple[Json, Json]:
    """The cluster and the user of the test control plane."""
    found = yaml.safe_load(control_plane.kubeconfig.read_text())
    return found["clusters"][0]["cluster"], found["users"][0]["user"]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def node(control_plane: ControlPlane) -> Iterator[str]:
    control_plane.create("/api/v1/nodes", {"metadata": {"name": "kubeconfigs-1"}})
    yield "kubeconfigs-1"
    control_plane.request("DELETE", "/api/v1/nodes/kubeconfigs-1")


def test_a_list_is_merged(
    run: Run, node: str, real: tuple[Json, Json], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Context, cluster and user are in three files, and the first file that has a name or current-context wins."""
    cluster, user = real
    files = (
        kubeconfig(tmp_path / "a/one", current="here", contexts={"here": {"cluster": "c", "user": "u"}}),
        tmp_path / "absent",
        kubeconfig(tmp_path / "b/two", current="there", clusters={"c": cluster}),
        kubeconfig(tmp_path / "c/three", users={"u": user}, clusters={"c": {"server": REFUSED}}),
    )
    (tmp_path / "empty").write_text("")
    listed = os.pathsep.join(["", *map(str, files), str(tmp_path / "empty")])
    monkeypatch.setenv("KUBECONFIG", listed)
    assert run("nodes", node, "-o", "name")[:2] == (0, f"node/{node}\n")


def test_paths_are_relative_to_their_file(
    run: Run, node: str, real: tuple[Json, Json], control_plane: ControlPlane, tmp_path: Path
) -> None:
    cluster, _ = real
    path = kubeconfig(
        tmp_path / "a/one",
        current="x",
        contexts={"x": {"cluster": "c", "user": "u"}},
        clusters={"c": cluster},
        users={"u": {"tokenFile": "secret/token"}},
    )
    (tmp_path / "a/secret").mkdir()
    token = yaml.safe_load(control_plane.kubeconfig.read_text())["users"][0]["user"]["token"]
    (tmp_path / "a/secret/token").write_text(token)
    assert run("nodes", node, "-o", "name", "--kubeconfig", str(path))[:2] == (0, f"node/{node}\n")


def test_context_cluster_and_user(run: Run, node: str, real: tuple[Json, Json], tmp_path: Path) -> None:
    cluster, user = real
    path = kubeconfig(
        tmp_path / "home/config",
        current="dead",
        contexts={"dead": {"cluster": "dead", "user": "nobody"}, "live": {"cluster": "c", "user": "u"}},
        clusters={"dead": {"server": REFUSED}, "c": cluster},
        users={"u": user, "nobody": {}},
    )
    (path.parent / ".kube").mkdir()
    path.rename(path.parent / ".kube/config")
    at = ("nodes", node, "-o", "name")
    assert run(*at, "--context", "live")[:2] == (0, f"node/{node}\n")
    assert run("--context=live", *at)[:2] == (0, f"node/{node}\n")
    assert run("-n", "x", "--context", "live", *at)[:2] == (0, f"node/{node}\n")
    assert run(*at, "--cluster", "c", "--user", "u")[:2] == (0, f"node/{node}\n")
    for words, said in (
        ((), "GET /api/v1/nodes: cannot connect to 127.0.0.1:9: Connection refused (context 'dead' of kubeconfig "),
        (("--context", "lives"), "--context: no context 'lives'; did you mean live?\n"),
        (("--context", "q"), "--context: no context 'q'; contexts: dead, live\n"),
        (("--cluster", "q"), "--cluster: no cluster 'q'; clusters: c, dead\n"),
        (("--user", "q"), "--user: no user 'q'; users: nobody, u\n"),
        (("--as-group", "g"), "--as-group needs --as\n"),
        (("--request-timeout", "soon"), "argument --request-timeout: 'soon' is not a duration such as 60s or 1h30m"),
        (("--request-timeout=-1s",), "argument --request-timeout: '-1s' is less than 0"),
    ):
        status, out, err = run(*at, *words)
        assert (status, out) == (1 if not words else 2, ""), words
        assert err.startswith("nfd nodes: "), err
        assert said in err, err
    status, _, err = run(*at, "--cluster", "c")
    assert status == 1
    assert ": 403 " in err, err
    assert err.endswith(f"(context 'dead' of kubeconfig {tmp_path}/home/.kube/config)\n"), err


def test_impersonation(run: Run, node: str, control_plane: ControlPlane, tmp_path: Path) -> None:
    """Alice may not list nodes, but a member of system:masters may."""
    words = ("nodes", node, "-o", "name", "--kubeconfig", str(control_plane.kubeconfig), "--as", "alice")
    status, _, err = run(*words)
    assert status == 1
    assert 'User "alice" cannot list resource "nodes"' in err
    assert f"of kubeconfig {control_plane.kubeconfig})\n" in err
    assert run(*words, "--as-group", "system:authenticated", "--as-group", "system:masters")[:2] == (
        0,
        f"node/{node}\n",
    )
    content = yaml.safe_load(control_plane.kubeconfig.read_text())
    content["users"][0]["user"] |= {"as": "alice", "as-groups": ["g"], "as-user-extra": {"k": ["v"]}, "as-uid": "7"}
    (tmp_path / "config").write_text(json.dumps(content))
    status, _, err = run(*words[:-4], "--kubeconfig", str(tmp_path / "config"))
    assert (status, 'User "alice" cannot list resource "nodes"' in err) == (1, True)


async def test_every_request_impersonates(control_plane: ControlPlane) -> None:
    """Those of the library, too."""
    client = await connect(str(control_plane.kubeconfig), Choice(impersonate="alice"))
    try:
        with pytest.raises(Forbidden, match="alice"):
            await client.json("GET", "/api/v1/nodes")
        with pytest.raises(aio.client.ApiException, match="alice"):
            await aio.client.CoreV1Api(client.api).list_node()
    finally:
        await client.close()


async def test_a_context_has_a_namespace(real: tuple[Json, Json], tmp_path: Path) -> None:
    context = {"cluster": "c", "user": "u", "namespace": "gpus"}
    path = kubeconfig(
        tmp_path / "one", current="x", contexts={"x": context}, clusters={"c": real[0]}, users={"u": real[1]}
    )
    client = await connect(str(path))
    assert (client.namespace, client.place) == ("gpus", f"context 'x' of kubeconfig {path}")
    await client.close()


def test_a_request_that_has_no_answer_in_time(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        path = kubeconfig(tmp_path / "one", current="x", contexts={"x": {"cluster": "c"}}, clusters={"c": server})
        status, _, err = run("nodes", "--kubeconfig", str(path), "--request-timeout", "200ms")
    assert (status, err) == (1, f"nfd nodes: GET /api/v1/nodes: no answer in time (context 'x' of kubeconfig {path})\n")


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("http://no.such.host.invalid", "cannot find the address of no.such.host.invalid: "),
        ("https://{own}", "the certificate of {own} is not trusted: "),
    ],
)
def test_why_there_is_no_connection(
    run: Run, server: str, said: str, control_plane: ControlPlane, tmp_path: Path
) -> None:
    content = yaml.safe_load(control_plane.kubeconfig.read_text())
    own = content["clusters"][0]["cluster"]["server"].removeprefix("https://")
    path = kubeconfig(
        tmp_path / "one",
        current="x",
        contexts={"x": {"cluster": "c"}},
        clusters={"c": {"server": server.format(own=own)}},
    )
    status, _, err = run("nodes", "--kubeconfig", str(path))
    assert status == 1
    assert said.format(own=own) in err, err


async def test_current_context_that_names_nothing(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "one", contexts={"x": {"cluster": "c"}, "y": {"cluster": "d"}})
    with pytest.raises(ConfigError, match=r"no current-context; contexts: x, y$"):
        await connect(str(path))
    with pytest.raises(ConfigError, match=r"context 'x': no cluster 'c'$"):
        await connect(str(path), Choice(context="x"))
