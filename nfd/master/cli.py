"""`nfd-master`: serves workers over gRPC and keeps the labels of Nodes right."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nfd import log
from nfd.config.flags import Extra, Gate, Parsed, configure, daemon_flags, feature_gates, parse
from nfd.config.text import parse_integer
from nfd.errors import ConfigError, NfdError
from nfd.kube.connect import connect
from nfd.master.config import Config
from nfd.master.objects import Joining
from nfd.master.prune import prune
from nfd.master.reconcile import Settings
from nfd.master.resources import CustomResources, Wishes
from nfd.master.security import FLAGS as SECURITY_FLAGS
from nfd.master.security import make_security, mode_of
from nfd.master.service import Options, Service
from nfd.store.base import Kind, NodeStore
from nfd.store.file import FileStore
from nfd.store.kube import KubeStore

CONFIG_FILE = "/etc/kubernetes/node-feature-discovery/nfd-master.conf"
GATES = {
    "NodeFeatureAPI": Gate(True),
    "DisableAutoPrefix": Gate(False),
    "NodeFeatureGroupAPI": Gate(False),
}

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_INSTANCE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)
_STORE_HELP = "where Nodes are kept: `kubernetes`, or `file:DIR` for a folder of NODE.yaml files"
_log = log.get("master")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, 1 (failed) or 2 (usage or configuration)."""
    try:
        parsed = parse(
            "nfd-master",
            sys.argv[1:] if argv is None else argv,
            FLAGS,
            Config,
            "NFD_MASTER",
            about="Takes reports of nfd-worker over gRPC and labels Node objects.",
        )
        if parsed.answer:
            print(parsed.answer)
            return 0
        config, findings = configure(Config, parsed)
        options = options_of(config, parsed)
        mode = mode_of(parsed, os.environ)
    except ConfigError as error:
        print(f"nfd-master: {error}", file=sys.stderr)
        return 2
    log.setup("debug" if config.klog.v > 0 else "info")
    for finding in findings:
        _log.warning("configuration", path=finding.place, error=finding)
    try:
        asyncio.run(_prune(config, parsed) if parsed["prune"] else _serve(config, options, parsed, mode))
    except (NfdError, OSError) as error:
        _log.error("stopping", error=error)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


def options_of(config: Config, parsed: Parsed) -> Options:
    """What flags and configuration say about the service. Raises: ConfigError."""
    gates: Mapping[str, bool] = parsed["feature-gates"]
    return Options(
        port=parsed["port"],
        http_port=parsed["http-port"] or None,
        parallelism=config.nfd_api_parallelism,
        resync=config.resync_period,
        settings=Settings(
            policy=config.policy(auto_prefix=not gates["DisableAutoPrefix"]),
            overwrite=config.restrictions.allow_overwrite,
            instance=parsed["instance"],
            publish=not config.no_publish,
        ),
    )


def wishes_of(config: Config, parsed: Parsed, settings: Settings) -> Wishes:
    """What flags and configuration say about custom resources."""
    limits = config.restrictions
    return Wishes(
        Joining(settings.policy, own_namespace(parsed), limits.deny_node_feature_labels),
        limits.node_feature_namespace_selector,
        parsed["feature-gates"]["NodeFeatureGroupAPI"],
        settings.publish,
        settings.instance,
        config.informer_page_size,
    )


def own_namespace(parsed: Parsed) -> str:
    """`--namespace`, else that of the pod's service account; "" outside a cluster."""
    try:
        return str(parsed["namespace"]) or NAMESPACE_FILE.read_text().strip()
    except OSError:
        return ""


async def open_store(where: str, kubeconfig: str, page_size: int) -> NodeStore:
    """The node store that `--node-store` names. Raises: ConfigError."""
    if where == "kubernetes":
        return KubeStore(await connect(kubeconfig), page_size)
    return FileStore(Path(where.removeprefix("file:")))


async def open_service(config: Config, options: Options, parsed: Parsed, mode: str) -> Service:
    """The master; on a cluster it watches custom resources too. Raises: ConfigError."""
    if parsed["node-store"] != "kubernetes":
        options = replace(options, security=make_security(parsed, mode))
        return Service(await open_store(parsed["node-store"], "", 0), options)
    client = await connect(parsed["kubeconfig"])
    options = replace(options, security=make_security(parsed, mode, client, own_namespace(parsed)))
    wishes = wishes_of(config, parsed, options.settings)
    return Service(
        KubeStore(client, config.informer_page_size), options, lambda metrics: CustomResources(client, wishes, metrics)
    )


async def _serve(config: Config, options: Options, parsed: Parsed, mode: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    service = await open_service(config, options, parsed, mode)
    starting, stopping = asyncio.create_task(service.start()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            await stopping
    finally:
        for task in (starting, stopping):
            task.cancel()
        await asyncio.gather(starting, stopping, return_exceptions=True)
        await service.stop()


async def _prune(config: Config, parsed: Parsed) -> None:
    """Prints each key as `NODE KIND KEY`, as it is removed or, with --dry-run, would be."""
    if config.no_publish:
        return
    store = await open_store(parsed["node-store"], parsed["kubeconfig"], config.informer_page_size)
    try:
        await store.start(lambda name: None)
        async for planned in prune(store, parsed["instance"], dry_run=parsed["dry-run"]):
            keys = [(kind, key) for kind, change in planned.changes.items() for key in sorted(change.remove)]
            for kind, key in [*keys, *((Kind.ANNOTATIONS, key) for key in sorted(planned.forgotten))]:
                print(planned.node.name, kind, key)
    finally:
        await store.close()


def _port(text: str) -> int:
    port = parse_integer(text)
    if not 0 <= port <= 65535:
        raise ValueError(f"{text} is no port number")
    return port


def _store(text: str) -> str:
    kind, colon, folder = text.partition(":")
    if text != "kubernetes" and not (kind == "file" and colon and folder):
        raise ValueError(f"{text!r} is neither `kubernetes` nor `file:DIR`")
    return text


def _instance(text: str) -> str:
    if not _INSTANCE.fullmatch(text):
        raise ValueError(f"{text!r} must be letters, digits, '-', '_' or '.', with a letter or digit at both ends")
    return text


FLAGS = (
    *daemon_flags(CONFIG_FILE),
    Extra("node-store", _STORE_HELP, "kubernetes", _store, env=("NFD_MASTER_NODE_STORE",)),
    Extra("kubeconfig", "kubeconfig file; else $KUBECONFIG, else the pod's service account"),
    Extra("port", "gRPC port for workers", 8080, _port),
    Extra(
        "http-port", "port of /healthz, /readyz and /metrics; 0 switches them off", 8081, _port, aliases=("metrics",)
    ),
    Extra("grpc-health", "accepted, without effect: health is served on the gRPC port", 8082, _port, hidden=True),
    Extra("instance", "prefix of the bookkeeping annotations, for several masters in one cluster", "", _instance),
    Extra("prune", "remove everything of ours from all nodes and exit", False, switch=True),
    Extra("dry-run", "with --prune: only print what would be removed", False, switch=True),
    Extra("enable-leader-election", "let one of several replicas write", False, switch=True),
    *SECURITY_FLAGS,
    Extra("crd-controller", "accepted, without effect", True, switch=True, hidden=True),
    Extra("featurerules-controller", "accepted, without effect", True, switch=True, hidden=True),
    Extra("enable-nodefeature-api", "accepted, without effect", True, switch=True, hidden=True),
    feature_gates(GATES),
)


if __name__ == "__main__":
    sys.exit(main())
