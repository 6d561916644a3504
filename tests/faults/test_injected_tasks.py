"""Every task of a master fails unforeseen: labels are written meanwhile, none goes, and it recovers by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from nfd.kube.client import connect
from nfd.kube.informer import Informer
from nfd.kube.leader_election import Lease, Timing
from nfd.kube.paths import NODE_FEATURES, RULES
from nfd.master.http import server
from nfd.master.http.limits import Connection
from nfd.master.leadership import Phase
from nfd.master.node.proof import Proof
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.reports.store import ReportStore
from nfd.master.rules import resources
from nfd.master.rules.definitions import Definitions
from nfd.master.rules.evaluator import EVALUATION, Evaluator
from nfd.master.rules.resources import CustomResources, ResourceOptions
from nfd.master.rules.status_writer import StatusWriter
from nfd.master.security.authority import Lifetimes as Rotation
from nfd.master.security.certificates import Certificates
from nfd.master.security.proof_key import SecretKey
from nfd.master.security.setup import Security
from nfd.master.service import Service
from nfd.rpc.client import Reporter
from nfd.rpc.tls import TlsFiles
from nfd.runtime.failures import COUNTS
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.faults.conftest import NAMESPACE, FaultMasters, Made
from tests.faults.injected import Broken, answers, each, hurry, told
from tests.faults.proxy import FaultProxy
from tests.master.conftest import Worker
from tests.master.custom_resources import PCI, Kinds, rule
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
AGE = 50_000.0
"""Seconds: more than half of the life of a certificate, less than all of it."""
OWN = "injected"
"""Lease, Secret and ConfigMap."""
SECRET, CONFIG_MAP = (f"/api/v1/namespaces/{NAMESPACE}/{kind}/{OWN}" for kind in ("secrets", "configmaps"))
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{OWN}"
STEADY = Timing(duration=60.0, renew=40.0, retry=0.2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(resources, "SYNC_WITHIN", 0.5)


@pytest.fixture
def own(control_plane: ControlPlane) -> Iterator[None]:
    """An empty Secret and ConfigMap, as they are installed."""
    for path in (SECRET, CONFIG_MAP):
        control_plane.create(path.rpartition("/")[0], {"metadata": {"name": OWN}})
    yield
    for path in (SECRET, CONFIG_MAP, LEASE):
        with suppress(ApiError):
            control_plane.request("DELETE", path)


@dataclass
class Clock:
    """A monotonic clock that can be put forward."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead


@dataclass
class Scene:
    """A master of all parts, which leads, on a real API server."""

    master: Service
    place: Cluster
    kinds: Kinds
    clock: Clock
    renewal: Clock
    """That of certificates, which are made as if it were some hours earlier."""
    certificates: Certificates
    folder: Path
    workers: dict[str, Worker] = field(default_factory=dict)

    async def say(self, node: str, value: str) -> None:
        """Over TLS, as a worker with the bundle of the ConfigMap."""
        worker = self.workers.setdefault(node, Worker(node))
        found = self.kinds.plane.request("GET", CONFIG_MAP)
        (self.folder / "ca.crt").write_text(found["data"]["ca.crt"])
        reporter = Reporter(f"localhost:{self.master.port}", tls=TlsFiles(str(self.folder / "ca.crt")))
        report = worker.report({F + "cpu-a": value, F + "cpu-own": node}, features=PCI)
        await asyncio.to_thread(reporter.send, report)

    def shows(self, node: str, key: str, value: str) -> bool:
        return labels_of(self.place, node).get(F + key) == value

    async def http(self, path: str = "/healthz") -> int:
        """The status of an answer, 0 if the connection is closed without one."""
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"http://127.0.0.1:{self.master.http_port}{path}") as response:
                    return response.status
            except aiohttp.ClientError:
                return 0

    def holder(self) -> dict[str, Any]:
        found: dict[str, Any] = self.kinds.plane.request("GET", LEASE)["spec"]
        return found


Step = Callable[[Scene], Awaitable[None]]


async def nothing(scene: Scene) -> None:
    """It is done by itself."""


async def edit_rule(scene: Scene) -> None:
    scene.kinds.edit_rules("injected", rule(labels={"rule": "2"}))


