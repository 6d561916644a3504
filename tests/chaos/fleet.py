"""The processes of a run: two masters behind fault-injecting proxies and relays, and workers, many to a process."""

from __future__ import annotations

import shutil
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.relay import Address, Network, Relay
from tests.children import run
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.programs import Program, eventually
from tests.faults.proxy import FaultProxy

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "node-feature-discovery"
ACCOUNT = "nfd-master"
WARNINGS = "error,ignore::ResourceWarning"
"""A connection that is cut while TLS is being set up is left to the garbage collector by asyncio of Python 3.11."""
READY = 180.0
Undo = Callable[[], None]


class Clock:
    """The wall clock of one process, in a file that the library made of clock.c looks at."""

    def __init__(self, file: Path, library: Path | None) -> None:
        self._file = file
        self.variables = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(file)} if library else {}
        file.write_bytes(bytes(8))

    def step(self, seconds: float) -> None:
        """Away from the machine's own time."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", round(seconds * 1e9)))


def make_clock_library(folder: Path) -> Path | None:
    """None without a C compiler."""
    compiler, made = shutil.which("cc"), folder / "clock.so"
    if compiler is None:
        return None
    words = ["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(made), str(Path(__file__).with_name("clock.c"))]
    run([compiler, *words, "-ldl"])
    return made


@dataclass
class Unit:
    """One process, the relay through which it is reached or reaches others, and its clock."""

    name: str
    program: Program
    relay: Relay
    clock: Clock
    busy: bool = False
    """Something is being done to it that has to be undone first."""
    members: tuple[str, ...] = ()
    """Nodes of its workers."""
    proxy: FaultProxy | None = None

    def hold(self, undo: Undo) -> Undo:
        """Busy from now on, until what comes back has been called."""
        self.busy = True

        def free() -> None:
            undo()
            self.busy = False

        return free


@dataclass
class Fleet:
    """Starts and ends everything; `library` moves clocks, None if that is not possible here."""

    plane: ControlPlane
    folder: Path
    seed: int
    network: Network = field(default_factory=Network)
    masters: list[Unit] = field(default_factory=list)
    crews: list[Unit] = field(default_factory=list)
    library: Path | None = None

    def prepare(self) -> None:
        """Definitions, rights and the lease, as they are shipped."""
        plane, base = self.plane, DEPLOY / "kustomize/base"
        plane.kubectl("apply", "-f", str(base / "namespace.yaml"))
        shipped = ("base/service-accounts.yaml", "base/certificates.yaml", "base/lease.yaml")
        for file in (DEPLOY / "kustomize" / one for one in shipped):
            plane.kubectl("apply", "-n", NAMESPACE, "-f", str(file))
        files = [f"--filename={file}" for file in sorted((DEPLOY / "crds").glob("nodefeature*.yaml"))]
        plane.kubectl("apply", "-f", str(base / "rbac.yaml"), *files)
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
        self.library = make_clock_library(self.folder)

    def start_masters(self, count: int = 2) -> None:
        token = self.plane.service_account_token(ACCOUNT, NAMESPACE)
        for number in range(count):
            proxy = FaultProxy(self.plane, self.seed + number).__enter__()
            self.masters.append(self._master(number, proxy, str(proxy.kubeconfig(token))))
            self.masters[-1].program.start()
        for one in self.masters:
            eventually(one.program.ready, READY)

    def start_crews(self, machines: Sequence[tuple[str, Path]], size: int) -> None:
        for number, first in enumerate(range(0, len(machines), size)):
            self.crews.append(self._crew(number, machines[first : first + size]))
            self.crews[-1].program.start()

    def stop(self) -> None:
        for unit in (*self.crews, *self.masters):
            unit.program.kill()
        self.network.close()
        for unit in self.masters:
            if unit.proxy is not None:
                unit.proxy.__exit__(None, None, None)

    def failures(self) -> list[str]:
        """Programs that ended by themselves, or whose logs tell of a defect."""
        units = (*self.masters, *self.crews)
        dead = [f"{unit.name} ended by itself" for unit in units if not unit.program.alive()]
        return dead + [
            f"{unit.name}: Traceback in {unit.program.log}" for unit in units if "Traceback" in unit.program.text()
        ]

    def _master(self, number: int, proxy: FaultProxy, kubeconfig: str) -> Unit:
        """It listens on loopback alone and says that it is at 127.0.1.x, where the relay is."""
        name, (port, http_port), host = f"master-{number}", free_ports(2), f"127.0.1.{number + 1}"
        clock = Clock(self.folder / f"{name}.clock", self.library)
        places = (f"-port={port}", f"-http-port={http_port}", f"-kubeconfig={kubeconfig}")
        words = (*places, "-config=", "-enable-leader-election")
        variables = {"KUBERNETES_NAMESPACE": NAMESPACE, "POD_NAME": name, "POD_IP": host, "PYTHONWARNINGS": WARNINGS}
        variables |= clock.variables
        program = Program("nfd-master", words, self.folder / f"{name}.log", http_port, variables)
        relay = Relay(self.network, host, port, lambda: [("127.0.0.1", port)], self.seed)
        return Unit(name, program, relay, clock, proxy=proxy)

    def _crew(self, number: int, machines: Sequence[tuple[str, Path]]) -> Unit:
        """Its relay is the Service: any of the masters' addresses, alive or not."""
        name = f"workers-{number}"
        clock = Clock(self.folder / f"{name}.clock", self.library)
        relay = Relay(self.network, "127.0.0.1", 0, self._endpoints, self.seed + number)
        words = ("-m", "tests.chaos.crew", f"127.0.0.1:{relay.port}", *(f"{node}={root}" for node, root in machines))
        program = Program(sys.executable, words, self.folder / f"{name}.log", variables=clock.variables)
        return Unit(name, program, relay, clock, members=tuple(node for node, _ in machines))

    def _endpoints(self) -> list[Address]:
        return [(f"127.0.1.{number + 1}", one.relay.port) for number, one in enumerate(self.masters)]
