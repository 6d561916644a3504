"""`nfd-topology-updater`: keeps this node's NodeResourceTopology, until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from pydantic import Field

from nfd import names
from nfd.config.flags import Extra, Parsed, or_root, parse
from nfd.config.klog import Klog
from nfd.config.load import files, load
from nfd.config.section import Section, parse_duration
from nfd.config.text import parse_port
from nfd.config.yamltext import dump
from nfd.errors import ConfigError, HostError, KubeError, NfdError
from nfd.host import Host
from nfd.kube.client import connect
from nfd.runtime import log, tasks
from nfd.runtime.health import HttpServer, alive_answer, probes
from nfd.runtime.signals import begin
from nfd.runtime.stdout import say
from nfd.runtime.tasks import Asked
from nfd.topology.kubelet import check_uri, default_uri
from nfd.topology.metrics import Metrics
from nfd.topology.pods import Claims
from nfd.topology.publisher import Publisher
from nfd.topology.triggers import Triggers
from nfd.topology.updater import Settings, Updater
from nfd.topology.zones import Json

PROGRAM = "nfd-topology-updater"
CONFIG_FILE = "/etc/kubernetes/node-feature-discovery/nfd-topology-updater.conf"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SOCKET = "var/lib/kubelet/pod-resources/kubelet.sock"
STATE = "var/lib/kubelet"
HOSTNAME = "proc/sys/kernel/hostname"
PATIENCE = 30.0
"""Seconds that -oneshot gives the API server for the list of pods."""

_log = log.get("topology")


class Config(Section):
    klog: Klog = Klog()
    """Logging options of klog."""
    exclude_list: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Resources to leave out, by node name; `*` stands for every node."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, 1 (failed) or 2 (usage)."""
    if argv is None:
        begin()
    try:
        parsed = parse(
            PROGRAM,
            sys.argv[1:] if argv is None else argv,
            FLAGS,
            Config,
            about="Writes what this node has left in each NUMA node, as NodeResourceTopology.",
        )
        if parsed.answer:
            say(parsed.answer)
            return 0
        config, findings = load(Config, (*files(parsed["config"]), *parsed.layers))
        host = Host(parsed["host-root"])
        settings = settings_of(parsed, config, host)
    except (NfdError, OSError) as error:
        log.complain(PROGRAM, error)
        return 1 if isinstance(error, HostError) else 2
    log.setup("debug" if config.klog.v > 0 else "info")
    for finding in findings:
        _log.warning("configuration", path=finding.place, error=finding)
    try:
        return tasks.serve(partial(run, parsed, settings, host))
    except (NfdError, OSError) as error:
        _log.error("stopping", error=error)
        return 2 if isinstance(error, ConfigError) else 1


def settings_of(parsed: Parsed, config: Config, host: Host) -> Settings:
    """Raises: ConfigError."""
    node = host.env("NODE_NAME") or (host.value(HOSTNAME) or "").lower()
    if problem := names.subdomain_problem(node):
        raise ConfigError(f"NODE_NAME: the node's name {node!r} {problem}")
    uri = parsed["kubelet-config-uri"] or default_uri(host.env("NODE_ADDRESS"))
    if not uri:
        raise ConfigError("-kubelet-config-uri: needed where NODE_ADDRESS, the kubelet's address, is not set")
    return Settings(
        node=node,
        socket=parsed["podresources-socket"] or str(host.root / SOCKET),
        kubelet_uri=uri,
        token_file=parsed["api-auth-token-file"],
        interval=parsed["sleep-interval"],
        namespace=parsed["watch-namespace"],
        fingerprint=parsed["pods-fingerprint"],
        exclude_list=config.exclude_list,
    )


