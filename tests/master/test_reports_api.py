"""`/reports` of a real master on a real API server: off by default, and only for who may get it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from nfd.config.flags import parse
from nfd.errors import ConfigError
from nfd.features import Features
from nfd.master.app import open_master
from nfd.master.cli import FLAGS
from nfd.master.config import Config, NamespaceSelector
from nfd.master.http import reports_api
from nfd.master.http.reports_api import MasterState, TimedReport
from nfd.report import Report, SourceState, State
from nfd.report_order import Order
from nfd.rpc.client import Reporter
from nfd.rules.policy import Policy
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import Program, eventually, port_of
from tests.fleet20.place import running_master

FEATURES = Features(
    {"cpu.cpuid": frozenset({"AVX", "SSE4"})},
    {"kernel.version": {"major": "6"}},
    {"pci.device": ({"vendor": "10de"}, {"vendor": "8086"})},
)
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def report(node: str) -> Report:
    sources = {"cpu": SourceState(State.FRESH), "pci": SourceState(State.FAILED, "gone", 3.0)}
    labels = {"example.com/x": "1"}
    return Report(node, "v", "", Order("b", 1, 1), labels, {}, {"example.com/x": "cpu"}, sources, FEATURES)


@pytest.fixture(scope="module")
def master(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with running_master(control_plane, tmp_path_factory.mktemp("readers"), "--serve-reports") as program:
        yield program


def get(master: Program, authorization: str) -> tuple[int, str]:
    request = Request(f"http://127.0.0.1:{master.http_port}/reports", headers={"Authorization": authorization})
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_only_who_may_get_it(control_plane: ControlPlane, master: Program) -> None:
    """A user's rights count, whoever he is; a token that nobody knows gives none."""
    alice = f"Bearer {control_plane.token('alice')}"
    assert get(master, "")[0] == 403
    assert get(master, "Basic YTpi") == (403, "a bearer token is required\n")
    assert get(master, "Bearer unknown") == (403, "the token is unknown\n")
    assert get(master, "Bearer " + "x" * 8_100) == (403, "a bearer token is required\n")
    assert get(master, f"Bearer {control_plane.token('bob')}") == (403, "bob may not get /reports\n")
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nfd-reports-reader"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}
    control_plane.create(BINDING, {"metadata": {"name": "alice-plans"}, "roleRef": role, "subjects": [subject]})
    try:
        status, text = get(master, alice)
    finally:
        control_plane.request("DELETE", f"{BINDING}/alice-plans")
    assert status == 200
    assert json.loads(text.splitlines()[0])["settings"]["policy"]["auto_prefix"] is True
    assert {one["error"] for one in master.said("access denied")} >= {"bob may not get /reports"}


def test_made_up_tokens_do_not_flood_the_api_server(control_plane: ControlPlane, master: Program) -> None:
    """And neither do they flood the log."""
    mark, logged = control_plane.mark(), len(master.said("access denied"))
    answers = [get(master, f"Bearer made-up-{number}")[0] for number in range(60)]
    reviews = [one for one in control_plane.audit(mark) if one.resource == "tokenreviews"]
    assert set(answers) <= {403, 503}
    assert len(reviews) == answers.count(403)
    assert len(master.said("access denied")) - logged <= 1


def test_what_workers_said_comes_back(control_plane: ControlPlane, master: Program, node_name: str) -> None:
    """Features that two nodes share are told once."""
    control_plane.create_node(node_name, boot_id="b")
    for name in (node_name, "no-such-node"):
        Reporter(f"127.0.0.1:{port_of(master)}").send(report(name))
    admin = f"Bearer {control_plane.token('admin')}"
    text = eventually(lambda: answer[1] if (answer := get(master, admin))[0] == 200 else "")
    lines = [json.loads(line) for line in text.splitlines()]
    contents: dict[int, object] = {}
    heard = [one for line in lines[1:] if (one := reports_api.parse_line(line, contents)) is not None]
    assert [one.report for one in heard] == [report(name) for name in sorted((node_name, "no-such-node"))]
    assert len(contents) == 3
    assert all(one.age is not None and 0 <= one.age < 60 for one in heard)


async def test_lines_are_read_as_they_were_meant() -> None:
    """Nodes of which nothing is known are left out; settings survive."""
    policy = Policy(extra_label_ns=frozenset({"b", "a"}), enable_taints=True, source_namespaces={"local": ("x",)})
    fixed = (("--options", {"a": 1}, "options"),)
    requirement = {"key": "team", "operator": "In", "values": ["x"]}
    selector = NamespaceSelector.model_validate({"matchLabels": {"a": "b"}, "matchExpressions": [requirement]})
    standing = MasterState(policy, False, "inst", "ns", True, False, fixed, selector, "zone=a", publish=False)
    parts = [part async for part in reports_api.lines(standing, ["a", "b"], {"a": TimedReport(report("a"))}.get)]
    found = [json.loads(line) for line in b"".join(parts).splitlines()]
    settings = found[0]["settings"]
    again = reports_api.parse_state(settings)
    assert replace(again, policy=policy) == standing
    assert again.policy.extra_label_ns == policy.extra_label_ns
    older = {
        key: value for key, value in settings.items() if key not in ("namespace_selector", "node_selector", "publish")
    }
    assert reports_api.parse_state({**older, "of a later master": 1}) == replace(
        again, namespace_selector=None, node_selector="", publish=True
    )
    assert [line["node"] for line in found if "node" in line] == ["a"]


async def test_without_an_api_server_there_is_nobody_to_ask(tmp_path: Path) -> None:
    words = [f"--node-store=file:{tmp_path}", "--serve-reports", "-config="]
    parsed = parse("nfd-master", words, FLAGS, Config, "NFD_MASTER", about="")
    with pytest.raises(ConfigError, match="--serve-reports needs --node-store=kubernetes"):
        await open_master(Config(), parsed, "none")
