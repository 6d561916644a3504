"""Puts a master together from flags and configuration, and again from a configuration that has changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nfd.config.flags import Parsed, configure
from nfd.config.load import contents, inline
from nfd.errors import ConfigError, FileGone, KubeError
from nfd.kube.client import KubeClient, connect
from nfd.kube.lease import Lease, Timing
from nfd.kube.reviews import AccessReviews
from nfd.master.config import Config
from nfd.master.http.reports_api import MasterState, ReadAuthorization, ReportsApi
from nfd.master.leadership import Election, where_we_are
from nfd.master.node.proof import UNPROVEN, Proof
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.resources import CustomResources, ResourceOptions
from nfd.master.security.proof_key import SecretKey, file_key
from nfd.master.security.setup import make_security
from nfd.master.service import MakeResources, Options, Service
from nfd.runtime import log
from nfd.runtime.failures import failed
from nfd.store.base import NodeStore
from nfd.store.file import FileStore
from nfd.store.kube import KubeStore

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
LEASE = "nfd-master.nfd.kubernetes.io"
LOOK = 5.0
"""Seconds between two looks at the configuration file; a ConfigMap takes a minute to get here."""
AT_START_ONLY = ("nfd_api_parallelism", "informer_page_size", "leader_election", "klog")

Signature = tuple[tuple[str, bytes], ...]
_log = log.get("master")


@dataclass(slots=True)
class Master:
    """A service and what it was made of."""

    service: Service
    config: Config
    parsed: Parsed
    client: KubeClient | None = None

    async def follow(self, hangup: asyncio.Event, seen: Signature) -> None:
        """Take in the configuration anew whenever `hangup` is set or its file is another one. Until cancelled.

        `seen` is the signature from before the configuration was read: the start may wait for an API server.
        """
        path = str(self.parsed["config"])
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await hangup.wait()
            found = signature(path)
            if hangup.is_set() or found != seen:
                hangup.clear()
                seen = found
                await self.reload()

    async def reload(self) -> None:
        """Go on with the configuration as it is now; one that cannot be used changes nothing."""
        try:
            config, findings = configure(Config, self.parsed)
            options = options_of(config, self.parsed)
            for finding in findings:
                _log.warning("configuration", path=finding.place, error=finding)
            await self.service.reconfigure(options, self.resources(config, options.settings))
        except FileGone as error:
            if error.news:
                _log.warning("configuration file gone or empty, the configuration in use stays", error=error)
            return
        except (ConfigError, KubeError) as error:
            _log.error("configuration cannot be used, the old one stays", error=error)
            return
        except Exception as error:
            failed("reload", error, "configuration cannot be used, the old one stays")
            return
        later = [name for name in AT_START_ONLY if getattr(config, name) != getattr(self.config, name)]
        self.config = config
        _log.info("configuration loaded")
        if later:
            _log.warning("options take effect when the master starts anew", path=later)

    def standing(self) -> MasterState:
        """What we go by at present."""
        settings = options_of(self.config, self.parsed).settings
        limits = self.config.restrictions
        return MasterState(
            settings.policy,
            settings.overwrite,
            settings.instance,
            own_namespace(self.parsed),
            limits.deny_node_feature_labels,
            not self.parsed["feature-gates"]["DisableAutoPrefix"],
            tuple(
                (one.name, one.data, one.origin.value) for one in (*inline(self.parsed["options"]), *self.parsed.layers)
            ),
            limits.node_feature_namespace_selector,
            self.parsed["node-selector"],
            settings.publish,
            tuple(self.service.unwritten()),
        )

    def missing(self) -> str:
        """Why there are no reports here; "" if there are."""
        return "" if self.service.leadership.leading else "another master leads, ask that one"

    def resources(self, config: Config, settings: ReconcileOptions) -> MakeResources | None:
        """What makes the watches on custom resources; None without an API server."""
        client = self.client
        if client is None:
            return None
        wishes = wishes_of(config, self.parsed, settings)
        return lambda metrics: CustomResources(client, wishes, metrics)


async def open_master(config: Config, parsed: Parsed, mode: str) -> Master:
    """On a cluster it watches custom resources too, and may be one of several. Raises: ConfigError."""
    if parsed["node-store"] != "kubernetes":
        if parsed["node-selector"]:
            raise ConfigError("--node-selector needs an API server that selects: not with a store of files")
        if parsed["serve-reports"]:
            raise ConfigError("--serve-reports needs an API server to ask who may read: not with a store of files")
        proof = file_key(folder_of(parsed))
        options = replace(options_of(config, parsed, proof), security=make_security(parsed, mode))
        service = Service(FileStore(folder_of(parsed)), options)
        if parsed["serve-page"]:
            serve_page(service)
        return Master(service, config, parsed)
    client = await connect(parsed["kubeconfig"])
    proof = Proof.of_this_process()
    key = secret_key(client, parsed, proof)
    security = make_security(parsed, mode, client, own_namespace(parsed))
    options = replace(options_of(config, parsed, proof), security=security, key=key)
    if parsed["enable-leader-election"]:
        options = replace(options, election=await open_election(config, parsed))
        client.fence = options.election.lease if options.election else client.fence
    wishes = wishes_of(config, parsed, options.settings)
    store = KubeStore(client, config.informer_page_size, selector=parsed["node-selector"])
    service = Service(store, options, lambda metrics: CustomResources(client, wishes, metrics))
    master = Master(service, config, parsed, client)
    admission = ReadAuthorization(AccessReviews(client))
    if parsed["serve-reports"]:
        service.serve(ReportsApi(admission, master.standing, master.missing, service.reported, service.heard).routes())
    if parsed["serve-page"]:
        serve_page(service, admission)
    return master


def serve_page(service: Service, admission: ReadAuthorization | None = None) -> None:
    """The fleet in a browser; loaded where it is served, since it takes 0.7 MiB."""
    from nfd.master.page.server import Page

    service.serve(Page(service.nodes, service.starting, admission.check if admission else None).routes())


async def open_election(config: Config, parsed: Parsed) -> Election:
    """Raises: ConfigError if it is not known in which namespace the lease is, or its times do not fit."""
    namespace = own_namespace(parsed)
    if not namespace:
        raise ConfigError("--enable-leader-election: not inside a pod, so give --namespace, where the Lease is to be")
    timing = config.leader_election
    timing.check()
    times = Timing(timing.lease_duration, timing.renew_deadline, timing.retry_period)
    pod, host = where_we_are(os.environ)
    return Election(Lease(await connect(parsed["kubeconfig"]), namespace, LEASE, times), pod, host)


async def open_store(config: Config, parsed: Parsed) -> tuple[NodeStore, Proof, SecretKey | None]:
    """The node store that `--node-store` names, what is proven there, and where its key is; none is made in a Secret.

    Raises: ConfigError.
    """
    if parsed["node-store"] != "kubernetes":
        return FileStore(folder_of(parsed)), file_key(folder_of(parsed)), None
    client, proof = await connect(parsed["kubeconfig"]), Proof()
    if key := secret_key(client, parsed, proof):
        await key.look(make=False)
    return KubeStore(client, config.informer_page_size, selector=parsed["node-selector"]), proof, key


def secret_key(client: KubeClient, parsed: Parsed, proof: Proof) -> SecretKey | None:
    """What keeps the proof's key in step with the Secret; None if it is not known in which namespace that is."""
    namespace = own_namespace(parsed)
    return SecretKey(client, namespace, parsed["certificate-objects"], proof) if namespace else None


