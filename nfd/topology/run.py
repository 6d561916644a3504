"""The running `nfd-topology-updater`: the updater with its watch of pods, its triggers, probes and metrics."""

from __future__ import annotations

import asyncio
import os

from nfd import names
from nfd.config.flags import Parsed
from nfd.config.yamltext import dump
from nfd.errors import ConfigError, KubeError
from nfd.host import Host
from nfd.kube.client import connect
from nfd.runtime import log, tasks
from nfd.runtime.http_server import serving
from nfd.runtime.probes import alive_answer, probes
from nfd.runtime.stdout import say
from nfd.runtime.tasks import Asked
from nfd.topology.cli import ACCOUNT, SOCKET, STATE, Config
from nfd.topology.kubelet import default_uri
from nfd.topology.pods import Claims
from nfd.topology.publisher import Publisher
from nfd.topology.triggers import Triggers
from nfd.topology.updater import Metrics, Updater, UpdaterSettings
from nfd.topology.zones import Json

HOSTNAME = "proc/sys/kernel/hostname"
PATIENCE = 30.0
"""Seconds that -oneshot gives the API server for the list of pods."""

_log = log.get("topology")


def settings_of(parsed: Parsed, config: Config, host: Host) -> UpdaterSettings:
    """Raises: ConfigError."""
    node = host.env("NODE_NAME") or (host.value(HOSTNAME) or "").lower()
    if problem := names.subdomain_problem(node):
        raise ConfigError(f"NODE_NAME: node name {node!r} {problem}")
    uri = parsed["kubelet-config-uri"] or default_uri(host.env("NODE_ADDRESS"))
    if not uri:
        raise ConfigError("-kubelet-config-uri is required if NODE_ADDRESS, the kubelet's address, is not set")
    return UpdaterSettings(
        node=node,
        socket=parsed["podresources-socket"] or str(host.root / SOCKET),
        kubelet_uri=uri,
        token_file=parsed["api-auth-token-file"],
        interval=parsed["sleep-interval"],
        namespace=parsed["watch-namespace"],
        fingerprint=parsed["pods-fingerprint"],
        exclude_list=config.exclude_list,
    )


async def run(parsed: Parsed, settings: UpdaterSettings, host: Host, asked: Asked) -> int:
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
    handler = probes(
        lambda: alive_answer(updater.busy_since),
        lambda: "" if updater.ready else "nothing is published yet",
        metrics.families,
    )
    went_well: list[bool] = []

    async def work() -> None:
        if oneshot:
            went_well.append(await _once(updater, claims))
        else:
            await tasks.supervised("updater", lambda: updater.run(triggers))

    try:
        with serving(0 if oneshot else parsed["port"], handler):
            watch = tasks.supervised("watch of pods", claims.informer.run, (KubeError,))
            await tasks.first_of(watch, work(), asked.stop.wait())
        return int(oneshot and went_well != [True])
    finally:
        triggers.close()
        await client.close()


async def _once(updater: Updater, claims: Claims) -> bool:
    try:
        async with asyncio.timeout(PATIENCE):
            await claims.informer.synced.wait()
    except TimeoutError:
        _log.error("cannot list the pods of this node", seconds=PATIENCE)
        return False
    return await updater.one_pass()


def own_namespace() -> str:
    """The namespace of this pod; "" outside a pod. Reads: the service account's folder (Kubernetes documentation)."""
    try:
        return (ACCOUNT / "namespace").read_text().strip()
    except (OSError, UnicodeError):
        return os.environ.get("KUBERNETES_NAMESPACE", "")


def _print(wanted: Json) -> None:
    say(f"---\n{dump(wanted).rstrip()}")
