"""The control plane that other tests believe in is a real one, and counts exactly."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane, KubectlError
from tests.controlplane.objects import node

DIES_AT_ONCE = """
import os, signal
from tests.controlplane.cluster import ControlPlane
plane = ControlPlane()
plane.start()
print(plane.folder, plane.etcd.pid, plane.apiserver.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def running(pid: int) -> bool:
    """Whether that process is there and no zombie: `State:` in its status file (proc_pid_status(5))."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_made_node_looks_like_a_kubelets(control_plane: ControlPlane, node_name: str) -> None:
    control_plane.create_node(node_name, labels={"zone": "a"}, annotations={"note": "b"}, boot_id="boot-7")
    found = control_plane.get_node(node_name)
    assert found["metadata"]["labels"] == {"zone": "a"}
    assert found["metadata"]["annotations"] == {"note": "b"}
    assert found["status"]["nodeInfo"]["bootID"] == "boot-7"
    assert found["status"]["allocatable"]["pods"] == "110"
    assert found["status"]["conditions"][0]["type"] == "Ready"
    assert "taints" not in found["spec"]


def test_audit_has_exactly_the_writes(control_plane: ControlPlane, node_name: str) -> None:
    control_plane.create_node(node_name)
    mark = control_plane.mark()
    control_plane.kubectl("label", "node", node_name, "colour=blue")
    control_plane.get_node(node_name)
    (write,) = control_plane.writes(mark)
    assert (write.user, write.verb, write.resource, write.name, write.code) == (
        "admin",
        "patch",
        "nodes",
        node_name,
        200,
    )
    assert write.agent.startswith("kubectl/")
    assert control_plane.get_node(node_name)["metadata"]["labels"] == {"colour": "blue"}


def test_audit_counts_each_request_of_many(control_plane: ControlPlane, node_name: str) -> None:
    control_plane.create_node(node_name)
    for number in range(50):
        mark = control_plane.mark()
        path = f"/api/v1/nodes/{node_name}"
        control_plane.request("PATCH", path, {"metadata": {"labels": {"n": str(number)}}})
        assert [event.code for event in control_plane.audit(mark)] == [200]


def test_audit_has_an_open_watch(control_plane: ControlPlane) -> None:
    mark = control_plane.mark()
    with ThreadPoolExecutor() as threads:
        watch = threads.submit(control_plane.text, "GET", "/api/v1/nodes?watch=1&timeoutSeconds=2")
        while not (events := control_plane.audit(mark)):
            time.sleep(0.02)
        assert not watch.done()
        assert [(event.user, event.verb) for event in events] == [("admin", "watch")]
        later = control_plane.mark()
        watch.result()
    assert control_plane.audit(later) == []


def test_audit_tells_users_apart_and_has_what_was_refused(control_plane: ControlPlane, node_name: str) -> None:
    control_plane.create_node(node_name)
    mark = control_plane.mark()
    control_plane.get_node(node_name)
    with pytest.raises(ApiError, match=r'403: nodes "node-[0-9]+" is forbidden: User "alice" cannot get'):
        control_plane.request("GET", f"/api/v1/nodes/{node_name}", user="alice")
    with pytest.raises(KubectlError, match='"bob" cannot'):
        control_plane.kubectl("label", "node", node_name, "a=b", user="bob")
    with pytest.raises(ApiError, match="401"):
        control_plane.request("GET", "/api/v1/nodes", user="no-such-token")
    events = [event for event in control_plane.audit(mark) if event.resource == "nodes"]
    assert [(event.user, event.verb, event.code) for event in events] == [
        ("admin", "get", 200),
        ("alice", "get", 403),
        ("bob", "get", 403),
        ("", "list", 401),
    ]


def test_node_bound_token_names_the_node(control_plane: ControlPlane, node_name: str) -> None:
    uid = control_plane.create_node(node_name)["metadata"]["uid"]
    token = control_plane.service_account_token("worker", "nfd", audience="nfd-master", node=node_name)
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": ["nfd-master"]},
    }
    status = control_plane.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == "system:serviceaccount:nfd:worker"
    assert status["user"]["extra"]["authentication.kubernetes.io/node-name"] == [node_name]
    assert status["user"]["extra"]["authentication.kubernetes.io/node-uid"] == [uid]


def test_service_account_token_logs_in(control_plane: ControlPlane) -> None:
    token = control_plane.service_account_token("visitor")
    who = control_plane.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", user=token)
    assert who == "system:serviceaccount:default:visitor"


@pytest.mark.parametrize("kill", [False, True])
def test_outage_keeps_address_and_data(control_plane: ControlPlane, node_name: str, kill: bool) -> None:
    control_plane.create_node(node_name)
    url = control_plane.url
    with control_plane.outage(kill=kill), pytest.raises(OSError, match="refused"):
        control_plane.get_node(node_name)
    mark = control_plane.mark()
    assert control_plane.url == url
    assert control_plane.get_node(node_name)["metadata"]["name"] == node_name
    assert [event.verb for event in control_plane.audit(mark)] == ["get"]


def test_proxy_of_the_environment_is_not_asked(
    control_plane: ControlPlane, node_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    control_plane.create_node(node_name)
    assert node_name in control_plane.kubectl("get", "nodes", "-o", "name")


def test_two_run_side_by_side_and_leave_nothing(control_plane: ControlPlane) -> None:
    with ControlPlane() as other:
        pids = [pid for pid in (other.etcd.pid, other.apiserver.pid) if pid]
        assert len(pids) == 2
        assert all(running(pid) for pid in pids)
        other.request("POST", "/api/v1/nodes", node("only-there", {}, {}))
        assert "only-there" not in control_plane.kubectl("get", "nodes", "-o", "name")
    assert not any(running(pid) for pid in pids)
    assert not other.folder.exists()


def test_servers_die_with_a_killed_test_run() -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", DIES_AT_ONCE]
    env = os.environ | {"PYTHONPATH": str(root)}
    killed = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    folder, *pids = killed.stdout.split()
    shutil.rmtree(folder)
    assert len(pids) == 2
    deadline = time.monotonic() + 5
    while any(running(int(pid)) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(running(int(pid)) for pid in pids)
