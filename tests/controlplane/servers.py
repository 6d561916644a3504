"""Starts and stops etcd, kube-apiserver and, where a test wants them, scheduler and controller manager."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane import build, objects, pki
from tests.controlplane.api import Api, ApiError
from tests.controlplane.audit import POLICY, AuditLog, Event
from tests.controlplane.flags import Ports, apiserver_flags, component_flags, etcd_flags
from tests.controlplane.process import Process, free_ports

ADMIN = "admin"
START_SECONDS = 90


class StartError(Exception):
    """A server did not get ready; the message ends with the last lines of its log."""


@dataclass
class Servers:
    """Use it in a `with` block, from the main thread. The servers die with the test run, whatever ends that.

    `users`: who may log in besides `admin`, with their groups; RBAC gives them nothing until a test binds a role.
    """

    users: Mapping[str, Sequence[str]] = field(default_factory=dict)
    folder: Path = field(init=False)
    ports: Ports = field(init=False)
    etcd: Process = field(init=False)
    apiserver: Process = field(init=False)
    audit_log: AuditLog = field(init=False)
    tokens: dict[str, str] = field(init=False, repr=False)
    beside: list[Process] = field(init=False, default_factory=list)
    provoked: list[Event] = field(init=False, default_factory=list)
    """Refused requests that tests have caused on purpose."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start both servers and wait until they are ready.

        Raises: BuildError, StartError.
        """
        programs = build.ensure()
        self.folder = Path(tempfile.mkdtemp(prefix="nfd-controlplane-"))
        self._write_files()
        try:
            self._start_on_free_ports(programs)
        except BaseException:
            self._end_processes(grace=0)
            shutil.rmtree(self.folder / "etcd", ignore_errors=True)  # the logs stay
            raise

    def stop(self) -> None:
        self._end_processes(grace=20)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_apiserver(self) -> None:
        """Start it, again on the same port and data after `stop_apiserver`, and wait until it is ready."""
        begun = self.audit_log.position()
        if not self.apiserver.alive():
            self.apiserver.start()
        self.wait(self._ready, START_SECONDS, "ready")
        self.audit_log.note_start(begun)

    def stop_apiserver(self, *, kill: bool = False) -> None:
        """It drains and closes, or with `kill` is gone in the middle of its work."""
        self.apiserver.stop(grace=0 if kill else 20)
        self.audit_log.give_up_unanswered()

    @contextmanager
    def outage(self, *, kill: bool = False) -> Iterator[None]:
        """No API server for this block; afterwards it is back, whatever the block did."""
        self.stop_apiserver(kill=kill)
        try:
            yield
        finally:
            self.start_apiserver()

    def run(self, name: str, *flags: str) -> Process:
        """Start `kube-scheduler` or `kube-controller-manager` beside the others, built if it must be."""
        program = build.ensure(name)[name]
        kubeconfig, (port,) = self.kubeconfig_for(ADMIN), free_ports(1)
        command = [str(program), *component_flags(kubeconfig, port, self.folder), *flags]
        process = Process(name, command, self.folder / f"{name}.log")
        process.start()
        self.beside.append(process)
        return process

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.ports.api}"

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def kubeconfig(self) -> Path:
        """The admin's, who may do everything."""
        return self.kubeconfig_for(ADMIN)

    def kubeconfig_for(self, user_or_token: str) -> Path:
        """A kubeconfig file for one of `users`, or for whoever owns that token."""
        token = self.token(user_or_token)
        path = self.folder / f"kubeconfig-{hashlib.sha256(token.encode()).hexdigest()[:12]}"
        path.touch(mode=0o600)
        path.write_text(json.dumps(objects.kubeconfig(self.url, self.ca_file, token)))
        return path

    def token(self, user_or_token: str = ADMIN) -> str:
        """A user's token; what names no user is a token already."""
        return self.tokens.get(user_or_token, user_or_token)

    @property
    def api(self) -> Api:
        return Api(self.ports.api, self.ca_file)

    def wait(self, done: Callable[[], bool], seconds: float, what: str) -> None:
        """Poll until `done`.

        Raises: StartError with the last log lines after that time, or as soon as a server is dead.
        """
        deadline = time.monotonic() + seconds
        while not done():
            dead = [server for server in (self.etcd, self.apiserver) if not server.alive()]
            if dead or time.monotonic() > deadline:
                why = f"{dead[0].name} ended" if dead else f"not {what} after {seconds} s"
                tails = "\n".join(server.tail() for server in dead or (self.etcd, self.apiserver))
                raise StartError(f"{why} (logs in {self.folder})\n{tails}")
            time.sleep(0.1)

    def _ready(self) -> bool:
        """Ready for tests: it says so itself, and has made the namespace that everybody uses.

        The server listens long before it serves, and somebody else may listen there: a question waits for a second.
        """
        api = replace(self.api, timeout=1)
        try:
            for path in ("/readyz", "/api/v1/namespaces/default"):
                api.text("GET", path, self.token())
        except (ApiError, OSError):
            return False
        return True

    def _write_files(self) -> None:
        pki.create(self.folder)
        groups = {ADMIN: ["system:masters"], **self.users}
        self.tokens = {user: secrets.token_hex(16) for user in groups}
        (self.folder / "tokens.csv").write_text(objects.token_lines(self.tokens, groups))
        (self.folder / "audit-policy.json").write_text(json.dumps(POLICY))
        self.audit_log = AuditLog(self.folder / "audit.log")
        self.audit_log.path.touch(mode=0o600)

    def _start_on_free_ports(self, programs: Mapping[str, Path]) -> None:
        """Thrice at most: somebody else may take a port between our look and the server's start."""
        for attempts_left in (2, 1, 0):
            self._prepare(programs)
            try:
                self.etcd.start()
                self.start_apiserver()
                return
            except StartError:
                if not attempts_left or not (self.etcd.lost_its_port() or self.apiserver.lost_its_port()):
                    raise
                self._end_processes(grace=0)

    def _prepare(self, programs: Mapping[str, Path]) -> None:
        self.ports = Ports(*free_ports(3))
        flags = {
            "etcd": etcd_flags(self.ports, self.folder / "etcd"),
            "kube-apiserver": apiserver_flags(self.ports, pki.Pki.inside(self.folder), self.folder),
        }
        self.etcd, self.apiserver = (
            Process(name, [str(programs[name]), *flags[name]], self.folder / f"{name}.log") for name in flags
        )

    def _end_processes(self, grace: float) -> None:
        for process in (*self.beside, self.apiserver, self.etcd):
            process.stop(grace)
        self.beside.clear()
