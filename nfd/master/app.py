"""Makes a master from flags and configuration, and applies a changed configuration."""

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
from nfd.kube.leader_election import Lease, Timing
from nfd.kube.token_reviews import AccessReviews
from nfd.master.config import Config
from nfd.master.http.reports_api import MasterState, ReadAuthorization, ReportsApi
from nfd.master.leadership import Election, own_address
from nfd.master.node.proof import UNPROVEN, Proof
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.node.startup_taints import parse_startup_taint
from nfd.master.reports.request_reports import EpochWriter
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
LOOK = 5.0
"""Seconds between two checks of the configuration file; an update of a ConfigMap takes a minute to arrive."""
AT_START_ONLY = ("nfd_api_parallelism", "informer_page_size", "leader_election", "klog")

Signature = tuple[tuple[str, bytes], ...]
_log = log.get("master")


@dataclass(slots=True)
class Master:
    """A service and its configuration."""

    service: Service
    config: Config
    parsed: Parsed
    client: KubeClient | None = None

    async def follow(self, hangup: asyncio.Event, seen: Signature) -> None:
        """Reload the configuration whenever `hangup` is set or its file changed. Until cancelled.

        `seen` is the signature from before the configuration was read, since the start may wait for an API server.
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
        """Apply the current configuration; an invalid one changes nothing."""
        try:
            config, findings = configure(Config, self.parsed)
            options = options_of(config, self.parsed)
            for finding in findings:
                _log.warning("configuration", path=finding.place, error=finding)
            await self.service.reconfigure(options, self.resources(config, options.settings))
        except FileGone as error:
            if error.news:
                _log.warning("configuration file is missing or empty; the configuration in use stays", error=error)
            return
        except (ConfigError, KubeError) as error:
            _log.error("configuration is invalid; the previous one stays in use", error=error)
            return
        except Exception as error:
            failed("reload", error, "configuration is invalid; the previous one stays in use")
            return
        later = [name for name in AT_START_ONLY if getattr(config, name) != getattr(self.config, name)]
        self.config = config
        _log.info("configuration loaded")
        if later:
            _log.warning("these options take effect after a restart of the master", option=later)

    def state(self) -> MasterState:
        """The current state."""
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
            self.service.kept_taints(),
            settings.conditions,
            tuple(self.service.silent()) if settings.conditions else (),
        )

    def missing(self) -> str:
        """The reason why there are no reports here; "" if there are."""
        return "" if self.service.leadership.leading else "another master leads; ask the leader"

    def resources(self, config: Config, settings: ReconcileOptions) -> MakeResources | None:
        """Makes the informers of custom resources; None without an API server."""
        client = self.client
        if client is None:
            return None
        resource_options = resource_options_of(config, self.parsed, settings)
        return lambda metrics: CustomResources(client, resource_options, metrics)


async def open_master(config: Config, parsed: Parsed, mode: str) -> Master:
    """Make the master; on a cluster with custom resources and leader election. Raises: ConfigError."""
    check_flags(parsed)
    if parsed["node-store"] != "kubernetes":
        proof = file_key(folder_of(parsed))
        options = replace(options_of(config, parsed, proof), security=make_security(parsed, mode))
        service = Service(FileStore(folder_of(parsed)), options)
        if parsed["serve-page"]:
            serve_page(service, parsed["cluster-name"])
        return Master(service, config, parsed)
    client = await connect(parsed["kubeconfig"])
    proof = Proof.of_this_process()
    key = secret_key(client, parsed, proof)
    security = make_security(parsed, mode, client, own_namespace(parsed))
    epoch = epoch_writer(client, parsed)
    options = replace(options_of(config, parsed, proof), security=security, key=key, epoch=epoch)
    if parsed["enable-leader-election"]:
        options = replace(options, election=await open_election(config, parsed))
        client.fence = options.election.lease if options.election else client.fence
    resource_options = resource_options_of(config, parsed, options.settings)
    store = KubeStore(client, config.informer_page_size, selector=parsed["node-selector"])
    service = Service(store, options, lambda metrics: CustomResources(client, resource_options, metrics))
    master = Master(service, config, parsed, client)
    admission = ReadAuthorization(AccessReviews(client))
    if parsed["serve-reports"]:
        service.serve(
            ReportsApi(admission, master.state, master.missing, service.reported, service.latest_report).routes()
        )
    if parsed["serve-page"]:
        serve_page(service, parsed["cluster-name"], admission, client if parsed["page-dra"] else None)
    return master


def check_flags(parsed: Parsed) -> None:
    """Raises: ConfigError if a flag lacks another one."""
    if parsed["replication-token-file"] and not parsed["enable-leader-election"]:
        raise ConfigError("--replication-token-file needs --enable-leader-election")
    if parsed["page-dra"] and not parsed["serve-page"]:
        raise ConfigError("--page-dra needs --serve-page")
    if parsed["node-store"] == "kubernetes":
        return
    if parsed["node-selector"]:
        raise ConfigError("--node-selector needs --node-store=kubernetes")
    if parsed["serve-reports"]:
        raise ConfigError("--serve-reports needs --node-store=kubernetes, to authorise clients")
    if parsed["page-dra"]:
        raise ConfigError("--page-dra needs --node-store=kubernetes, to read DRA")


def serve_page(
    service: Service, cluster: str, admission: ReadAuthorization | None = None, client: KubeClient | None = None
) -> None:
    """Serve the page, with DRA if there is a client to read it. It is imported here because it takes 0.7 MiB."""
    from nfd.master.page.dra_reader import DraReader
    from nfd.master.page.server import Knowledge, Page

    check, knowledge = admission.check if admission else None, Knowledge(cluster, service.age, service.origins)
    dra = DraReader(client) if client else None
    service.serve(Page(service.nodes, service.starting, check, knowledge=knowledge, dra=dra).routes())


async def open_election(config: Config, parsed: Parsed) -> Election:
    """Make the election. Raises: ConfigError if the lease's namespace is unknown, or its times are invalid."""
    namespace = own_namespace(parsed)
    if not namespace:
        raise ConfigError("--enable-leader-election needs --namespace outside a pod: the namespace of the Lease")
    timing = config.leader_election
    timing.check()
    times = Timing(timing.lease_duration, timing.renew_deadline, timing.retry_period)
    pod, host = own_address(os.environ)
    return Election(Lease(await connect(parsed["kubeconfig"]), namespace, parsed["lease-name"], times), pod, host)


