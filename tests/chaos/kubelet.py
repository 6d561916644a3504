"""What kubelets and controllers do for the pods of a run: tokens, which are renewed, and a mounted ConfigMap."""

from __future__ import annotations

import base64
import json
import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.watcher import Undisturbed
from tests.controlplane import objects
from tests.controlplane.api import ApiError

LIFE = 600
"""Seconds for which a token is valid: the fewest that the API server gives, so that a run of ten minutes needs more."""
RENEWED = 0.8
"""The part of its life after which a token is renewed (Kubernetes documentation, "Service account token volume")."""
MOUNTED = (30.0, 90.0)
"""Seconds until a mount has what changed in the ConfigMap (Kubernetes documentation, "Mounted ConfigMaps are updated
automatically")."""
LOOK = 0.5
IN_CACHE = 10.0
"""Seconds within which the cache that the API server makes tokens from knows a new Node."""
CONFIG_MAP = "nfd-master-ca"


@dataclass
class Pod:
    """One pod of an account on a node; its token for the audience is in `file`."""

    account: str
    audience: str
    node: str
    file: Path
    renew_at: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.account}-on-{self.node}"


@dataclass
class _Mount:
    folder: Path
    due: float = 0.0
    seen: dict[str, str] = field(default_factory=dict)
    number: int = 0


class Kubelets:
    """A thread, once `start` is called. `failed` says what it could not do, "" if nothing."""

    def __init__(self, server: Undisturbed, namespace: str, seed: int) -> None:
        self.failed = ""
        self._server, self._inside = server, f"/api/v1/namespaces/{namespace}"
        self._random = random.Random(seed)
        self._pods: dict[str, Pod] = {}
        self._mounts: list[_Mount] = []
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelets", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No pod is left."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(30)
        for pod in self._pods.values():
            with suppress(ApiError, OSError):
                self._delete(pod)

    def place(self, pod: Pod, uid: str) -> None:
        """A new pod on the Node of that uid, with a token that names it. An earlier pod of that name is deleted."""
        with self._lock:
            if pod.name in self._pods:
                self._delete(pod)
            self._pods[pod.name] = pod
            self._server.request("POST", f"{self._inside}/pods", objects.pod(pod.name, pod.account, pod.node))
            deadline = time.monotonic() + IN_CACHE
            while node_uid(token := self._token(pod)) != uid:
                if time.monotonic() > deadline:
                    self.failed = f"kubelets: tokens of {pod.name} do not name its Node"
                    break
                time.sleep(LOOK / 10)
            self._hand_over(pod, token)

    def mount(self, folder: Path) -> None:
        """The ConfigMap is in that folder from now on, as it is, and follows it with a delay."""
        folder.mkdir(parents=True)
        with self._lock:
            self._mounts.append(_Mount(folder))
            self._refresh(self._mounts[-1], self._data())

    def _run(self) -> None:
        while not self._stopping.wait(LOOK):
            try:
                with self._lock:
                    self._look(time.monotonic())
            except (ApiError, OSError, ValueError) as error:
                self.failed = f"kubelets: {error}"

    def _look(self, now: float) -> None:
        """At most one token is renewed at a time, so that nobody waits for all of them."""
        if (pod := min(self._pods.values(), key=lambda one: one.renew_at, default=None)) and pod.renew_at <= now:
            self._hand_over(pod, self._token(pod))
        if due := [one for one in self._mounts if one.due <= now]:
            data = self._data()
            for mount in due:
                self._refresh(mount, data)

    def _token(self, pod: Pod) -> str:
        wish = objects.token_request(pod.audience, pod.name, LIFE)
        path = f"{self._inside}/serviceaccounts/{pod.account}/token"
        return str(self._server.request("POST", path, wish)["status"]["token"])

    def _hand_over(self, pod: Pod, token: str) -> None:
        replace(pod.file, token)
        pod.renew_at = time.monotonic() + LIFE * RENEWED * self._random.uniform(0.8, 1.0)

    def _delete(self, pod: Pod) -> None:
        """At once: no kubelet would answer."""
        self._server.request("DELETE", f"{self._inside}/pods/{pod.name}?gracePeriodSeconds=0")

    def _data(self) -> dict[str, str]:
        return self._server.request("GET", f"{self._inside}/configmaps/{CONFIG_MAP}").get("data") or {}

    def _refresh(self, mount: _Mount, data: dict[str, str]) -> None:
        """As a kubelet's AtomicWriter: a new folder, and one link that is replaced."""
        mount.due = time.monotonic() + self._random.uniform(*MOUNTED)
        if data == mount.seen:
            return
        mount.number += 1
        new = mount.folder / f"..{mount.number}"
        new.mkdir()
        for name, text in data.items():
            (new / name).write_text(text)
        turn(mount.folder / "..data", new.name)
        for name in data.keys() - mount.seen.keys():
            (mount.folder / name).symlink_to(f"..data/{name}")
        mount.seen = dict(data)


def replace(file: Path, text: str) -> None:
    """In one step."""
    new = file.with_name(f"..{file.name}")
    new.write_text(text)
    new.replace(file)


def turn(link: Path, target: str) -> None:
    """Make the link lead there, in one step."""
    new = link.with_name("..data_tmp")
    new.symlink_to(target)
    new.replace(link)


def node_uid(token: str) -> str:
    """The uid of the Node that a pod's token names (KEP-4193); "" if it names none."""
    body = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    node: dict[str, str] = claims["kubernetes.io"].get("node") or {}
    return node.get("uid", "")
