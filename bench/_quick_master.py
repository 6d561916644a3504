"""A master whose certificates live for seconds: `python -m bench._quick_master KUBECONFIG PORT HTTP_PORT NAMESPACE`.

nfd-master's own parts, with other lifetimes of its certificates: the programs have no option for that, since nobody
needs one. It leads or follows like any replica, and ends with SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from nfd.kube.client import connect
from nfd.kube.leader_election import Lease
from nfd.kube.leader_election import Timing as LeaseTiming
from nfd.kube.token_reviews import TokenReviews
from nfd.master.cli import LEASE
from nfd.master.leadership import Election
from nfd.master.security.authentication import AUDIENCE, TokenAuthenticator
from nfd.master.security.authority import Lifetimes
from nfd.master.security.certificates import Certificates
from nfd.master.security.setup import LOOPBACK, Security
from nfd.master.service import Options, Service
from nfd.runtime import log
from nfd.store.kube import KubeStore

TIMING = Lifetimes(interval=1.0, spread=8.0, leaf=20.0, rotate=40.0, life=3600.0)
"""An authority is replaced every 40 s, a certificate every 10; mounts follow within 8."""
OBJECTS = "nfd-master-ca"


async def serve(kubeconfig: str, port: int, http_port: int, namespace: str) -> None:
    client = await connect(kubeconfig)
    certificates = Certificates(client, namespace, OBJECTS, (LOOPBACK,), TIMING)
    gate = TokenAuthenticator(TokenReviews(client, AUDIENCE), (f"{namespace}/nfd-worker",))
    lease = Lease(await connect(kubeconfig), namespace, LEASE, LeaseTiming(15.0, 10.0, 2.0))
    client.fence = lease
    election = Election(lease, f"master-{port}", "127.0.0.1")
    security = Security(gate, certificates, "", certificates.start, certificates.stop)
    options = Options(port=port, http_port=http_port, security=security, election=election, service_name=LOOPBACK)
    service, ended = Service(KubeStore(client), options), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await service.start()
    await ended.wait()
    await service.stop()


if __name__ == "__main__":
    log.setup("info")
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
