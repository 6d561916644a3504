"""What kubelets do for the pods of a namespace: start them, probe them, tell their status, end them with grace.

    with Kubelet(plane, namespace, service, folder, machines):
        ...

A pod is one process of ours (container.py), Ready when its own probe says so. One loop serves all nodes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.consumers.container import Container
from tests.consumers.logs import LogServer
from tests.consumers.pods import Running
from tests.consumers.proxy import ServiceProxy
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane

Json = dict[str, Any]
TURN = 0.1


class Kubelet:
    """`machines`: node → flags of a worker there; `service`: the Service through which workers find a master."""

    def __init__(
        self, plane: ControlPlane, namespace: str, service: str, folder: Path, machines: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._plane, self._pods_path, self._folder = plane, f"/api/v1/namespaces/{namespace}/pods", folder
        self._machines = machines
        self._proxy = ServiceProxy(plane, namespace, service, lambda pod: self.port_of(pod, "grpc"))
        self._services = {service: self._proxy.port}
        self._logs = LogServer(folder / "kubelet", self._said)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet")
        self.running: dict[str, Running] = {}
        """By uid of the pod."""
        self.ended: list[Running] = []

    def __enter__(self) -> Self:
        for name in self._machines:
            address = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
            where = {**address, "daemonEndpoints": {"kubeletEndpoint": {"Port": self._logs.port}}}
            self._plane.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": where})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self._logs.stop()
        self._proxy.stop()

    def texts(self) -> str:
        """What all programs have said, those of pods that are gone included."""
        return "".join(one.container.program.text() for one in (*self.ended, *self.running.values()))

    def _said(self, pod: str) -> str | None:
        found = (one for one in list(self.running.values()) if one.pod["metadata"]["name"] == pod)
        return next((one.container.program.text() for one in found if one.restarts >= 0), None)

    def _run(self) -> None:
        """The processes end with this thread."""
        try:
            while not self._stopping.wait(TURN):
                for pod in self._plane.request("GET", self._pods_path)["items"]:
                    if pod["spec"].get("nodeName"):
                        self._turn(pod)
        finally:
            for one in self.running.values():
                one.container.program.kill()

    def _turn(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self.running and not self._admit(pod):
            return
        one = self.running[uid]
        one.pod = pod
        if "deletionTimestamp" not in pod["metadata"]:
            one.turn()
        elif one.end():
            self._remove(uid)
            return
        self._tell(one)

    def _admit(self, pod: Json) -> bool:
        """Take a pod on, once everything that it mounts is there."""
        folder, machine = self._folder / pod["metadata"]["uid"], self._machines[pod["spec"]["nodeName"]]
        try:
            container = Container(self._plane, pod, folder, self._services, machine)
        except ApiError:
            return False
        self.running[pod["metadata"]["uid"]] = Running(container, pod)
        return True

    def _remove(self, uid: str) -> None:
        """The pod's end: the object goes when its process has."""
        self.ended.append(self.running.pop(uid))
        name = self.ended[-1].pod["metadata"]["name"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        with suppress(ApiError):  # somebody forced it
            self._plane.request("DELETE", f"{self._pods_path}/{name}", options)

    def _tell(self, one: Running) -> None:
        """Write the status if it is new."""
        if (wanted := status(one)) == one.told:
            return
        one.told = wanted
        path = f"{self._pods_path}/{one.pod['metadata']['name']}/status"
        with suppress(ApiError):  # gone meanwhile
            self._plane.request("PATCH", path, {"metadata": {"uid": one.pod["metadata"]["uid"]}, "status": wanted})

    def port_of(self, pod: str, named: str) -> int | None:
        """Where that port of a pod listens on this machine; None if the pod does not run."""
        for one in list(self.running.values()):
            if one.pod["metadata"]["name"] == pod and one.container.program.alive():
                return one.container.port(named)
        return None


def status(one: Running) -> Json:
    """What the kubelet says of a pod; times are left out, nobody here reads them."""
    kept = [each for each in one.pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"]
    said = {"Initialized": True, "Ready": one.ready, "ContainersReady": one.ready}
    conditions = [*kept, *({"type": name, "status": str(value)} for name, value in said.items())]
    address = {"podIP": one.address, "podIPs": [{"ip": one.address}]}
    return {"phase": one.phase, "conditions": conditions, "containerStatuses": [container_status(one)], **address}


def container_status(one: Running) -> Json:
    spec = one.container.spec
    alive = one.container.program.alive()
    started = alive and ("startupProbe" not in one.probes or one.probes["startupProbe"].passed)
    state: Json = {"running": {}} if alive else {"waiting": {"reason": "ContainerCreating"}}
    if one.phase in ("Succeeded", "Failed"):
        state = {"terminated": {"exitCode": one.container.program.wait()}}
    return {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": "",
        "ready": one.ready,
        "started": started,
        "restartCount": max(one.restarts, 0),
        "state": state,
    }
