"""The processes of a run: two masters behind fault-injecting proxies and relays, and workers, many to a process."""

from __future__ import annotations

import shutil
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.crew import MOUNT, TOKENS
from tests.chaos.kubelet import CONFIG_MAP, Kubelets, Pod
from tests.chaos.master import THIS
from tests.chaos.relay import Address, Network, Relay
from tests.chaos.watcher import Undisturbed
from tests.children import run
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane, KubectlError
from tests.controlplane.process import free_ports
from tests.e2e.programs import Program, eventually
from tests.faults.proxy import FaultProxy

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "node-feature-discovery"
ACCOUNT, WORKER = "nfd-master", "nfd-worker"
AUDIENCES = {ACCOUNT: "nfd-master-replication", WORKER: "nfd-master"}
SHIPPED = ("base/service-accounts.yaml", "base/certificates.yaml", "base/lease.yaml")
READERS = "components/reports/rbac.yaml"
"""Rights for /reports, which is served to those who ask what a leader knows."""
LIFE = 86_400
"""Seconds for which the masters' credentials for the API server are valid."""
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
    folder: Path = Path()
    """Of what only it has."""
    proxy: FaultProxy | None = None
    stream: Relay | None = None
    """Of a master: that through which it copies the reports of the other one."""
    release: str = THIS

    @property
    def snapshot(self) -> Path:
        return self.folder / "reports"

    def become(self, release: str) -> None:
        """From its next start on."""
        self.release = release
        self.program.variables = {**self.program.variables, "CHAOS_RELEASE": release}

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
    server: Undisturbed
    folder: Path
    seed: int
    network: Network = field(default_factory=Network)
    masters: list[Unit] = field(default_factory=list)
    crews: list[Unit] = field(default_factory=list)
    library: Path | None = None

    def __post_init__(self) -> None:
        self.kubelets = Kubelets(self.server, NAMESPACE, self.seed)

    def prepare(self) -> None:
        """Definitions, rights and the lease, as they are shipped."""
        plane, base = self.plane, DEPLOY / "kustomize/base"
        plane.kubectl("apply", "-f", str(base / "namespace.yaml"))
        for file in (DEPLOY / "kustomize" / one for one in SHIPPED):
            plane.kubectl("apply", "-n", NAMESPACE, "-f", str(file))
        files = [f"--filename={file}" for file in sorted((DEPLOY / "crds").glob("nodefeature*.yaml"))]
        rights = (base / "rbac.yaml", base / "callers.yaml", DEPLOY / "kustomize" / READERS)
        plane.kubectl("apply", *(f"--filename={file}" for file in rights), *files)
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
        self.library = make_clock_library(self.folder)

    def start_masters(self) -> None:
        """Two, each of which copies the other one's reports while that leads."""
        token = self.plane.service_account_token(ACCOUNT, NAMESPACE, seconds=LIFE)
        for number in range(2):
            proxy = FaultProxy(self.plane, self.seed + number).__enter__()
            self.masters.append(self._master(number, proxy, str(proxy.kubeconfig(token))))
        for one in self.masters:
            self.join(self._make_node(_node_of(one.name)), one, ACCOUNT)
            one.program.start()
        for one in self.masters:
            eventually(one.program.ready, READY)
        maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
        eventually(lambda: self.server.request("GET", maps).get("data"))
        self.kubelets.start()

    def start_crews(self, machines: Sequence[tuple[str, Path]], size: int) -> None:
        for number, first in enumerate(range(0, len(machines), size)):
            self.crews.append(self._crew(number, machines[first : first + size]))
            self.kubelets.mount(self.crews[-1].folder / MOUNT)
            self.crews[-1].program.start()

    def join(self, node: Mapping[str, Any], unit: Unit, account: str = WORKER) -> None:
        """A Node was made: a pod of the account begins to run there, as which the unit's process appears."""
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        self.kubelets.place(Pod(account, AUDIENCES[account], name, unit.folder / TOKENS / name), uid)

    def stop(self) -> None:
        for unit in (*self.crews, *self.masters):
            unit.program.kill()
        self.network.close()
        self.kubelets.stop()
        for unit in self.masters:
            if unit.proxy is not None:
                unit.proxy.__exit__(None, None, None)
            with suppress(ApiError):
                self.server.request("DELETE", f"/api/v1/nodes/{_node_of(unit.name)}")
        with suppress(KubectlError):
            self.plane.kubectl("delete", "--ignore-not-found", "-f", str(DEPLOY / "kustomize" / READERS))

    def failures(self) -> list[str]:
        """Programs that ended by themselves, or whose logs tell of a defect."""
        units = (*self.masters, *self.crews)
        dead = [f"{unit.name} ended by itself" for unit in units if not unit.program.alive()]
        dead += [self.kubelets.failed] if self.kubelets.failed else []
        return dead + [
            f"{unit.name}: {line} (in {unit.program.log})"
            for unit in units
            for line in unit.program.text().splitlines()
            if "Traceback" in line
        ]

    def _make_node(self, name: str) -> Mapping[str, Any]:
        return self.server.request("POST", "/api/v1/nodes", {"metadata": {"name": name}})

    def _master(self, number: int, proxy: FaultProxy, kubeconfig: str) -> Unit:
        """It listens on loopback alone and says that it is at 127.0.1.x, where the relay is."""
        name, (port, http_port), host = f"master-{number}", free_ports(2), _host(number)
        clock, folder = Clock(self.folder / f"{name}.clock", self.library), self._folder_of(name)
        relay = Relay(self.network, host, port, lambda: [("127.0.0.1", port)], self.seed)
        stream = Relay(self.network, "127.0.0.1", 0, lambda: [self._endpoints()[1 - number]], self.seed)
        words = (
            *("-m", "tests.chaos.master", f"-port={port}", f"-http-port={http_port}", f"-kubeconfig={kubeconfig}"),
            *("-config=", "--auth=token", "--enable-leader-election", "--serve-reports"),
            f"--replication-token-file={folder / TOKENS / _node_of(name)}",
            f"--snapshot-file={folder / 'reports'}",
        )
        variables = {"KUBERNETES_NAMESPACE": NAMESPACE, "POD_NAME": name, "POD_IP": host, "PYTHONWARNINGS": WARNINGS}
        variables |= {"CHAOS_STREAM": f"127.0.0.1:{stream.port}", "CHAOS_RELEASE": THIS, **clock.variables}
        program = Program(sys.executable, words, self.folder / f"{name}.log", http_port, variables)
        return Unit(name, program, relay, clock, folder=folder, proxy=proxy, stream=stream)

    def _crew(self, number: int, machines: Sequence[tuple[str, Path]]) -> Unit:
        """Its relay is the Service: any of the masters' addresses, alive or not."""
        name = f"workers-{number}"
        clock, folder = Clock(self.folder / f"{name}.clock", self.library), self._folder_of(name)
        relay = Relay(self.network, "127.0.0.1", 0, self._endpoints, self.seed + number)
        members = (f"{node}={root}" for node, root in machines)
        words = ("-m", "tests.chaos.crew", f"127.0.0.1:{relay.port}", str(folder), *members)
        program = Program(sys.executable, words, self.folder / f"{name}.log", variables=clock.variables)
        return Unit(name, program, relay, clock, members=tuple(node for node, _ in machines), folder=folder)

    def _folder_of(self, name: str) -> Path:
        folder = self.folder / name
        (folder / TOKENS).mkdir(parents=True)
        return folder

    def _endpoints(self) -> list[Address]:
        return [(_host(number), one.relay.port) for number, one in enumerate(self.masters)]


def _host(number: int) -> str:
    return f"127.0.1.{number + 1}"


def _node_of(master: str) -> str:
    """The Node that it runs on, which has no worker."""
    return f"chaos-{master}"
