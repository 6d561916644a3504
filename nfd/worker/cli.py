"""`nfd-worker`: scans this machine and reports to a master, until a signal ends it."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfd import names
from nfd.config.flags import (
    Extra,
    Gate,
    Parsed,
    certificate_files,
    configure,
    daemon_flags,
    feature_gates,
    or_root,
    run_program,
)
from nfd.config.load import Contents
from nfd.config.option_values import parse_port
from nfd.discovery import make_plan
from nfd.errors import ConfigError
from nfd.events.wakes import RELOAD
from nfd.host import Host
from nfd.host.replay import open_host
from nfd.report import Reply, Report
from nfd.rpc import host_of, is_loopback, port_problem
from nfd.runtime import log
from nfd.runtime.cpu_limit import CpuLimit
from nfd.runtime.file_watches import Folder, visible_names
from nfd.runtime.http_server import HttpServer
from nfd.runtime.probes import alive_answer, probes
from nfd.runtime.signals import Signals
from nfd.worker.agent import TURN_SECONDS, Agent, WorkerSettings
from nfd.worker.config import CONFIG_FILE, ENV_PREFIX, WorkerConfig, model
from nfd.worker.report_request_file import EpochFile

if TYPE_CHECKING:
    from nfd.rpc.convert import Digests

HOSTNAME = "proc/sys/kernel/hostname"
TOKEN = "/var/run/secrets/tokens/nfd-master"
ONE_SIDED_TLS = "with a token, use only --server-ca-file"
GATES = {"NodeFeatureAPI": Gate(True), "DisableAutoPrefix": Gate(False), "NodeFeatureGroupAPI": Gate(False)}

_ILLEGAL = re.compile(r"[^a-z0-9.-]+|(?<=\.)[-.]+|-+(?=\.)")
_log = log.get("worker")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, 1 (--oneshot failed) or 2 (usage or configuration)."""
    about = "Scans this machine for features and reports them to nfd-master."
    return run_program("nfd-worker", argv, run, FLAGS, model(), ENV_PREFIX, about=about)


def run(parsed: Parsed) -> int:
    """Start the worker that the command line describes. Raises: ConfigError."""
    host = open_host(parsed["host-root"], parsed["replay"], os.environ)
    node = node_name(host)
    contents = Contents(parsed["config"])
    settings = load(parsed)
    send = reporter(parsed, settings.interval)
    signals = Signals()
    agent = Agent(
        host,
        node,
        settings,
        signals,
        send,
        lambda: load(parsed),
        folders=() if parsed["oneshot"] else config_folders(parsed["config"]),
        changed=contents.changed,
        live=not parsed["replay"],
        epoch=EpochFile("" if parsed["oneshot"] else parsed["epoch-file"]),
    )
    if parsed["oneshot"]:
        return 0 if agent.run_once() else 1
    server = serve(agent, parsed["http-port"])
    turn: Any = Agent.turn
    with CpuLimit(turn, TURN_SECONDS):
        agent.run()
    if server is not None:
        server.close()
    return 0


def load(parsed: Parsed) -> WorkerSettings:
    """Read the configuration; log its level and its warnings. Raises: ConfigError."""
    config, findings = configure(model(), parsed)
    core = config.core
    log.setup("debug" if core.klog.v > 0 else "info")
    for finding in findings:
        _log.warning("configuration", path=finding.place, error=finding)
    return settings_of(config)


def settings_of(config: WorkerConfig) -> WorkerSettings:
    """The settings that the loop needs from the configuration."""
    core = config.core
    return WorkerSettings(
        plan=make_plan(core.feature_sources, core.label_sources, config.sources, core.label_white_list),
        interval=core.sleep_interval,
        publish=not core.no_publish,
        unpublished=core.no_publish_features,
    )


def node_name(host: Host) -> str:
    """NODE_NAME, else the machine's host name, as a kubelet uses by default; for a replay, the name of its directory.

    Reads: proc/sys/kernel/hostname (kernel admin-guide/sysctl/kernel). Raises: ConfigError.
    """
    name = host.env("NODE_NAME") or (host.value(HOSTNAME) or "").lower()
    name = name or _ILLEGAL.sub("-", host.root.resolve().name.lower()).strip("-.")
    if problem := names.subdomain_problem(name):
        raise ConfigError(f"NODE_NAME: node name {name!r} {problem}")
    return name


