"""NFD's own master on the same fleet: first ours, then theirs, each on a control plane of its own, in one run.

Both get the same Nodes, the same labels and the same features: ours from workers over gRPC, theirs as a NodeFeature
object of each worker. The client that creates these objects counts as the fleet, as our workers do.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench._table import Table
from bench.fleet import bare
from bench.fleet.cluster import MERGE, NAMESPACE, Link, each, rule_object
from bench.fleet.gauges import requests, resident, stored_bytes
from bench.fleet.machines import LABELS, RECORDINGS, node_name, report
from bench.fleet.run import READY, Cost, Run, setting
from bench.fleet.scenarios import BARE, PATIENCE, F, has
from nfd.features import Features
from nfd.kube.paths import NODE_FEATURES, RULES, in_namespace
from nfd.names import API_VERSION
from tests.controlplane.process import free_ports
from tests.e2e.programs import Program

Json = dict[str, Any]
CHANGED = F + "cpu-changed"
CHANGES = 30
QUIET = 3.0
"""Seconds without a request of the master, after which a restart counts as over."""


class Side(Protocol):
    """One of the two masters, with its workers."""

    name: str

    async def start(self) -> None: ...

    async def report(self, numbers: Iterable[int], labels: dict[str, str] | None = None) -> None: ...


class Ours:
    name = "ours"

    def __init__(self, run: Run, at_once: int, ca: Callable[[Run], Path]) -> None:
        self._run, self._at_once, self._ca, self._is_started = run, at_once, ca, False

    async def start(self) -> None:
        run = self._run
        if self._is_started:
            run.master.start()
            await run.until_ready(run.master)
            return
        await run.start_master()
        await run.crew.start(self._ca(run), run.tokens)
        self._is_started = True

    async def report(self, numbers: Iterable[int], labels: dict[str, str] | None = None) -> None:
        await self._run.crew.report(numbers, self._run.target, self._at_once, labels=labels or {})


class Theirs:
    name = "NFD"
    _path = in_namespace(NODE_FEATURES, NAMESPACE)

    def __init__(self, run: Run, at_once: int, program: Path) -> None:
        self._run, self._program, self._at_once = run, program, at_once
        self._kinds = [spec_of(name, number) for number, name in enumerate(RECORDINGS)]
        self._known: set[int] = set()

    async def start(self) -> None:
        run = self._run
        if run.masters:
            run.master.start()
        else:
            (port,) = free_ports(1)
            flags = (f"-kubeconfig={run.plane.kubeconfig}", f"-port={port}", "-config=/none")
            variables = {"KUBERNETES_NAMESPACE": NAMESPACE, "NODE_NAME": node_name(0)}
            run.masters.append(Program(str(self._program), flags, run.folder / "nfd.log", port, variables))
            run.master.start()
        deadline = time.monotonic() + READY
        while not await asyncio.to_thread(self._answers):
            if time.monotonic() > deadline:
                raise TimeoutError(f"NFD's master does not answer:\n{run.master.text()[-2000:]}")
            await asyncio.sleep(0.1)

    def _answers(self) -> bool:
        """Whether its HTTP port is open; it has no /readyz. Raises: AssertionError if it has ended."""
        assert self._run.master.alive(), self._run.master.text()
        try:
            return self._run.master.get("/metrics")[0] == 200
        except OSError:
            return False

    async def report(self, numbers: Iterable[int], labels: dict[str, str] | None = None) -> None:
        link = Link(self._run.plane, self._at_once)

        async def one(number: int) -> None:
            if number in self._known:
                body = json.dumps({"spec": {"labels": labels or {CHANGED: None}}}).encode()
                await link.send("PATCH", f"{self._path}/{node_name(number)}", body, MERGE)
                return
            self._known.add(number)
            await link.send("POST", self._path, json.dumps(self._object(number)).encode())

        await each(numbers, self._at_once, one)
        await link.close()

    def _object(self, number: int) -> Json:
        spec, name = self._kinds[number % len(self._kinds)], node_name(number)
        features = {**spec["features"], "attributes": {**spec["features"]["attributes"]}}
        features["attributes"]["system.name"] = {"elements": {"nodename": name}}
        return {
            "apiVersion": API_VERSION,
            "kind": "NodeFeature",
            "metadata": {"name": name, "labels": {"nfd.node.kubernetes.io/node-name": name}},
            "spec": {**spec, "features": features},
        }


def spec_of(recording: str, number: int) -> Json:
    """What NFD's worker would write for that machine (NFD documentation, "NodeFeature custom resource")."""
    found = report(recording, number)
    return {"labels": dict(found.labels), "features": objects_of(found.features)}


def objects_of(features: Features) -> Json:
    return {
        "flags": {name: {"elements": {one: {} for one in found}} for name, found in features.flags.items()},
        "attributes": {name: {"elements": dict(found)} for name, found in features.attributes.items()},
        "instances": {
            name: {"elements": [{"attributes": dict(one)} for one in found]}
            for name, found in features.instances.items()
        },
    }


