"""Admission that refuses: policies of the API server, and a real webhook over HTTPS on loopback."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.controlplane import pki
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.master.places import until

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/validatingadmissionpolicybindings"
WEBHOOKS = f"{GROUP}/validatingwebhookconfigurations"
Json = dict[str, Any]


@dataclass
class Admission:
    """Policies and webhooks about Nodes whose name begins with `prefix`; `probe` is one of them, of nobody's."""

    plane: ControlPlane
    prefix: str
    made: list[str] = field(default_factory=list)

    @property
    def probe(self) -> str:
        return f"{self.prefix}probe"

    def set_up(self) -> None:
        self.plane.create_node(self.probe)

    def clear(self) -> None:
        for path in self.made:
            self.plane.request("DELETE", path)
        self.made.clear()
        self.plane.delete_node(self.probe)

    async def forbid(
        self, name: str, expression: str, change: Json, reason: str = "Invalid", message: str = ""
    ) -> None:
        """A policy by which `expression` must hold; returns when `change` of a Node is refused."""
        name = f"{self.prefix}{name}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"]}
        rules = [{**rule, "resources": ["nodes", "nodes/status"]}]
        validation = {"expression": expression, "reason": reason} | ({"message": message} if message else {})
        condition = {"name": "ours", "expression": f"object.metadata.name.startsWith('{self.prefix}')"}
        spec = {
            "matchConstraints": {"resourceRules": rules},
            "matchConditions": [condition],
            "validations": [validation],
        }
        self._make(POLICIES, {"metadata": {"name": name}, "spec": spec})
        self._make(BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}})
        await until(lambda: self.refuses(change))

    async def allow(self, name: str, change: Json) -> None:
        """Remove a policy or webhook; returns when the change goes through."""
        gone = [path for path in self.made if path.endswith(f"/{self.prefix}{name}")]
        for path in gone:
            self.made.remove(path)
            self.plane.request("DELETE", path)
        await until(lambda: not self.refuses(change))

    async def call(self, name: str, hook: Hook, change: Json, resources: tuple[str, ...]) -> None:
        """Ask a webhook; returns when it refuses the change."""
        ca = base64.b64encode(hook.ca.read_bytes()).decode()
        webhook = {
            "name": f"{name}.example.com",
            "clientConfig": {"url": hook.url, "caBundle": ca},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": [*resources]}],
            "matchConditions": [{"name": "ours", "expression": f"object.metadata.name.startsWith('{self.prefix}')"}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1,
        }
        self._make(WEBHOOKS, {"metadata": {"name": f"{self.prefix}{name}"}, "webhooks": [webhook]})
        await until(lambda: self.refuses(change))

    def refuses(self, change: Json) -> bool:
        """Whether a change is refused; it is not made."""
        tail = "/status" if "status" in change else ""
        try:
            self.plane.request("PATCH", f"/api/v1/nodes/{self.probe}{tail}?dryRun=All", change)
        except ApiError:
            return True
        return False

    def _make(self, path: str, body: Json) -> None:
        self.plane.request("POST", path, body)
        self.made.append(f"{path}/{body['metadata']['name']}")


@dataclass
class Hook:
    """A webhook. `refusal(new, old)` gives a reason to refuse, "" for none, answered with `code`; `broken` is a 500."""

    url: str
    ca: Path
    refusal: Callable[[Json, Json], str] = lambda new, old: ""
    code: int = 403
    broken: bool = False
    asked: int = 0

    def answer(self, review: Mapping[str, Any]) -> Json:
        request = review["request"]
        self.asked += 1
        reason = self.refusal(request["object"], request["oldObject"])
        status = {"status": {"code": self.code, "message": reason}} if reason else {}
        answer = {"uid": request["uid"], "allowed": not reason, **status}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}


@contextmanager
def webhook(folder: Path) -> Iterator[Hook]:
    """Listens on loopback, over TLS, for this block."""
    made = pki.create(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(hook.answer(json.loads(data))).encode()
            self.send_response(500 if hook.broken else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    hook = Hook(f"https://127.0.0.1:{server.server_port}/review", made.ca)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