def reporter(parsed: Parsed, pace: float) -> Callable[[Report], Reply]:
    """The function that delivers reports; gRPC is loaded with the first report. Raises: ConfigError."""
    files = certificate_files(parsed, f"; {ONE_SIDED_TLS}")
    if problem := port_problem(parsed["server"]):
        raise ConfigError(f"--server {parsed['server']}: {problem}")
    if not files and not parsed["server-ca-file"] and not is_loopback(host_of(parsed["server"])):
        _log.warning("reports are sent in plain text and without a token", address=parsed["server"])
    token = parsed["token-file"]
    digests: Digests = {}

    def send(report: Report) -> Reply:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own lines would repeat the log
        from nfd.rpc.client import Reporter
        from nfd.rpc.tls import TlsFiles

        ca = parsed["server-ca-file"]
        tls = TlsFiles(*files) if files else TlsFiles(ca) if ca else None
        beat = pace if pace > 0 else 60.0
        shown = token if "token-file" in parsed.given or Path(token).exists() else ""
        name = parsed["server-name-override"]
        return Reporter(parsed["server"], beat, tls, name, token_file=shown, digests=digests).send(report)

    return send


def config_folders(path: str) -> tuple[Folder, ...]:
    """The directories of the configuration file and its drop-ins; none for a device such as /dev/null."""
    file = Path(path).absolute()
    if not path or (file.exists() and not file.is_file()):
        return ()

    def is_of_config(name: str) -> bool:
        """Whether a changed name concerns the configuration. Kubernetes replaces a volume by links with two dots in
        front."""
        leads = (str(file.readlink()).partition("/")[0],) if file.is_symlink() else ()
        return name in (file.name, *leads) or name.startswith("..")

    return (
        Folder(RELOAD, str(file.parent), deep=False, counts=is_of_config),
        Folder(RELOAD, f"{file}.d", deep=False, counts=visible_names),
    )


def serve(agent: Agent, port: int) -> HttpServer | None:
    """Serve probes and metrics. If the port is in use, that is only logged, as in NFD."""
    if not port:
        return None

    handler = probes(
        lambda: alive_answer(agent.busy_since),
        lambda: "" if agent.ready else "the first scan is not done yet",
        lambda: agent.metrics.families(time.monotonic()),
    )
    try:
        return HttpServer(port, handler)
    except OSError as error:
        _log.error("cannot serve probes and metrics", error=f"port {port}: {error.strerror}")
        return None


def _server(text: str) -> str:
    if not text.rpartition(":")[2].isdecimal():
        raise ValueError(f"{text!r} is not HOST:PORT")
    return text


FLAGS = (
    *daemon_flags(CONFIG_FILE),
    Extra("server", "address of the master, HOST:PORT", "localhost:8080", _server),
    Extra("server-name-override", "name that the master's certificate must have, if not the host's"),
    Extra("ca-file", "CA certificate to verify the master's certificate (PEM)"),
    Extra("cert-file", "the worker's certificate (PEM)"),
    Extra("key-file", "the worker's private key (PEM)"),
    Extra("server-ca-file", "CA certificates (PEM) for TLS with a token; -ca-file overrides it"),
    Extra("token-file", "service-account token (audience nfd-master) that identifies this pod to the master", TOKEN),
    Extra("epoch-file", "file whose change asks this worker for a report: the entry `epoch` of the master's ConfigMap"),
    Extra("oneshot", "scan once, deliver the report within 30 s or fail, and exit", False, switch=True),
    Extra("host-root", "where the root file system of this machine is mounted", "/", or_root, env=("NFD_HOST_ROOT",)),
    Extra("replay", "directory of a recorded machine to scan instead of this one"),
    Extra(
        "http-port",
        "port of /healthz, /readyz and /metrics; 0 disables it",
        8081,
        parse_port,
        aliases=("port", "metrics"),
    ),
    Extra("grpc-health", "accepted, without effect: the worker serves no gRPC", 8082, parse_port, hidden=True),
    Extra("kubeconfig", "accepted, without effect: the worker does not use the API server", hidden=True),
    Extra(
        "enable-nodefeature-api", "accepted, without effect: reports are sent over gRPC", True, switch=True, hidden=True
    ),
    feature_gates(GATES),
)


if __name__ == "__main__":
    sys.exit(main())