@dataclass
class Result:
    """CPU in milliseconds a node, rates in nodes a second, the rest as named."""

    bare_cpu: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)

    def add(self, what: str, cost: Cost, nodes: int) -> None:
        master, api = cost.spent.master / nodes * 1e3, cost.spent.api / nodes * 1e3
        self.figures[f"{what}: master CPU, ms a node"] = master
        self.figures[f"{what}: master CPU / API server CPU for the bare PATCH"] = master / self.bare_cpu
        self.figures[f"{what}: API server CPU, ms a node"] = api
        self.figures[f"{what}: seconds"] = cost.seconds
        self.figures[f"{what}: requests of the master a node"] = sum(cost.asked.values()) / nodes


async def compare(
    program: Path, nodes: int, at_once: int, processes: int, ca: Callable[[Run], Path], *, apart: bool
) -> None:
    """Prints the two columns and ours / NFD's. Raises: TimeoutError if labels do not come."""
    made: list[Result] = []
    sides: tuple[Callable[[Run], Side], ...] = (
        lambda run: Ours(run, at_once, ca),
        lambda run: Theirs(run, at_once, program),
    )
    for make in sides:
        context: AbstractAsyncContextManager[Run] = setting(processes, apart=apart)
        async with context as run:
            made.append(await measure(run, make(run), nodes))
    ours, theirs = made
    table = Table()
    table.add(f"figure, at {nodes} nodes", "ours", "NFD", "ours / NFD")
    for what, value in ours.figures.items():
        other = theirs.figures[what]
        table.add(what, f"{value:.2f}", f"{other:.2f}", f"{value / other:.2f}" if other else "")
    table.show()


async def measure(run: Run, side: Side, nodes: int) -> Result:
    fresh, found = await run.grow(nodes), Result()
    bodies = await bare.plan(run.plane, fresh[:BARE])
    async with run.cost() as cost:
        await bare.send(run.plane, bodies)
    found.bare_cpu = cost.spent.api / len(bodies) * 1e3
    found.figures["bare PATCH: API server CPU, ms a node"] = found.bare_cpu
    found.figures["bare PATCH: nodes a second"] = len(bodies) / cost.seconds
    await bare.undo(run.plane, bodies)
    await side.start()
    await measure_cold_start(run, side, found)
    await measure_one_change(run, side, found)
    await measure_rule(run, found)
    await measure_restart(run, side, found)
    return found


async def measure_cold_start(run: Run, side: Side, found: Result) -> None:
    numbers = range(run.nodes)
    run.watcher.expect(run.names(numbers), lambda labels: len(labels) > LABELS)
    async with run.cost() as cost:
        await side.report(numbers)
        await run.watcher.shown(PATIENCE)
    found.add("cold start", cost, run.nodes)
    found.figures["cold start: master memory, MiB"] = resident(run.master.pid)
    paths = ("/registry/minions/", "/registry/nfd.k8s-sigs.io/nodefeatures/")
    found.figures["etcd: bytes a node, worker's object included"] = sum(stored_bytes(run.plane, one) for one in paths)


async def measure_one_change(run: Run, side: Side, found: Result) -> None:
    taken = []
    for number in range(CHANGES):
        mark = f"v{time.time_ns()}"
        run.watcher.expect(run.names([number % run.nodes]), has("cpu-changed", mark))
        began = time.monotonic()
        await side.report([number % run.nodes], {CHANGED: mark})
        await run.watcher.shown(PATIENCE)
        taken.append(time.monotonic() - began)
    taken.sort()
    changed = range(min(CHANGES, run.nodes))
    run.watcher.expect(run.names(changed), lambda labels: CHANGED not in labels)
    await side.report(changed)
    await run.watcher.shown(PATIENCE)
    found.figures["a change on one node, from report to label: median ms"] = taken[len(taken) // 2] * 1e3
    found.figures["a change on one node, from report to label: slowest ms"] = taken[-1] * 1e3


async def measure_rule(run: Run, found: Result) -> None:
    """One rule sets another label on every node."""
    every = {"feature": "kernel.version", "matchExpressions": {"major": {"op": "Exists"}}}
    body = rule_object("fleet", {"name": "all", "labels": {"rule-all": "one"}, "matchFeatures": [every]})
    run.watcher.expect(run.names(range(run.nodes)), has("rule-all", "one"))
    async with run.cost() as cost:
        await asyncio.to_thread(run.plane.request, "POST", RULES, body)
        await run.watcher.shown(PATIENCE)
    found.add("a rule for all nodes", cost, run.nodes)


async def measure_restart(run: Run, side: Side, found: Result) -> None:
    """The master ends and starts again; our workers report again, theirs have their objects. CPU of the new process."""
    removed = run.watcher.removed
    await asyncio.to_thread(run.master.stop, seconds=60.0)
    mark = await asyncio.to_thread(run.plane.mark)
    await side.start()
    if side.name == Ours.name:
        await side.report(range(run.nodes))
    await until_quiet(run)
    asked = await asyncio.to_thread(requests, run.plane, mark)
    found.figures["a restart: master CPU, ms a node"] = run.look().master / run.nodes * 1e3
    found.figures["a restart: requests of the master a node"] = sum(asked.values()) / run.nodes
    found.figures["a restart: labels removed"] = float(run.watcher.removed - removed)


async def until_quiet(run: Run) -> None:
    """Until the master has used less than a tenth of a core for some seconds."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        before = run.look().master
        await asyncio.sleep(QUIET)
        if run.look().master - before < QUIET / 10:
            return
    raise TimeoutError("the master does not become quiet")
