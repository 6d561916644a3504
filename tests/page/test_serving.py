"""The page over HTTP: who gets what, and in which form."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nfd.config.flags import parse
from nfd.master.app import open_master
from nfd.master.cli import FLAGS
from nfd.master.config import Config
from nfd.master.node.desired import OBJECT_ORIGIN, RULE_ORIGIN
from nfd.master.page.picture import fleet_data, runs
from nfd.master.page.server import ASSETS, Knowledge
from tests.controlplane.process import free_ports
from tests.page.serving import make_node, many_nodes, served

ROOT = Path(__file__).parents[2]


def get(url: str, path: str = "", **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
    parts = urlsplit(url)
    link = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    try:
        link.request("GET", parts.path + path, headers={name.replace("_", "-"): text for name, text in headers.items()})
        answer = link.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        link.close()


def test_what_is_sent() -> None:
    """Nothing runs but our own files, nothing is kept but them, and nothing is sent twice."""
    with served(many_nodes(30)) as url:
        for name in ("", *ASSETS, "fleet.json"):
            status, headers, body = get(url, name if name != "index.html" else "")
            assert status == 200, name
            assert "default-src 'none'; script-src 'self';" in headers["Content-Security-Policy"]
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == ("no-store" if name == "fleet.json" else "no-cache")
            status, packed, data = get(url, name if name != "index.html" else "", Accept_Encoding="gzip")
            assert (status, packed["Content-Encoding"], gzip.decompress(data)) == (200, "gzip", body)
            status, _, data = get(url, name if name != "index.html" else "", If_None_Match=headers["ETag"])
            assert (status, data) == (304, b"")
        assert get(url, "../fleet.json")[0] == 404
        for path in ("page/", "/"):
            assert get(url.removesuffix(path))[1]["Location"] == "page/"


def test_as_long_as_nodes_are_not_known_it_says_so() -> None:
    with served([], "the nodes are not known yet") as url:
        assert get(url, "fleet.json")[::2] == (503, b"the nodes are not known yet\n")


@pytest.mark.parametrize(
    "headers",
    [
        *(
            {"Host": text}
            for text in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "[", "", "a b")
        ),
        {"X_Forwarded_For": "10.0.0.1"},
        {"Forwarded": "for=10.0.0.1"},
        {"Via": "1.1 x"},
    ],
)
def test_only_this_machine_is_shown_the_fleet_without_a_token(headers: dict[str, str]) -> None:
    """A name that leads here from another web site does not help, and neither does a proxy on this machine."""
    with served(many_nodes(2)) as url:
        assert get(url, "fleet.json")[0] == 200
        for query in ("", "?reports", "?node=node-00000"):
            assert get(url, f"fleet.json{query}", **headers)[0] == 403
        assert get(url, **headers)[0] == 200


def test_reports_and_origins() -> None:
    """Ages in whole minutes, and whose a label is: nothing of it is known of nodes that it has not heard."""
    nodes = [make_node(name, {"x/a": "1", "x/b": "2", "x/c": "3", "x/d": "4", "x/e": "5"}) for name in ("one", "two")]
    origins = {"x/a": "cpu", "x/b": f"{RULE_ORIGIN}mine/first", "x/c": f"{OBJECT_ORIGIN}gpus/one", "x/d": None}
    knowledge = Knowledge("c", {"one": 125.9}.get, lambda node: origins if node.name == "one" else {})
    with served(nodes, knowledge=knowledge) as url:
        assert json.loads(get(url, "fleet.json")[2])["cluster"] == "c"
        assert json.loads(get(url, "fleet.json?reports")[2]) == {"ages": {"one": 120}}
        assert json.loads(get(url, "fleet.json?node=one")[2]) == {
            "x/a": "source cpu",
            "x/b": "rule 'first' of NodeFeatureRule mine",
            "x/c": "NodeFeature gpus/one",
            "x/d": "nfd; its origin is not recorded",
            "x/e": "not managed by nfd",
        }
        assert set(json.loads(get(url, "fleet.json?node=two")[2]).values()) == {"not managed by nfd"}
        assert get(url, "fleet.json?node=three")[0] == 404


def test_every_file_is_in_the_package() -> None:
    """The wheel, and so the image, has what is served."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pattern,) = project["tool"]["setuptools"]["package-data"]["nfd.master.page"]
    folder = ROOT / "nfd/master/page"
    assert {path.name for path in folder.glob(pattern)} == ASSETS.keys()


@pytest.mark.parametrize("switch", [(), ("--serve-page",)])
async def test_off_by_default(switch: tuple[str, ...], tmp_path: Path) -> None:
    """On a store of files it needs no API server."""
    port, http_port = free_ports(2)
    words = [f"--node-store=file:{tmp_path}", f"-port={port}", f"-http-port={http_port}", "-config=", *switch]
    parsed = parse("nfd-master", words, FLAGS, Config, "NFD_MASTER", about="")
    master = await open_master(Config(), parsed, "none")
    await master.service.start()
    try:
        found = await asyncio.to_thread(get, f"http://127.0.0.1:{http_port}/page/", "fleet.json")
    finally:
        await master.service.stop()
    assert found[0] == (200 if switch else 404)


def test_runs() -> None:
    assert runs([]) == []
    assert runs([0, 1, 2, 5, 6, 9]) == [0, 3, 2, 2, 2, 1]


def test_conditions_come_from_taints() -> None:
    """The master keeps no conditions; the control plane taints nodes by them."""
    keys = ("not-ready", "unschedulable", "disk-pressure")
    taints = tuple({"key": f"node.kubernetes.io/{key}", "effect": "NoSchedule"} for key in keys)
    problems = dict(fleet_data([make_node("a", {"feature.node.kubernetes.io/x": "1"}, taints)])["facts"]["problem"])
    assert set(problems) == {"not ready", "cordoned", "DiskPressure"}
