"""Tokens and mounts as kubelets keep them, against requests that a stand-in for the API server answers."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tests.chaos.kubelet import LIFE, MOUNTED, Kubelets, Pod, node_uid
from tests.chaos.watcher import Undisturbed

NOW = 1e12
"""Later than anything is due."""


def token(number: int, uid: str) -> str:
    claims = {"kubernetes.io": {"node": {"name": "n", "uid": uid}}, "n": number}
    return f"h.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.s"


@dataclass
class Server:
    """Its cache knows a new Node late: `uids` are those that the next tokens name; the last one stays."""

    uids: list[str]
    data: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    tokens: int = 0

    def request(self, method: str, path: str, body: Any = None) -> Any:
        kind = path.rpartition("/")[2] if "token" in path else path.split("/")[5]
        self.asked.append(f"{method} {kind}")
        if kind != "token":
            return {"data": self.data}
        assert body["spec"]["expirationSeconds"] == LIFE
        self.tokens += 1
        return {"status": {"token": token(self.tokens, self.uids.pop(0) if len(self.uids) > 1 else self.uids[0])}}


def kubelets(server: Server) -> Kubelets:
    return Kubelets(cast(Undisturbed, server), "ns", 0)


def test_a_token_names_its_node_is_renewed_and_is_another_pods_on_a_new_node(tmp_path: Path) -> None:
    server = Server(["old", "old", "new"])
    found, pod = kubelets(server), Pod("nfd-worker", "nfd-master", "n", tmp_path / "token")
    found.place(pod, "new")
    assert server.asked == ["POST pods", "POST token", "POST token", "POST token"]
    assert pod.file.read_text() == token(3, "new")
    found._look(0.0)
    assert server.tokens == 3
    found._look(NOW)
    assert pod.file.read_text() == token(4, "new")
    server.uids = ["newer"]
    found.place(pod, "newer")
    assert server.asked[-3:] == ["DELETE pods", "POST pods", "POST token"]
    assert node_uid(pod.file.read_text()) == "newer"
    found.stop()
    assert server.asked[-1] == "DELETE pods"
    assert found.failed == ""


def test_a_mount_follows_the_config_map_in_one_step_and_late(tmp_path: Path) -> None:
    server = Server([""], {"ca.crt": "first"})
    found, folder = kubelets(server), tmp_path / "mount"
    found.mount(folder)
    assert (folder / "ca.crt").read_text() == "first"
    server.data = {"ca.crt": "second", "epoch": "e"}
    found._look(0.0)
    assert (folder / "ca.crt").read_text() == "first"
    found._mounts[0].due -= MOUNTED[1]
    found._look(NOW)
    assert {name: (folder / name).read_text() for name in server.data} == server.data
    assert (folder / "ca.crt").resolve().parent == (folder / "epoch").resolve().parent
