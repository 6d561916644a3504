"""A pod as a kubelet would start it from its manifest: runc with the user, capabilities, root and mounts it asks for.

What differs: the network is this machine's, so ports are chosen anew and Services are names of loopback.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.children import LOGS
from tests.controlplane.cluster import ControlPlane
from tests.deploy.images import Config
from tests.deploy.rendering import NAMESPACE, Object, container_of, one, pod_of
from tests.deploy.seccomp import runtime_default
from tests.nvml.library import Libraries

READ_ONLY = ["rbind", "ro", "nosuid", "nodev"]
HIDDEN = ("/usr/bin/dash", "/usr/bin/bash", "/usr/sbin/ldconfig", "/usr/bin/ldd")
"""Programs of the base that nothing of ours may need: bound to /dev/null."""
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass
class Pod:
    """One container of a workload in `objects`, on a node of `cluster`. `ports` are those to take instead."""

    cluster: ControlPlane
    objects: list[Object]
    workload: Object
    node: str
    folder: Path
    ports: Mapping[str, int]
    host_paths: Mapping[str, Path] = field(default_factory=dict)
    uid: int | None = None
    driver: Libraries | None = None
    """What the container runtime `nvidia` puts into a pod that asks for it."""
    _running: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{self.workload['metadata']['name']}-{os.getpid()}-{self.node}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self, image: Config, root: Path, entrypoint: Sequence[str] = ()) -> None:
        """Start the image's entrypoint with the container's arguments, or what stands in its place, alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        bundle = self.bundle(image, root, entrypoint)
        (self.folder / "config.json").write_text(json.dumps(bundle))
        LOGS[self.log] = self.name
        with self.log.open("wb") as out:
            command = ["runc", "run", f"--bundle={self.folder}", self.name]
            self._running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def stop(self) -> int:
        """SIGTERM, as a kubelet does; its exit status, that of SIGKILL if it takes more than 20 s."""
        assert self._running is not None
        if self._running.poll() is None:
            runc("kill", self.name, "TERM")
        try:
            return self._running.wait(20)
        except subprocess.TimeoutExpired:
            runc("delete", "--force", self.name)
            return self._running.wait(20)

    def wait(self) -> int:
        assert self._running is not None
        return self._running.wait(60)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def refresh(self) -> None:
        """Bring mounted ConfigMaps up to date, as a kubelet does every minute."""
        for volume in pod_of(self.workload).get("volumes", ()):
            if name := volume.get("configMap", {}).get("name"):
                self.write(volume["name"], self.config_map(name))

    def bundle(self, image: Config, root: Path, entrypoint: Sequence[str]) -> dict[str, Any]:
        """The OCI runtime's configuration."""
        container = container_of(self.workload)
        context = container["securityContext"]
        assert pod_of(self.workload)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        user = self.uid or context.get("runAsUser", int(image["User"].partition(":")[0]))
        assert user or not context.get("runAsNonRoot")
        assert context["capabilities"] == {"drop": ["ALL"]}
        args = list(entrypoint) or [*image["Entrypoint"], *map(self.argument, container["args"])]
        kinds = ("bounding", "effective", "inheritable", "permitted", "ambient")
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": user, "gid": 0 if self.uid else user},
                "args": args,
                "env": [*image["Env"], *self.environment(container)],
                "cwd": "/",
                "capabilities": {kind: [] for kind in kinds},
                "noNewPrivileges": not context["allowPrivilegeEscalation"],
            },
            "root": {"path": str(root), "readonly": context["readOnlyRootFilesystem"]},
            "mounts": [*self.file_systems(), *self.volume_mounts(container), *self.account(), *self.driver_mounts()],
            "linux": {
                "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
                "resources": {"memory": {"limit": mebibytes(container["resources"]["limits"]["memory"]) << 20}},
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/sys/firmware"],
                "readonlyPaths": ["/proc/sys", "/proc/irq", "/proc/bus"],
                "seccomp": runtime_default(),
            },
        }

    def argument(self, word: str) -> str:
        """The argument with our port in the place of the manifest's."""
        name = word.partition("=")[0]
        return re.sub(r"\d+$", str(self.ports[name]), word) if name in self.ports else word

    def environment(self, container: Object) -> list[str]:
        given = {each["name"]: each.get("value", self.node) for each in container.get("env", ())}
        port = self.cluster.url.rpartition(":")[2]
        given |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        given |= self.driver.env if self.driver is not None else {}
        return [f"{name}={value}" for name, value in given.items()]

    def driver_mounts(self) -> list[dict[str, Any]]:
        """The libraries, where they lie behind the links, and the machine that they speak of."""
        if self.driver is None:
            return []
        real = self.driver.nvml.resolve().parent
        return [bind(place, str(place)) for place in (self.driver.machine.parent, real)]

    def file_systems(self) -> list[dict[str, Any]]:
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost nfd-master\n")
        (self.folder / "empty").touch()
        return [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {
                "destination": "/dev",
                "type": "tmpfs",
                "source": "tmpfs",
                "options": ["nosuid", "mode=755", "size=65536k"],
            },
            bind(Path("/sys"), "/sys"),
            bind(hosts, "/etc/hosts"),
            *(bind(self.folder / "empty", place) for place in HIDDEN),
        ]

    def volume_mounts(self, container: Object) -> list[dict[str, Any]]:
        volumes = {each["name"]: each for each in pod_of(self.workload).get("volumes", ())}
        return [
            bind(
                self.source(volumes[each["name"]]), each["mountPath"], READ_ONLY if each.get("readOnly") else ["rbind"]
            )
            for each in container.get("volumeMounts", ())
        ]

    def source(self, volume: Object) -> Path:
        """What is mounted for a volume; a projected token is bound to a pod of this node."""
        name = volume["name"]
        if "hostPath" in volume:
            return self.host_paths.get(name, Path(volume["hostPath"]["path"]))
        if "emptyDir" in volume:
            folder = self.write(name, {})
            folder.chmod(0o777)
            return folder
        if "configMap" in volume:
            return self.write(name, self.config_map(volume["configMap"]["name"]))
        (source,) = volume["projected"]["sources"]
        request = source["serviceAccountToken"]
        return self.write(name, {request["path"]: self.token(request["audience"])})

    def account(self) -> list[dict[str, Any]]:
        """The service account's own token, unless the pod does without."""
        if pod_of(self.workload).get("automountServiceAccountToken") is False:
            return []
        files = {"token": self.token(None), "ca.crt": self.cluster.ca_file.read_text(), "namespace": NAMESPACE}
        return [bind(self.write("account", files), str(ACCOUNT))]

    def token(self, audience: str | None) -> str:
        account = pod_of(self.workload)["serviceAccountName"]
        return self.cluster.service_account_token(account, NAMESPACE, audience=audience, node=self.node)

    def config_map(self, name: str) -> dict[str, str]:
        found = self.cluster.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")
        return dict(found.get("data") or {})

    def write(self, volume: str, files: Mapping[str, str]) -> Path:
        """The folder of a volume, with these files."""
        folder = self.folder / "volumes" / volume
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        for each in (self.folder, *self.folder.parents):
            if each.owner() == "root" and each.stat().st_mode & 0o777 == 0o700:
                each.chmod(0o711)
        return folder


def runc(*words: str) -> None:
    subprocess.run(["runc", *words], capture_output=True, check=False)


def bind(source: Path, place: str, options: Sequence[str] = READ_ONLY) -> dict[str, Any]:
    return {"destination": place, "type": "bind", "source": str(source), "options": list(options)}


def mebibytes(quantity: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([MG])i", quantity).groups()  # type: ignore[union-attr]
    return int(number) << (10 if unit == "G" else 0)


def workload_of(objects: list[Object], name: str) -> Object:
    return one(objects, "Deployment" if name == "nfd-master" else "DaemonSet", name)