def folder_of(parsed: Parsed) -> Path:
    """DIR in `--node-store=file:DIR`."""
    return Path(parsed["node-store"].removeprefix("file:"))


def options_of(config: Config, parsed: Parsed, proof: Proof | None = None) -> Options:
    """What flags and configuration say about the service; `proof` is what it starts with. Raises: ConfigError."""
    gates: Mapping[str, bool] = parsed["feature-gates"]
    return Options(
        port=parsed["port"],
        http_port=parsed["http-port"] or None,
        parallelism=config.nfd_api_parallelism,
        resync=config.resync_period,
        stale_after=config.stale_after,
        service_name=parsed["service-name"],
        settings=ReconcileOptions(
            policy=config.policy(auto_prefix=not gates["DisableAutoPrefix"]),
            overwrite=config.restrictions.allow_overwrite,
            instance=parsed["instance"],
            publish=not config.no_publish,
            proof=proof or UNPROVEN,
        ),
    )


def wishes_of(config: Config, parsed: Parsed, settings: ReconcileOptions) -> ResourceOptions:
    """What flags and configuration say about custom resources."""
    limits = config.restrictions
    return ResourceOptions(
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


def signature(path: str) -> Signature:
    """What the configuration file and its drop-ins say: a touch, or a copy of the same, is no change."""
    return contents(path)