async def edit_feature(scene: Scene) -> None:
    scene.kinds.edit_features("default", "injected", labels={"object": "2"})


async def connect_once(scene: Scene) -> None:
    await scene.http()


async def ask_metrics(scene: Scene) -> None:
    assert await scene.http("/metrics") == 500


async def lose_the_lead(scene: Scene) -> None:
    """Somebody else takes the lease for a moment."""
    spec = {"holderIdentity": "other/127.0.0.1:1/x", "leaseDurationSeconds": 1}
    scene.kinds.plane.request("PATCH", LEASE, {"spec": spec})


async def half_a_day(scene: Scene) -> None:
    """Reports grow old."""
    scene.clock.ahead += 50_000.0


async def edit_secret(scene: Scene) -> None:
    scene.kinds.plane.request("PATCH", SECRET, {"metadata": {"annotations": {"a": "1"}}})


async def edit_config_map(scene: Scene) -> None:
    scene.kinds.plane.request("PATCH", CONFIG_MAP, {"metadata": {"annotations": {"a": "1"}}})


async def rule_is_in_force(scene: Scene) -> None:
    scene.kinds.edit_rules("injected", rule(labels={"rule": "3"}))
    await until(lambda: all(scene.shows(node, "rule", "3") for node in scene.workers))


async def object_is_heard(scene: Scene) -> None:
    scene.kinds.edit_features("default", "injected", labels={"object": "3"})
    await until(lambda: any(scene.shows(node, "object", "3") for node in scene.workers))


async def status_is_written(scene: Scene) -> None:
    scene.kinds.edit_rules("injected", rule(labels={"rule": "3"}))
    generation = scene.kinds.get("nodefeaturerules/injected")["metadata"]["generation"]
    await until(lambda: scene.kinds.status("injected").get("observedGeneration") == generation)


async def lease_is_renewed(scene: Scene) -> None:
    before = scene.holder()
    await until(lambda: scene.holder()["renewTime"] != before["renewTime"])
    assert scene.holder()["leaseTransitions"] == before["leaseTransitions"]
    assert scene.master.leadership.phase is Phase.LEADING


async def leads_again(scene: Scene) -> None:
    await until(lambda: scene.master.leadership.phase is Phase.LEADING and scene.master._leads.is_set())
    for node in scene.workers:  # a new leader knows no report
        await scene.say(node, "2")
    await rule_is_in_force(scene)


async def certificate_is_renewed(scene: Scene) -> None:
    before = scene.certificates.read().cert
    scene.renewal.ahead += AGE
    await until(lambda: scene.certificates.read().cert != before)


async def all_are_looked_at(scene: Scene) -> None:
    passes = scene.master.metrics["node_update_requests"]
    scene.clock.ahead += 50_000.0
    await until(lambda: scene.master.metrics["node_update_requests"] > passes)


async def http_answers(scene: Scene) -> None:
    assert await scene.http() == 200
    assert await scene.http("/metrics") == 200


@dataclass(frozen=True)
class Stage:
    """Where it raises and over what, how it comes to that, and how it shows that it is well again."""

    owner: Any
    name: str
    task: str
    poke: Step = nothing
    recovered: Step = nothing
    of: Callable[..., str] | None = None
    thing: str = ""
    early: bool = False
    """It fails from before the start on."""
    network: str | None = None
    """What the log says of an OSError, which here is one of the network and no defect; "" where a client has gone."""


def path_of(informer: Informer, *rest: Any) -> str:
    return informer._path


