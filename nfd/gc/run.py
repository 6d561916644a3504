"""The running `nfd-gc`: a collector with its probes and metrics."""

from __future__ import annotations

from nfd.config.flags import Parsed
from nfd.gc.collector import KINDS, Collector
from nfd.gc.metrics import Metrics
from nfd.kube.client import connect
from nfd.runtime import tasks
from nfd.runtime.http_server import OK, HttpServer, probes
from nfd.runtime.tasks import Asked


async def run(parsed: Parsed, asked: Asked) -> None:
    """Until a signal. Raises: ConfigError, KubeError, OSError."""
    client = await tasks.unless(asked.stop, connect(parsed["kubeconfig"]))
    if client is None:
        return
    metrics = Metrics(kind.name for kind in KINDS)
    collector = Collector(client, metrics, parsed["gc-interval"], parsed["list-size"])
    server = serve(parsed["port"], collector, metrics) if parsed["port"] else None
    try:
        await tasks.first_of(collector.run(), asked.stop.wait())
    finally:
        if server is not None:
            server.close()
        await client.close()


def serve(port: int, collector: Collector, metrics: Metrics) -> HttpServer:
    """Raises: OSError if the port cannot be had."""

    def missing() -> str:
        return "" if collector.synced else "nodes are not listed yet"

    return HttpServer(port, probes(lambda: OK, missing, metrics.families))
