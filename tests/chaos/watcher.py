"""A second API server on the same etcd, which nobody disturbs, and a watch on it that tells of every change of a Node.

The servers of a cluster share their etcd, so the watch goes on while the one that the masters speak to is killed.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from typing import Any

from tests.controlplane import build
from tests.controlplane.api import Api, Json
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.flags import Ports, apiserver_flags
from tests.controlplane.pki import Pki
from tests.controlplane.process import Process, free_ports

SILENCE = 150.0
"""Seconds without a byte; bookmarks come every minute."""
See = Callable[[str, Mapping[str, Any]], None]


class Undisturbed:
    """The second server: the driver writes through it, and the watcher listens to it."""

    def __init__(self, plane: ControlPlane) -> None:
        folder, (port,) = plane.folder / "undisturbed", free_ports(1)
        folder.mkdir(exist_ok=True)
        flags = apiserver_flags(
            Ports(port, plane.ports.etcd, plane.ports.etcd_peer), Pki.inside(plane.folder), plane.folder
        )
        flags = [flag for flag in flags if not flag.startswith(("--audit", "--cert-dir"))] + [f"--cert-dir={folder}"]
        program = build.ensure("kube-apiserver")["kube-apiserver"]
        self._process = Process("kube-apiserver", [str(program), *flags], folder / "log")
        self._token = plane.token()
        self.api = Api(port, plane.ca_file, timeout=120)
        self._process.start()

    def ready(self) -> bool:
        try:
            self.api.text("GET", "/readyz", self._token)
        except Exception:  # not yet
            return False
        return True

    def request(self, method: str, path: str, body: Json | None = None) -> Json:
        answer: Json = json.loads(self.api.text(method, path, self._token, body))
        return answer

    def stop(self) -> None:
        self._process.stop(grace=10)

    def watch(self, version: str) -> tuple[HTTPSConnection, HTTPResponse]:
        """The connection has to be kept while the answer is read."""
        trust = ssl.create_default_context(cafile=str(self.api.ca_file))
        link = HTTPSConnection("127.0.0.1", self.api.port, timeout=SILENCE, context=trust)
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds=3600"
        link.request("GET", f"/api/v1/nodes?{query}", headers={"Authorization": f"Bearer {self._token}"})
        return link, link.getresponse()


class Watcher:
    """A thread that hands on every event, with no gap; `failed` says why it could not go on, "" while it can."""

    def __init__(self, server: Undisturbed, see: See) -> None:
        self.failed = ""
        self._server, self._see = server, see
        self._stopping = False
        self._version = str(server.request("GET", "/api/v1/nodes?limit=1")["metadata"]["resourceVersion"])
        self._link: HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        if self._link is not None and self._link.sock is not None:
            self._link.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)

    def _run(self) -> None:
        while not (self._stopping or self.failed):
            try:
                self._link, answer = self._server.watch(self._version)
                with closing(self._link), closing(answer):
                    for event in _events(answer):
                        self._take(event)
            except (OSError, HTTPException, ValueError) as error:
                if not isinstance(error, OSError | HTTPException) and not self._stopping:
                    self.failed = f"watch: {error}"

    def _take(self, event: Mapping[str, Any]) -> None:
        item = event["object"]
        if event["type"] == "ERROR":
            self.failed = f"changes were missed: {item.get('message')}"
            return
        self._version = item["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK" and not self._stopping:
            self._see(event["type"], item)


def _events(answer: HTTPResponse) -> Iterator[Mapping[str, Any]]:
    if answer.status != 200:
        raise ValueError(f"status {answer.status}: {answer.read().decode(errors='replace')[:200]}")
    while line := answer.readline():
        yield json.loads(line)
