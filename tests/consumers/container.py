"""The container of a pod as a process: the image's program with the arguments, environment and volumes it asks for.

What differs from a container: files and network are this machine's. So ports are chosen anew, paths below a mount
point are folders of ours, a kubeconfig with the pod's own token leads to the API server, and a worker sees a recorded
machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.controlplane import objects
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.programs import Program

Json = dict[str, Any]
CONFIG = "/etc/kubernetes/node-feature-discovery"


class Container:
    """`services`: the port of this machine for each Service; `machine`: flags for a worker on the pod's node."""

    def __init__(
        self, plane: ControlPlane, pod: Json, folder: Path, services: Mapping[str, int], machine: tuple[str, ...]
    ) -> None:
        self._plane, self._pod, self._folder, self._services = plane, pod, folder, services
        (self.spec,) = pod["spec"]["containers"]
        folder.mkdir(parents=True, exist_ok=True)
        declared = {int(one["containerPort"]): one.get("name", "") for one in self.spec.get("ports", ())}
        self.ports = dict(zip(declared, free_ports(len(declared)) if declared else (), strict=True))
        self._named = {declared[port]: own for port, own in self.ports.items()}
        self.refresh()
        name = self.spec["image"].rpartition("/")[2].partition(":")[0]
        words = [self._argument(word) for word in self.spec.get("args", ())]
        words += [*machine, *self._for_a_worker()] if name == "nfd-worker" else self._for_a_master()
        self.program = Program(name, tuple(words), folder / "log", self._named.get("http", 0), self._environment())

    def refresh(self) -> None:
        """Bring the mounted files up to date, as a kubelet does every minute."""
        for volume in self._pod["spec"].get("volumes", ()):
            if "emptyDir" in volume:
                (self._folder / volume["name"]).mkdir(exist_ok=True)
            for name, text in self._files(volume).items():
                write(self._folder / volume["name"] / name, text)

    def port(self, named: str) -> int:
        """Where a port with that name listens on this machine."""
        return self._named[named]

    def _for_a_master(self) -> list[str]:
        place = self._place(CONFIG)
        config = f"{place}/nfd-master.conf" if place else ""
        return [f"--kubeconfig={self._plane.kubeconfig_for(self._token(None))}", f"--config={config}"]

    def _for_a_worker(self) -> list[str]:
        """The master's certificate names its Service."""
        (service,) = self._services
        return [f"--config={self._place(CONFIG)}/nfd-worker.conf", f"--server-name-override={service}"]

    def _argument(self, word: str) -> str:
        """The argument with what is this machine's in the place of the container's."""
        name, _, value = word.partition("=")
        if name == "--server":
            service = value.partition(":")[0]
            return f"{name}=localhost:{self._services[service]}"
        if name in ("--port", "--http-port"):
            return f"{name}={self.ports[int(value)]}"
        return f"{name}={self._inside(value)}" if value else word

    def _inside(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        return f"{self._place(folder)}/{name}" if path.startswith("/") and self._place(folder) else path

    def _place(self, mount: str) -> str:
        """The folder that stands for a mount point, "" if nothing is mounted there."""
        found = [one["name"] for one in self.spec.get("volumeMounts", ()) if one["mountPath"] == mount]
        return str(self._folder / found[0]) if found else ""

    def _environment(self) -> dict[str, str]:
        known = {
            "metadata.name": self._pod["metadata"]["name"],
            "spec.nodeName": self._pod["spec"]["nodeName"],
            "status.podIP": "127.0.0.1",
        }
        found = {"KUBERNETES_NAMESPACE": self._pod["metadata"]["namespace"]}
        for one in self.spec.get("env", ()):
            found[one["name"]] = one["value"] if "value" in one else known[one["valueFrom"]["fieldRef"]["fieldPath"]]
        return found

    def _files(self, volume: Json) -> dict[str, str]:
        """The files of a volume; those of the host are the recorded machine's."""
        if name := volume.get("configMap", {}).get("name"):
            return dict(self._get("configmaps", name).get("data") or {})
        if "projected" in volume and not (self._folder / volume["name"]).exists():
            (source,) = volume["projected"]["sources"]
            request = source["serviceAccountToken"]
            return {request["path"]: self._token(request["audience"])}
        return {}

    def _token(self, audience: str | None) -> str:
        """Of the pod's service account, bound to the pod."""
        request = objects.token_request(audience, self._pod["metadata"]["name"], 3600)
        account = self._pod["spec"]["serviceAccountName"]
        path = f"/api/v1/namespaces/{self._pod['metadata']['namespace']}/serviceaccounts/{account}/token"
        return str(self._plane.request("POST", path, request)["status"]["token"])

    def _get(self, kind: str, name: str) -> Json:
        return self._plane.request("GET", f"/api/v1/namespaces/{self._pod['metadata']['namespace']}/{kind}/{name}")


def write(path: Path, text: str) -> None:
    """As a whole, and only if it is new."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text() != text:
        new = path.with_name(f".{path.name}.new")
        new.write_text(text)
        new.replace(path)
