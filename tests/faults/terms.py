"""SIGTERM at any moment of a program's life: it ends within its grace, holds no Lease, and says nothing odd.

`python -m tests.faults.terms [--times N] [--seed N] [PROGRAM…]` starts each program N times (default: 200) on a real
API server and prints a table; exit status 1 if one of them did not end as it has to.
"""

from __future__ import annotations

import argparse
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nfd.runtime.signals import GRACE, KILLED
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.programs import Program

ROOT = Path(__file__).parents[2]
DEFINITIONS = sorted((ROOT / "deploy/crds").glob("nodefeature*.yaml"))
NAMESPACE = "terms"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/nfd-master.nfd.kubernetes.io"
NODES = ("terms-0", "terms-1", "terms-2")
TERM = 15
UNTIL_OPEN = 20.0
"""Seconds that a port may take to open on a busy machine."""
EARLY = (-TERM, KILLED + TERM)
"""Exit statuses of a program that has not begun to work: the kernel's default, and ours."""
ODD = ("Traceback", "never retrieved", "InvalidStateError", "CancelledError", "was destroyed", "Exception ignored")
PROGRAMS = ("master", "elected", "certificates", "worker", "gfd", "gc", "topology", "config-manager")
"""nfd-master alone, with leader election, and with certificates of its own making besides; and the others."""
Moment = Callable[[random.Random, Program], float]


def from_start(chance: random.Random, program: Program) -> float:
    """Anywhere in a start."""
    return chance.uniform(0.0, 2.5)


def at_the_port(chance: random.Random, program: Program) -> float:
    """While the HTTP port opens, and right after it."""
    deadline = time.monotonic() + UNTIL_OPEN
    while time.monotonic() < deadline and program.alive():
        try:
            socket.create_connection(("127.0.0.1", program.http_port), 1).close()
        except OSError:
            time.sleep(0.002)
        else:
            break
    return chance.uniform(0.0, 0.15)


def when_it_works(chance: random.Random, program: Program) -> float:
    """After the port has been open for a while."""
    return at_the_port(chance, program) + chance.uniform(0.1, 1.5)


MOMENTS: tuple[Moment, ...] = (from_start, at_the_port, when_it_works)


@dataclass
class Ending:
    """One life: what it was asked, and how it ended (`status` is None if it did not)."""

    moment: str
    waited: float
    again: bool
    status: int | None
    seconds: float
    wrong: list[str] = field(default_factory=list)


