"""The two interfaces of a kubelet that the updater asks: its gRPC socket, and `/configz` over TLS."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc

from nfd.topology import podresources_pb2 as pb
from tests.topology import scene


class Kubelet:
    """Serves the pod-resources API on a socket; what it says can be changed at any time. `refusing` makes it fail."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.allocatable = scene.allocatable()
        self.pods = scene.pods()
        self.refusing = ""
        self.asked = 0
        self._server: grpc.Server | None = None

    def start(self) -> None:
        self._server = grpc.server(ThreadPoolExecutor(2))
        calls = {
            "List": (self._list, pb.ListPodResourcesRequest.FromString),
            "GetAllocatableResources": (self._allocatable, pb.AllocatableResourcesRequest.FromString),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(call, read, lambda answer: answer.SerializeToString())
            for name, (call, read) in calls.items()
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),)
        )
        self.socket.unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait(10)
        self._server = None

    def _list(self, request: Any, context: grpc.ServicerContext) -> pb.ListPodResourcesResponse:
        self._check(context)
        self.asked += 1
        return pb.ListPodResourcesResponse(pod_resources=self.pods)

    def _allocatable(self, request: Any, context: grpc.ServicerContext) -> pb.AllocatableResourcesResponse:
        self._check(context)
        return self.allocatable

    def _check(self, context: grpc.ServicerContext) -> None:
        if self.refusing:
            context.abort(grpc.StatusCode.UNKNOWN, self.refusing)


@contextmanager
def configz(config: Any, may_read: Callable[[str], bool], certificate: Path, key: Path) -> Iterator[str]:
    """The address of an HTTPS server that tells its configuration to whoever shows a token that may read it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, _, token = self.headers["Authorization"].partition(" ")
            known = self.path == "/configz" and kind == "Bearer" and may_read(token)
            body = json.dumps({"kubeletconfig": config}).encode() if known else b"Unauthorized"
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}/configz"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
