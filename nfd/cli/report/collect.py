"""Reads from a cluster what `nfd report` collects about one node."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nfd import __version__
from nfd.cli.cluster import ask_cluster, read_config_maps, read_node
from nfd.cli.master_reports import read_reports
from nfd.cli.namespace_selector import without_managers
from nfd.cli.report.bundle import Documents
from nfd.errors import KubeError, NfdError
from nfd.features import to_json
from nfd.fleet.node_summary import summarize
from nfd.fleet.node_summary import to_json as summary_json
from nfd.kube.client import KubeClient, Request
from nfd.kube.list_pages import list_all, list_if_known
from nfd.kube.paths import NODE_FEATURES, RULES
from nfd.master.rules.nodefeatures import NODE_NAME

APPS = ("nfd-worker", "nfd-master", "gpu-feature-discovery", "nfd-topology-updater", "nfd-gc")
"""Programs whose logs and images are included."""
LAST_LINES = 500
_CONFIGS = ("nfd-worker.conf", "nfd-master.conf")
"""Keys of ConfigMaps."""
Json = Mapping[str, Any]


@dataclass(slots=True)
class Found:
    """Texts, or data for JSON or YAML, by file name.

    `missing` says what could not be read; `names` are the names of all nodes and their hosts.
    """

    files: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def gather(args: Namespace) -> Found:
    """Raises: ConfigError if no such node, KubeError if it cannot be read."""

    async def ask(client: KubeClient) -> Found:
        node = await read_node(client, args.node)
        found = Found()
        found.files["node.yaml"] = _without_bulk(node)
        found.files["summary.json"] = summary_json(summarize(node))
        versions = {"nfd": __version__, "node": (node.get("status") or {}).get("nodeInfo") or {}}
        found.names = await _try(found, "the names of other nodes", _names(client)) or _names_of(node)
        versions["server"] = await _try(found, "the version of the API server", client.json("GET", "/version")) or {}
        await _objects(client, args.node, found)
        pods = await _try(found, "the pods of nfd", _pods(client, args.namespace, args.node)) or []
        versions["images"] = _images(pods)
        for namespace in sorted({pod["metadata"]["namespace"] for pod in pods} | {args.namespace} - {""}):
            await _configs(client, namespace, found)
        for pod in pods:
            await _logs(client, pod, found)
        if args.master:
            await _try(found, "features", _features(client, args, found))
        found.files["versions.json"] = versions
        return found

    return ask_cluster(args, ask)


async def _try(found: Found, what: str, asked: Any) -> Any:
    """The answer; None and a note if it failed."""
    try:
        return await asked
    except NfdError as error:
        found.missing.append(f"{what}: {error}")
        return None


def _without_bulk(node: Json) -> dict[str, Any]:
    """A Node without images, volumes and fields of other managers."""
    status = {name: value for name, value in (node.get("status") or {}).items() if name in _STATUS}
    metadata = dict(node["metadata"])
    metadata["managedFields"] = [
        {name: one[name] for name in ("manager", "operation", "time", "subresource") if name in one}
        for one in metadata.get("managedFields") or ()
    ]
    spec = {name: value for name, value in (node.get("spec") or {}).items() if name in ("taints", "unschedulable")}
    return {"metadata": metadata, "spec": spec, "status": status}


HOSTNAME = "kubernetes.io/hostname"
_HOSTS = ("Hostname", "InternalDNS", "ExternalDNS")
_STATUS = ("capacity", "allocatable", "conditions", "nodeInfo")


async def _names(client: KubeClient) -> list[str]:
    return [name for names in await list_all(client, "/api/v1/nodes", _names_of) for name in names]


def _names_of(node: Json) -> list[str]:
    """The Node's name, and the names of its host in label and addresses, without IP addresses."""
    metadata, status = node["metadata"], node.get("status") or {}
    addresses = (one for one in status.get("addresses") or () if one.get("type") in _HOSTS)
    hosts = (str((metadata.get("labels") or {}).get(HOSTNAME, "")), *(str(one.get("address", "")) for one in addresses))
    return [str(metadata["name"]), *(host for host in hosts if host.strip("0123456789.:"))]


async def _objects(client: KubeClient, node: str, found: Found) -> None:
    """NodeFeatureRules, and the NodeFeatures that name the node."""
    asked = {"rules.yaml": (RULES, {}), "nodefeatures.yaml": (NODE_FEATURES, {"labelSelector": f"{NODE_NAME}={node}"})}
    for name, (path, query) in asked.items():
        items = await _try(found, name, list_if_known(client, path, without_managers, query))
        if items:
            found.files[name] = Documents(tuple(items))


async def _pods(client: KubeClient, namespace: str, node: str) -> list[Json]:
    """All masters, and the other pods of nfd on the node."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"

    def keep(pod: Json) -> Json | None:
        app = _app(pod)
        return pod if app == "nfd-master" or (app and pod["spec"].get("nodeName") == node) else None

    return await list_all(client, path, keep)


def _app(pod: Json) -> str:
    """The program of a pod, by the name of its account or of itself."""
    names = f"{pod['spec'].get('serviceAccountName', '')} {pod['metadata'].get('name', '')}"
    return next((app for app in APPS if app in names), "")


def _images(pods: list[Json]) -> dict[str, str]:
    return {
        f"{pod['metadata']['name']}/{one['name']}": str(one.get("image", ""))
        for pod in pods
        for one in pod["spec"].get("containers") or ()
    }


async def _configs(client: KubeClient, namespace: str, found: Found) -> None:
    what = f"ConfigMaps with {' or '.join(_CONFIGS)} in {namespace}"
    for config in await _try(found, what, read_config_maps(client, namespace, *_CONFIGS)) or []:
        for key in config["data"].keys() & _CONFIGS:
            found.files[f"config/{config['metadata']['name']}/{key}"] = str(config["data"][key])


async def _logs(client: KubeClient, pod: Json, found: Found) -> None:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
    for container in pod["spec"].get("containers") or ():
        text = await _try(found, f"the log of {name}", _text(client, path, str(container["name"])))
        if text:
            found.files[f"logs/{name}-{container['name']}.log"] = text


async def _text(client: KubeClient, path: str, container: str) -> str:
    query = {"container": container, "tailLines": str(LAST_LINES)}
    async with client.open(Request("GET", path, query, accept="*/*")) as response:
        return (await response.read()).decode("utf-8", "replace")


async def _features(client: KubeClient, args: Namespace, found: Found) -> None:
    """The node's report from the master. Raises: KubeError if there is none."""
    reported, state = await read_reports(client, args)
    if args.node not in reported:
        raise KubeError(f"{args.node} has not reported to {args.master}")
    one = reported[args.node].report
    found.files["features.yaml"] = {"features": to_json(one.features)}
    values = {name: dict(getattr(one, name)) for name in ("labels", "annotations", "origins")}
    sources = {name: {"state": str(source.state), "error": source.error} for name, source in one.sources.items()}
    settings = {"overwrite": state.overwrite, "instance": state.instance, "policy": str(state.policy)}
    report = {"version": one.version, "age": reported[args.node].age, "sources": sources, **values}
    found.files["report.json"] = {"report": report, "settings": settings}
