"""The kubelet's API for `kubectl logs`: an HTTPS server on loopback that gives what a pod's process has said."""

from __future__ import annotations

import http.server
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.controlplane import pki

Text = Callable[[str], str | None]
"""What the container of the pod of that name has said; None if there is no such pod."""


class LogServer:
    """Answers `/containerLogs/NAMESPACE/POD/CONTAINER` of the API server, which checks no certificate of kubelets."""

    def __init__(self, folder: Path, text: Text) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        keys = pki.create(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys.certificate, keys.key)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(text))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="kubelet API", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(text: Text) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            kind, _, pod, *_ = url.path.strip("/").split("/") + [""] * 3
            found = text(pod) if kind == "containerLogs" else None
            lines = (found or "").splitlines(keepends=True)
            if tail := parse_qs(url.query).get("tailLines"):
                lines = lines[-int(tail[0]) :] if int(tail[0]) else []
            body = "".join(lines).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is logged: the terminal belongs to the cluster."""

    return Handler