async def open_store(config: Config, parsed: Parsed) -> tuple[NodeStore, Proof, SecretKey | None]:
    """The node store of `--node-store`, the proof, and the follower of its key; no key is made in a Secret.

    Raises: ConfigError.
    """
    if parsed["node-store"] != "kubernetes":
        return FileStore(folder_of(parsed)), file_key(folder_of(parsed)), None
    client, proof = await connect(parsed["kubeconfig"]), Proof()
    if key := secret_key(client, parsed, proof):
        await key.look(make=False)
    return KubeStore(client, config.informer_page_size, selector=parsed["node-selector"]), proof, key


def secret_key(client: KubeClient, parsed: Parsed, proof: Proof) -> SecretKey | None:
    """The follower of the proof's key in the Secret; None if its namespace is unknown."""
    namespace = own_namespace(parsed)
    return SecretKey(client, namespace, parsed["certificate-objects"], proof) if namespace else None


def epoch_writer(client: KubeClient, parsed: Parsed) -> EpochWriter | None:
    """What asks workers for reports; None if the namespace of its ConfigMap is unknown."""
    namespace = own_namespace(parsed)
    return EpochWriter(client, namespace, parsed["certificate-objects"]) if namespace else None


def folder_of(parsed: Parsed) -> Path:
    """DIR in `--node-store=file:DIR`."""
    return Path(parsed["node-store"].removeprefix("file:"))


def options_of(config: Config, parsed: Parsed, proof: Proof | None = None) -> Options:
    """The service's options from flags and configuration; `proof` is the initial one. Raises: ConfigError."""
    gates: Mapping[str, bool] = parsed["feature-gates"]
    return Options(
        port=parsed["port"],
        http_port=parsed["http-port"] or None,
        parallelism=config.nfd_api_parallelism,
        resync=config.resync_period,
        stale_after=config.stale_after,
        info_labels=config.feature_info_labels,
        service_name=parsed["service-name"],
        snapshot=Path(parsed["snapshot-file"]) if parsed["snapshot-file"] else None,
        settings=ReconcileOptions(
            policy=config.policy(auto_prefix=not gates["DisableAutoPrefix"]),
            overwrite=config.restrictions.allow_overwrite,
            instance=parsed["instance"],
            publish=not config.no_publish,
            conditions=config.node_conditions,
            startup_taints=frozenset(map(parse_startup_taint, config.startup_taints)),
            proof=proof or UNPROVEN,
        ),
    )


def resource_options_of(config: Config, parsed: Parsed, settings: ReconcileOptions) -> ResourceOptions:
    """The options of custom resources from flags and configuration."""
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
    """The content of the configuration file and its drop-ins, so that a touch, or an equal copy, is no change."""
    return contents(path)