@dataclass
class Terms:
    """Programs on a control plane, whose logs are in `folder`."""

    plane: ControlPlane
    folder: Path
    lives: int = 0

    def define(self) -> None:
        """Bring the custom resources."""
        files = [f"--filename={file}" for file in DEFINITIONS]
        self.plane.kubectl("apply", *files)
        self.plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)

    def prepare(self) -> None:
        """Some Nodes, and empty objects for certificates."""
        self.plane.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for kind in ("secrets", "configmaps"):
            self.plane.create(f"/api/v1/namespaces/{NAMESPACE}/{kind}", {"metadata": {"name": "nfd-master-ca"}})
        for name in NODES:
            self.plane.create("/api/v1/nodes", {"metadata": {"name": name}})

    def make(self, name: str) -> Program:
        kubeconfig = f"-kubeconfig={self.plane.kubeconfig_for('admin')}"
        port, http_port = free_ports(2)
        self.lives += 1
        log = self.folder / f"{name}-{self.lives}.log"
        machine = f"--replay={ROOT / 'tests/hosts/raspberry-pi-4'}"
        here = {"KUBERNETES_NAMESPACE": NAMESPACE, "NODE_NAME": "terms-0", "POD_NAME": "terms", "POD_IP": "127.0.0.1"}
        here["PYTHONWARNINGS"] = "error,ignore:unclosed:ResourceWarning"  # asyncio's, in the middle of a TLS handshake
        match name:
            case "master" | "elected" | "certificates":
                flags = [f"-port={port}", f"-http-port={http_port}", "-config=", kubeconfig]
                flags += ["-enable-leader-election"] if name != "master" else []
                flags += ["-auth=token"] if name == "certificates" else []
                return Program("nfd-master", tuple(flags), log, http_port, here)
            case "worker":
                words = ("-config=", f"-server=127.0.0.1:{port}", f"-http-port={http_port}", machine)
                return Program("nfd-worker", words, log, http_port, here)
            case "gfd":
                output = ("--use-node-feature-api", "--namespace", NAMESPACE, "--fail-on-init-error=false")
                return Program("gpu-feature-discovery", (kubeconfig, machine, *output), log, http_port, here)
            case "gc":
                return Program("nfd-gc", (f"-port={http_port}", kubeconfig), log, http_port, here)
            case "topology":
                words = ("-config=", f"-port={http_port}", kubeconfig, "-kubelet-config-uri=file:///dev/null")
                return Program("nfd-topology-updater", words, log, http_port, here)
        there = {"CONFIG_FILE_SRCDIR": str(self.folder), "CONFIG_FILE_DST": str(self.folder / "link")}
        there |= {"FALLBACK_STRATEGIES": "empty", "SEND_SIGNAL": "false"}
        return Program("config-manager", (kubeconfig,), log, http_port, here | there)

    def end(self, name: str, chance: random.Random, moment: Moment) -> Ending:
        """One life of that program, ended at that moment; every third one is told twice."""
        program = self.make(name)
        if name in ("gfd", "config-manager"):  # they have no port
            moment = from_start
        program.start()
        waits = moment(chance, program)
        time.sleep(waits)
        again, began = chance.random() < 1 / 3, time.monotonic()
        program.signal(TERM)
        if again:
            time.sleep(chance.uniform(0.0, 0.3))
            program.signal(TERM)
        try:
            status: int | None = program.wait(GRACE + 5)
        except subprocess.TimeoutExpired:
            status = None
            program.kill()
        ending = Ending(moment.__name__, waits, again, status, time.monotonic() - began)
        ending.wrong = [*self._wrong(program, ending)]
        if ending.wrong:
            ending.wrong.append(f"see {program.log}")
        return ending

    def _wrong(self, program: Program, ending: Ending) -> Iterator[str]:
        if ending.status is None or ending.seconds > GRACE:
            yield f"did not end within {GRACE:.0f} s"
        began = ending.moment != from_start.__name__ or "master ready" in program.text()
        if ending.status not in ((0,) if began else (0, *EARLY)):
            yield f"ended with {ending.status}"
        yield from (f"says {word}" for word in ODD if word in program.text())
        try:
            holder = self.plane.request("GET", LEASE)["spec"].get("holderIdentity")
        except ApiError as error:
            holder = None if error.status == 404 else str(error)
        if holder:
            yield f"{holder} holds the Lease"
            self.plane.request("DELETE", LEASE)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.terms", description=__doc__)
    parser.add_argument("--times", type=int, default=200, help="lives of each program (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="what decides the moments (default: 1)")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    options, found = parse(argv), dict[str, list[Ending]]()
    folder = Path(tempfile.mkdtemp(prefix="nfd-terms-"))
    with ControlPlane() as plane:
        terms = Terms(plane, folder)
        terms.define()
        terms.prepare()
        for name in options.programs or PROGRAMS:
            chance = random.Random(f"{options.seed} {name}")
            found[name] = []
            for number in range(options.times):
                ending = terms.end(name, chance, MOMENTS[number % len(MOMENTS)])
                found[name].append(ending)
                if ending.wrong:
                    print(f"{name} {number}: {ending}", flush=True)
            print(row(name, found[name]), flush=True)
    return int(any(ending.wrong for endings in found.values() for ending in endings))


def row(name: str, endings: Sequence[Ending]) -> str:
    statuses = ", ".join(f"{number}× {status}" for status, number in sorted(Counter(e.status for e in endings).items()))
    longest = max(ending.seconds for ending in endings)
    wrong = sum(bool(ending.wrong) for ending in endings)
    return f"{name}: {len(endings)} lives, ended with {statuses}; the longest end took {longest:.2f} s; wrong: {wrong}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
