"""Our master and workers for the nodes of the fleet: real processes, with the rights that are shipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.consumers.fleet import Built
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.nodes import ACCOUNT, NAMESPACE
from tests.e2e.programs import Program, eventually, port_of, reports

BASE = Path(__file__).parents[2] / "deploy/kustomize/base"


@dataclass
class Discovery:
    """One master and a worker per node; `start` and `stop` them in any order, on the same ports."""

    master: Program
    workers: dict[str, Program] = field(default_factory=dict)

    def start_master(self) -> None:
        self.master.start()
        eventually(self.master.ready)

    def start_workers(self, *names: str) -> None:
        """Those named, else all; each has reported when this returns."""
        chosen = [self.workers[name] for name in names or self.workers]
        for worker in chosen:
            worker.start()
        for worker in chosen:
            eventually(lambda worker=worker: reports(worker), 60)  # type: ignore[misc]

    def kill(self) -> None:
        for program in (self.master, *self.workers.values()):
            program.kill()
            assert "Traceback" not in program.text(), program.text()[-3000:]


def prepare(plane: ControlPlane, folder: Path, machines: Mapping[str, Built], *flags: str) -> Discovery:
    """Nothing is started yet."""
    plane.kubectl("apply", "-f", str(BASE / "namespace.yaml"))
    for name in ("service-accounts.yaml", "certificates.yaml"):
        plane.kubectl("apply", "-n", NAMESPACE, "-f", str(BASE / name))
    plane.kubectl("apply", "-f", str(BASE / "rbac.yaml"))
    kubeconfig = plane.kubeconfig_for(plane.service_account_token(ACCOUNT, NAMESPACE))
    port, http_port, *ports = free_ports(2 + len(machines))
    words = (f"-port={port}", f"-http-port={http_port}", "-config=", f"-kubeconfig={kubeconfig}", *flags)
    master = Program("nfd-master", words, folder / "master.log", http_port, {"KUBERNETES_NAMESPACE": NAMESPACE})
    workers = {
        name: Program(
            "nfd-worker",
            (f"--server=localhost:{port_of(master)}", f"--http-port={own}", "--config=", *built.flags),
            folder / f"{name}.log",
            own,
            {"NODE_NAME": name, **built.variables},
        )
        for (name, built), own in zip(machines.items(), ports, strict=True)
    }
    return Discovery(master, workers)


@contextmanager
def nodes(plane: ControlPlane, machines: Mapping[str, Built]) -> Iterator[None]:
    """Node objects as their kubelets make them: Ready, with room, without a label of ours."""
    try:
        for name, built in machines.items():
            plane.create_node(name, boot_id=built.machine.boot_id)
        yield
    finally:
        for name in machines:
            with suppress(ApiError):
                plane.delete_node(name)
