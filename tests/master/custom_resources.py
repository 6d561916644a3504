"""What tests of custom resources share: the definitions, objects, and a master that watches them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nfd.features import Features
from nfd.kube.client import connect
from nfd.master.config import NamespaceSelector
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.rules.evaluation import LIMITS, Evaluation, Limits, evaluation_steps
from nfd.master.rules.nodefeatures import NODE_NAME, Joining
from nfd.master.rules.resources import CustomResources, ResourceOptions
from nfd.master.rules.ruleset import PlacedRule, exhaust
from nfd.master.service import Options, Service
from nfd.rules.policy import Policy
from nfd.store.kube import KubeStore
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.master.places import PROOF

ROOT = Path(__file__).parents[2]
API = "/apis/nfd.k8s-sigs.io/v1alpha1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS = ("nodefeatures", "nodefeaturerules", "nodefeaturegroups")
OWN = "rules-own"
OTHER = "rules-other"
Json = dict[str, Any]

PCI = Features(
    attributes={"kernel.version": {"major": "6"}, "system.name": {"nodename": "told"}},
    instances={"pci.device": ({"vendor": "10de", "class": "0302"}, {"vendor": "8086", "class": "0200"})},
)


def rule(name: str = "r", vendor: str = "10de", feature: str = "pci.device", **gives: Any) -> Json:
    """A rule that holds where a device of that vendor is."""
    term = {"feature": feature, "matchExpressions": {"vendor": {"op": "In", "value": [vendor]}}}
    return {"name": name, "matchFeatures": [term], **gives}


def evaluate(rules: Sequence[PlacedRule], features: Features, policy: Policy, limits: Limits = LIMITS) -> Evaluation:
    """Run rules in order, without interruption."""
    return exhaust(evaluation_steps(rules, (), features, policy, limits=limits))


@dataclass
class Kinds:
    """The custom resources of the cluster; what a test makes is gone after it."""

    plane: ControlPlane
    made: list[str] = field(default_factory=list)

    def install(self, *names: str, change: Callable[[Json], None] = lambda definition: None) -> None:
        """Install definitions and wait until they are served."""
        for name in names:
            definition = yaml.safe_load((ROOT / f"deploy/crds/{name}.yaml").read_text())
            change(definition)
            self.plane.create(DEFINITIONS, definition)
            crd = definition["metadata"]["name"]
            self.plane.kubectl("wait", "--for=condition=Established", f"crd/{crd}", "--timeout=30s")

    def uninstall(self, name: str) -> None:
        crd = f"{name}.nfd.k8s-sigs.io"
        with suppress(ApiError):
            self.plane.request("DELETE", f"{DEFINITIONS}/{crd}")
        self.plane.kubectl("wait", "--for=delete", f"crd/{crd}", "--timeout=30s")

    def rules(self, name: str, *rules: Json) -> None:
        self._make(f"{API}/nodefeaturerules", "NodeFeatureRule", {"name": name}, {"rules": list(rules)})

    def edit_rules(self, name: str, *rules: Json) -> None:
        self.plane.request("PATCH", f"{API}/nodefeaturerules/{name}", {"spec": {"rules": list(rules)}})

    def features(self, namespace: str, name: str, node: str | None, **spec: Any) -> None:
        metadata = {"name": name, "labels": {NODE_NAME: node} if node is not None else {}}
        self.namespace(namespace)
        self._make(f"{API}/namespaces/{namespace}/nodefeatures", "NodeFeature", metadata, spec)

    def edit_features(self, namespace: str, name: str, **spec: Any) -> None:
        self.plane.request("PATCH", f"{API}/namespaces/{namespace}/nodefeatures/{name}", {"spec": spec})

    def group(self, namespace: str, name: str, *rules: Json) -> None:
        self.namespace(namespace)
        path = f"{API}/namespaces/{namespace}/nodefeaturegroups"
        self._make(path, "NodeFeatureGroup", {"name": name}, {"featureGroupRules": list(rules)})

    def namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        self.plane.create("/api/v1/namespaces", {"metadata": {"name": name}})
        if labels is not None:
            self.plane.request("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"labels": dict(labels)}})

    def get(self, path: str) -> Json:
        return self.plane.request("GET", f"{API}/{path}")

    def status(self, name: str) -> Json:
        found: Json = self.get(f"nodefeaturerules/{name}").get("status", {})
        return found

    def delete(self, path: str) -> None:
        self.plane.request("DELETE", f"{API}/{path}")

    def clear(self) -> None:
        for path in self.made:
            with suppress(ApiError):
                self.plane.request("DELETE", path)

    def _make(self, path: str, kind: str, metadata: Json, spec: Json) -> None:
        body = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
        self.plane.request("POST", path, body)
        self.made.append(f"{path}/{metadata['name']}")


@dataclass
class RuleMasters:
    """Starts masters that watch custom resources."""

    plane: ControlPlane
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start(
        self,
        policy: Policy | None = None,
        *,
        groups: bool = False,
        deny_labels: bool = False,
        selector: NamespaceSelector | None = None,
        kubeconfig: Path | None = None,
        publish: bool = True,
    ) -> Service:
        policy = policy or Policy(enable_taints=True)
        client = await connect(str(kubeconfig or self.plane.kubeconfig))
        settings = ReconcileOptions(policy, publish=publish, proof=PROOF)
        options = Options(host="127.0.0.1", port=0, http_port=0, resync=0, settings=settings)
        joining = Joining(policy, OWN, deny_labels)
        custom = ResourceOptions(joining, selector or NamespaceSelector(), groups, publish, page_size=2)
        service = Service(KubeStore(client, 50), options, lambda metrics: CustomResources(client, custom, metrics))
        self.stack.push_async_callback(service.stop)
        await service.start()
        return service
