"""The least that a master over gRPC can do: for each call of a worker the PATCH planned beforehand, and nothing else.

No token is looked at, no report read, no Node watched. Workers and connections are those of the fleet.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import grpc

from bench.fleet import bare
from bench.fleet.cluster import Link
from nfd.master.security.authority import Lifetimes, bundle, issue, make_authority
from nfd.rpc import SERVICE, convert
from tests.controlplane.cluster import ControlPlane


class Least:
    """Listens on `target` with a certificate that `ca` has signed."""

    def __init__(self, plane: ControlPlane) -> None:
        now = time.time()
        authority = make_authority(now, Lifetimes())
        self._leaf = issue(authority, ("localhost",), now, Lifetimes())
        self.ca = bundle([authority])
        self.target = ""
        self.bodies: Mapping[str, bytes] = {}
        self._link = Link(plane, bare.PARALLEL)
        self._server: Any = grpc.aio.server()

    async def start(self) -> None:
        handlers = {"Report": grpc.unary_unary_rpc_method_handler(self._report)}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        credentials = grpc.ssl_server_credentials([(self._leaf.key, self._leaf.certificate)])
        self.target = f"127.0.0.1:{self._server.add_secure_port('127.0.0.1:0', credentials)}"
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0)
        await self._link.close()

    async def _report(self, data: bytes, _: Any) -> bytes:
        node = convert.node_name(data)
        await bare.write(self._link, node, self.bodies[node])
        return convert.encode_answer(convert.Answer(heartbeat=60.0))