WATCH = "watch interrupted"
STAGES = {
    "whole list": Stage(Informer, "_list", "watch", nothing, object_is_heard, path_of, NODE_FEATURES, early=True),
    "whole watch": Stage(Informer, "_take", "watch", edit_rule, rule_is_in_force, path_of, RULES, network=WATCH),
    "rule revisions": Stage(Evaluator, "bind", "rule revisions", edit_rule, rule_is_in_force),
    "rules of waiting nodes": Stage(Evaluator, "evaluate_due", EVALUATION, edit_rule, rule_is_in_force),
    "statuses": Stage(StatusWriter, "_count", "statuses", edit_rule, status_is_written),
    "definitions": Stage(Definitions, "_look", "definitions", early=True),
    "resync": Stage(Service, "_resync", "chores", half_a_day, all_are_looked_at),
    "sweep": Stage(ReportStore, "sweep", "chores", half_a_day, all_are_looked_at),
    "lease": Stage(Lease, "_round", "lease", nothing, lease_is_renewed),
    "take-over": Stage(CustomResources, "start", "take-over", lose_the_lead, leads_again),
    "certificates": Stage(Certificates, "advance", "certificates", nothing, certificate_is_renewed),
    "watch of the Secret": Stage(
        Informer,
        "_put",
        "watch",
        edit_secret,
        certificate_is_renewed,
        path_of,
        SECRET.rpartition("/")[0],
        network=WATCH,
    ),
    "watch of the ConfigMap": Stage(
        Informer,
        "_put",
        "watch",
        edit_config_map,
        certificate_is_renewed,
        path_of,
        CONFIG_MAP.rpartition("/")[0],
        network=WATCH,
    ),
    "key of proofs": Stage(SecretKey, "_read", "key of proofs"),
    "http connections": Stage(Connection, "__init__", "http connections", connect_once, http_answers, network=""),
    "http handler": Stage(server, "metrics_answer", "http handler", ask_metrics, http_answers),
}


async def scene_of(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, kinds: Kinds, folder: Path, clock: Clock
) -> Scene:
    """The master has yet to be started."""
    masters.timing = STEADY
    client = await connect(str(proxy.kubeconfig()))
    masters.stack.push_async_callback(client.close)
    proof, rotation, renewal = Proof.of_this_process(), Rotation(interval=0.1), Clock()
    certificates = Certificates(
        client, NAMESPACE, OWN, ("localhost",), rotation, lambda: time.time() - AGE + renewal.ahead
    )
    key = SecretKey(client, NAMESPACE, OWN, proof, 0.1)
    master = await masters.make(
        proxy,
        OWN,
        custom=ResourceOptions(),
        tick=0.1,
        resync=1000.0,
        now=clock,
        settings=ReconcileOptions(proof=proof),
        key=key,
        security=Security(tls=certificates, prepare=certificates.start, finish=certificates.stop),
    )
    return Scene(master, place, kinds, clock, renewal, certificates, folder)


@pytest.mark.usefixtures("limited")
@each
@pytest.mark.parametrize("stage", STAGES)
async def test_a_task_harms_itself_alone(
    stage: str,
    error: Exception,
    masters: FaultMasters,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    kinds: Kinds,
    own: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While it lasts: labels are written, none goes, the log names it. After it: the task does what it is there for."""
    at, broken = STAGES[stage], Broken(error, STAGES[stage].thing)
    broken.wrap(monkeypatch, at.owner, at.name, at.of)
    one, other, clock = make(), make(), Clock()
    kinds.rules("injected", rule(labels={"rule": "1"}))
    kinds.features("default", "injected", one, labels={"object": "1"})
    scene = await scene_of(masters, proxy, place, kinds, tmp_path, clock)
    before, broken.on = COUNTS[at.task], at.early
    await scene.master.start()
    await until(lambda: scene.master.leadership.phase is Phase.LEADING)
    for node in (one, other):
        await scene.say(node, "1")
    kept = {"cpu-a", "cpu-own", *(() if at.early else ("rule",))}
    await until(lambda: all(scene.shows(node, "cpu-a", "1") for node in (one, other)))
    if not at.early:
        await until(lambda: scene.shows(one, "object", "1") and scene.shows(other, "rule", "1"))
        broken.on = True
        await at.poke(scene)
    if at.network is not None and isinstance(error, OSError):
        await until(lambda: broken.raised >= 1 and at.network in ("", *caplog.messages))
    else:
        await until(lambda: broken.raised >= 1 and COUNTS[at.task] > before)
        assert told(caplog, at.task)
    assert stage == "http connections" or await answers(scene.master.http_port)
    if stage != "take-over":  # a new leader writes nothing before it knows all rules
        await scene.say(other, "2")
        await until(lambda: scene.shows(other, "cpu-a", "2"))
    for node in (one, other):
        assert {key.removeprefix(F) for key in labels_of(place, node)} >= kept
    broken.on = False
    await at.recovered(scene)
    await scene.say(one, "3")
    await until(lambda: scene.shows(one, "cpu-a", "3"))