async def run(parsed: Parsed, settings: Settings, host: Host, asked: Asked) -> int:
    """Until a signal, or for one pass. Raises: ConfigError, KubeError, OSError."""
    client = await tasks.unless(asked.stop, connect(parsed["kubeconfig"]))
    if client is None:
        return 0
    oneshot = parsed["oneshot"]
    state = parsed["kubelet-state-dir"] if "kubelet-state-dir" in parsed.given else str(host.root / STATE)
    triggers, metrics = Triggers("" if oneshot else state), Metrics()
    claims = Claims(client, settings.node, triggers.pull)
    show = _print if parsed["no-publish"] else None
    updater = Updater(host, settings, claims, Publisher(client, own_namespace()), metrics, show)
    server = serve(parsed["port"], updater, metrics) if parsed["port"] and not oneshot else None
    went_well: list[bool] = []

    async def work() -> None:
        if oneshot:
            went_well.append(await _once(updater, claims))
        else:
            await tasks.supervised("updater", lambda: updater.run(triggers))

    try:
        await tasks.first_of(tasks.supervised("watch of pods", claims.run, (KubeError,)), work(), asked.stop.wait())
        return int(oneshot and went_well != [True])
    finally:
        if server is not None:
            server.close()
        triggers.close()
        await client.close()


async def _once(updater: Updater, claims: Claims) -> bool:
    try:
        async with asyncio.timeout(PATIENCE):
            await claims.synced.wait()
    except TimeoutError:
        _log.error("the pods of this node cannot be listed", seconds=PATIENCE)
        return False
    return await updater.one_pass()


def own_namespace() -> str:
    """Of the pod that we are; "" if we are none. Reads: the service account's folder (Kubernetes documentation)."""
    try:
        return (ACCOUNT / "namespace").read_text().strip()
    except (OSError, UnicodeError):
        return os.environ.get("KUBERNETES_NAMESPACE", "")


def serve(port: int, updater: Updater, metrics: Metrics) -> HttpServer:
    """Raises: OSError if the port cannot be had."""

    def missing() -> str:
        return "" if updater.ready else "nothing is published yet"

    return HttpServer(port, probes(lambda: alive_answer(updater.busy_since), missing, metrics.families))


def _print(wanted: Json) -> None:
    say(f"---\n{dump(wanted).rstrip()}")


def _interval(text: str) -> float:
    seconds = float(parse_duration(text))
    if seconds < 0:
        raise ValueError(f"{text} is no time between two scans")
    return seconds


def _namespace(text: str) -> str:
    if text != "*" and (problem := names.subdomain_problem(text)):
        raise ValueError(f"{text!r} {problem}")
    return text


FLAGS = (
    Extra("config", f"configuration file; its drop-ins are {CONFIG_FILE}.d/*", CONFIG_FILE),
    Extra("oneshot", "scan once, publish and exit; 1 if that fails", False, switch=True),
    Extra("no-publish", "print the object, whenever it differs, instead of publishing it", False, switch=True),
    Extra("kubeconfig", "kubeconfig file; else $KUBECONFIG, else the pod's service account"),
    Extra(
        "port", "port of /healthz, /readyz and /metrics; 0 switches them off", 8080, parse_port, aliases=("metrics",)
    ),
    Extra("sleep-interval", "time between two scans; 0 leaves them to files and pods that change", 60.0, _interval),
    Extra("watch-namespace", "namespace of the pods to count; * for all", "*", _namespace),
    Extra(
        "kubelet-config-uri",
        "where the kubelet's configuration is, https:// or file://; else https://$NODE_ADDRESS:10250/configz",
        "",
        lambda text: check_uri(text) if text else "",
    ),
    Extra(
        "api-auth-token-file", "token shown to the kubelet, for https:// in -kubelet-config-uri", str(ACCOUNT / "token")
    ),
    Extra("podresources-socket", f"the kubelet's pod-resources socket; else HOST-ROOT/{SOCKET}"),
    Extra("pods-fingerprint", "publish a fingerprint of the set of pods", True, switch=True),
    Extra("kubelet-state-dir", f"the kubelet's folder, watched for changes; empty for none; else HOST-ROOT/{STATE}"),
    Extra("host-root", "where this machine's / is mounted", "/", or_root, env=("NFD_HOST_ROOT",)),
    Extra("grpc-health", "accepted, without effect: health is on the HTTP port", 8082, parse_port, hidden=True),
)


if __name__ == "__main__":
    sys.exit(main())
