"""What kube-proxy does: connections to a Service go to one of its Ready pods, as the EndpointSlices tell."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import suppress

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports

Resolve = Callable[[str], int | None]
"""The port of this machine on which a server of a pod listens; None if it does not run."""


class ServiceProxy:
    """One Service on `port` of loopback, served by a thread of its own. Without a Ready pod connections are refused."""

    def __init__(self, plane: ControlPlane, namespace: str, service: str, resolve: Resolve, port: int = 0) -> None:
        self.port = port or free_ports(1)[0]
        self._plane, self._resolve = plane, resolve
        self._slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self._slices += f"?labelSelector=kubernetes.io/service-name%3D{service}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"service {service}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self.port))
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            port = await asyncio.to_thread(self._choose)
            if port is not None:
                back, forth = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(pump(reader, forth), pump(back, writer))
        writer.close()

    def _choose(self) -> int | None:
        endpoints = [
            one for each in self._plane.request("GET", self._slices)["items"] for one in each["endpoints"] or ()
        ]
        ready = [one["targetRef"]["name"] for one in endpoints if one["conditions"]["ready"]]
        ports = [port for name in ready if (port := self._resolve(name)) is not None]
        return random.choice(ports) if ports else None


async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()
