"""Follows the custom resources of a cluster: rules, groups and NodeFeature objects.

They are optional: without their definitions, or permission to read them, nodes still get the labels of their workers.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from nfd.kube.check_responses import labels_of, spec_version
from nfd.kube.client import KubeClient
from nfd.kube.informer import Informer, Store
from nfd.kube.paths import GROUPS, NAMESPACES, NODE_FEATURES, RULES
from nfd.master.config import NamespaceSelector
from nfd.master.http.metrics import Metrics
from nfd.master.node.desired import OBJECT_ORIGIN, RULE_ORIGIN, Freshness, derive_freshness
from nfd.master.node.outcome import Known, Outcome, evaluate_node
from nfd.master.node.proof import UNPROVEN, Proof
from nfd.master.node.queue import Queue
from nfd.master.rules.definitions import Definitions
from nfd.master.rules.evaluator import EVALUATION, Evaluator
from nfd.master.rules.nodefeatures import (
    UNKNOWN_NAMESPACE,
    UNLABELLED,
    UNSELECTED,
    Admitted,
    FeatureInterner,
    FeatureObject,
    Ignored,
    Joining,
    admit_objects,
    node_of,
    parse_feature_object,
)
from nfd.master.rules.rule_store import Compiled, RawObject, written
from nfd.master.rules.ruleset import CompiledObject, compile_steps, group_steps
from nfd.master.rules.status_writer import StatusWriter
from nfd.master.rules.time_slices import Slices
from nfd.report import Report
from nfd.rules.compile import Group
from nfd.runtime import log, tasks
from nfd.store.base import Node, NodeStore

SETTLE = 0.1
"""Seconds in which several changes of objects are collected before nodes are evaluated."""
MANY, LONGEST_SETTLE = 100, 10.0
"""For a node with more objects the changes are collected longer, in proportion, and for this many seconds at most."""
SYNC_WITHIN = 10.0
"""Seconds to wait for the first lists before nodes are written without them; until then the keys of rules and objects
stay."""

PAGES = {RULES: 20, GROUPS: 20}
"""Objects of a page, which is read as a whole: an object with rules may have a megabyte."""
PAUSE = 60.0
"""Seconds between two passes over all nodes because objects were deleted that were never valid."""
LONG = 60.0
"""Seconds without a definition of NodeFeatures after which there are taken to be none."""

_log = log.get("master")


@dataclass(frozen=True, slots=True)
class ResourceOptions:
    """Options that concern custom resources.

    With `groups`, the master updates the NodeFeatureGroups of its own namespace, or of all namespaces if it has none,
    as outside a cluster.
    """

    joining: Joining = field(default_factory=Joining)
    selector: NamespaceSelector = field(default_factory=NamespaceSelector)
    groups: bool = False
    publish: bool = True
    instance: str = ""
    page_size: int = 200


class CustomResources:
    """The informers of all kinds; `evaluate` is called by the reconciler."""

    def __init__(self, client: KubeClient, options: ResourceOptions, metrics: Metrics) -> None:
        joining = options.joining
        self.rules = Store(partial(written, "rules"), self._rules_changed, version=spec_version, keep_status=True)
        self.groups = Store(
            partial(written, "featureGroupRules"), self._rules_changed, version=spec_version, keep_status=True
        )
        self.objects = Store(self._parse_object, self._object_changed)
        self.namespaces = Store(labels_of, self._namespace_changed)
        slices = Slices()
        self.evaluator = Evaluator(joining, metrics, self._notify, lambda: self._revise.set(), slices)
        compiling = partial(compile_steps, policy=joining.policy)
        self._compiled_rules = Compiled[CompiledObject](self.rules, compiling, slices)
        self._compiled_groups = Compiled[Group](self.groups, group_steps, slices)
        self._uncompiled: frozenset[str] = frozenset()
        """Objects with rules (`rule:OBJECT`) that exist and are not in force yet: what they set before stays."""
        self._options = options
        self._client = client
        self._store: NodeStore | None = None
        self._queue = Queue()
        self._proof = UNPROVEN
        self._pool = FeatureInterner()
        self._unknown = Unknown(self.objects, self.rules, self._may_select)
        self._by_node: dict[str, dict[tuple[str, str], FeatureObject]] = {}
        self._admitted: dict[str, Admitted] = {}
        self._changing: set[tuple[str, str]] = set()
        """Objects that changed since the first list: their writers are running."""
        self._ignored = Ignored()
        self._informers = {
            path: Informer(client, path, store, min(options.page_size, PAGES.get(path, options.page_size)), math.inf)
            for path, store in self._wanted()
        }
        self._definitions = Definitions(client, self._notify)
        self._statuses = StatusWriter(
            client,
            self.evaluator,
            (self.rules, self.groups),
            metrics,
            self._nodes,
            self._is_silent,
            lambda: self._definitions.no_status,
            options.publish,
        )
        self._revise = asyncio.Event()
        self._invalid_gone = asyncio.Event()
        self._rules_synced = False
        self._tasks: list[asyncio.Task[None]] = []

    def _wanted(self) -> list[tuple[str, Store[Any]]]:
        wanted: list[tuple[str, Store[Any]]] = [(RULES, self.rules), (NODE_FEATURES, self.objects)]
        if self._options.groups:
            wanted.append((GROUPS, self.groups))
        if self._options.selector:
            wanted.append((NAMESPACES, self.namespaces))
        return wanted

    async def start(self, store: NodeStore, queue: Queue, leads: asyncio.Event, proof: Proof = UNPROVEN) -> None:
        """Returns when all lists are complete, or some take too long.

        Nodes to be written are added to `queue`. While `leads` is not set, nothing is written. `proof` identifies this
        master's bookkeeping on Nodes.
        """
        self._store, self._queue, self._proof = store, queue, proof
        self._tasks = [
            tasks.start(f"watch of {path.rpartition('/')[2]}", informer.run)
            for path, informer in self._informers.items()
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(SYNC_WITHIN):
                for informer in self._informers.values():
                    await informer.settled.wait()
        await self._compile()
        self._bind()
        self._tasks += [
            tasks.start("first list", partial(self._first, informer)) for informer in self._informers.values()
        ]
        self._tasks.append(tasks.start("rule revisions", self._revisions))
        self._tasks.append(tasks.start("deleted invalid objects", self._after_deletions))
        self._tasks.append(tasks.start("definitions", self._definitions.run))
        self._tasks.append(tasks.start(EVALUATION, self._evaluate_due))
        self._tasks.append(tasks.start("statuses", partial(self._statuses.run, leads)))

    async def stop(self) -> None:
        await tasks.cancel(self._tasks)

    def evaluate(self, node: Node, report: Report | None) -> Outcome:
        """The desired outcome of the node, from its report, or without one from the objects."""
        joining, state = self._options.joining, self.evaluator.get(node.name)
        known = Known(
            self._lists(node.name),
            self._options.instance,
            self._proof,
            self._changing,
            state.report if state is not None else None,
        )
        found = evaluate_node(
            node,
            report,
            self.evaluator.rule_set,
            self._admitted_on(node.name),
            joining,
            known,
            self.evaluator.evaluate,
        )
        self._log_ignored(node.name, found.unused)
        return found

    def has_objects(self, node: str) -> bool:
        """Whether there are objects for the node."""
        return node in self._by_node

    def forget(self, node: str) -> None:
        """The Node is gone."""
        self.evaluator.forget(node)
        self._admitted.pop(node, None)
        self._ignored.forget(node)

    def clear(self) -> None:
        """Forget the inputs of all evaluations, since another master leads."""
        for node in self.evaluator.names():
            self.evaluator.forget(node)
        self._statuses.clear()

    def gauges(self) -> Mapping[str, float]:
        return {
            "nodefeaturerules": len(self.rules.items),
            "failing_rules": self.evaluator.failing(),
            "nodefeatures": len(self.objects.items),
            "surplus_nodefeatures": sum(len(one.surplus) for one in self._admitted.values()),
            "nodefeatures_without_node": sum(not self._exists(one.node) for one in self.objects.items.values()),
            "malformed_objects": sum(len(store.invalid) for _, store in self._wanted()),
        }

    def _namespaces_known(self) -> bool:
        return NAMESPACES not in self._informers or self._informers[NAMESPACES].synced.is_set()

    def _objects_synced(self) -> bool:
        return self._informers[NODE_FEATURES].synced.is_set() and self._namespaces_known()

    def _lists(self, node: str) -> Freshness:
        objects_settled = self._informers[NODE_FEATURES].settled_for(LONG) and self._namespaces_known()
        objects = self._by_node.get(node, {}).values() if self._options.selector else ()
        return Freshness(
            rules_synced=self._rules_synced,
            objects_synced=self._objects_synced(),
            objects_settled=objects_settled,
            settled=objects_settled and (self._rules_synced or self._is_ruleless()),
            blind=self._unknown.has_objects(node),
            uncertain=self._unknown.origins() | self._uncompiled if self._uncompiled else self._unknown.origins(),
        ).without_objects(frozenset(one.origin for one in objects if not self._knows(one.namespace)))

    def _is_ruleless(self) -> bool:
        """Whether the server has had no definition of rules for so long that no key comes from a rule."""
        informer = self._informers[RULES]
        return not informer.synced.is_set() and informer.settled_for(LONG)

    def _log_ignored(self, node: str, reason: str) -> None:
        """Log ignored objects. `reason` is why that of NFD's own worker is not used, "" if it is."""
        joining, admitted = self._options.joining, self._admitted_on(node)
        self._ignored.log_surplus(node, admitted.surplus)
        reasons = {}
        for one in self._by_node.get(node, {}).values():
            if admitted.origins and one.origin in admitted.origins:
                continue
            why = reason if joining.is_workers(one) else UNLABELLED if joining.deny_labels and one.labels else ""
            if not self._selects(one.namespace):
                why = UNSELECTED if self._knows(one.namespace) else UNKNOWN_NAMESPACE
            if why:
                reasons[f"{one.namespace}/{one.name}"] = why
        self._ignored.log_new(node, reasons)

    def _admitted_on(self, node: str) -> Admitted:
        """The node's objects in selected namespaces, cached until one of them changes."""
        found = self._admitted.get(node)
        if found is None:
            objects = [one for one in self._by_node.get(node, {}).values() if self._selects(one.namespace)]
            found = admit_objects(objects, self._options.joining)
            if node in self._by_node:
                self._admitted[node] = found
        return found

    def _selects(self, namespace: str) -> bool:
        """Whether its objects are used. A namespace that is not known is not selected, as in NFD
        (pkg/nfd-master/nfd-api-controller.go, isNamespaceSelected); what its objects gave before stays."""
        selector, labels = self._options.selector, self.namespaces.items.get(("", namespace))
        return not selector or (labels is not None and selector.selects(labels))

    def _may_select(self, namespace: str) -> bool:
        return self._selects(namespace) or not self._knows(namespace)

    def _knows(self, namespace: str) -> bool:
        """Whether the informer of namespaces has it."""
        return ("", namespace) in self.namespaces.items

    def _exists(self, node: str) -> bool:
        return self._store is not None and self._store.get(node) is not None

    def _parse_object(self, item: Mapping[str, Any]) -> FeatureObject:
        one = parse_feature_object(item)
        return replace(one, features=self._pool.share(one.features))

    def _is_silent(self, node: str) -> bool:
        """Whether an existing node is not fully known: its worker or some of its objects are missing."""
        state, lists = self.evaluator.get(node), self._lists(node).without_objects(self._admitted_on(node).origins)
        blind = state is None or derive_freshness(state.report).blind or lists.blind or not lists.objects_settled
        return blind and self._exists(node)

    def _nodes(self) -> int:
        return len(self._store.names()) if self._store is not None else 0

    def _rules_changed(self, before: object, now: object) -> None:
        self._revise.set()
        if before is now is None:
            self._invalid_gone.set()

    def _notify(self) -> None:
        self._statuses.dirty.set()

    def _namespace_changed(self, before: object, now: object) -> None:
        self._admitted.clear()
        self._unknown.clear()
        for node in self._by_node.keys() | set(map(node_of, self.objects.unknown.values())):
            self._queue.add(node)

    def _object_changed(self, before: FeatureObject | None, now: FeatureObject | None) -> None:
        if before is not None:
            moved = self._changing.discard if now is None else self._changing.add
            moved((before.namespace, before.name))
        for one, present in ((before, False), (now, True)):
            if one is None:
                continue
            objects = self._by_node.setdefault(one.node, {})
            if present:
                objects[one.namespace, one.name] = one
            else:
                objects.pop((one.namespace, one.name), None)
            if not objects:
                del self._by_node[one.node]
            self._admitted.pop(one.node, None)
            self._queue.add_later(one.node, min(SETTLE * max(1.0, len(objects) / MANY), LONGEST_SETTLE), urgent=True)
        if now is not None:
            self._log_unknown_node(now)
        elif before is None:
            self._invalid_gone.set()

    def _log_unknown_node(self, one: FeatureObject) -> None:
        path = f"{one.namespace}/{one.name}"
        if not one.node:
            _log.warning("NodeFeature names no node", path=path)
        elif self._store is not None and not self._exists(one.node):
            _log.info("the node of a NodeFeature does not exist", path=path, node=one.node)

    async def _first(self, informer: Informer) -> None:
        """When the first list is complete, queue all nodes: keys from rules or objects that no longer exist are
        removed."""
        await informer.synced.wait()
        await self._compile()
        self._bind()
        self._add_all()

    def _add_all(self, only_silent: bool = False) -> None:
        for name in self._store.names() if self._store is not None else ():
            if not only_silent or self.evaluator.get(name) is None:
                self._queue.add(name)

    async def _revisions(self) -> None:
        """Evaluate all nodes again whenever rules changed, or a suspended rule is to be tried again."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.evaluator.suspensions.retry_in()):
                    await self._revise.wait()
            await asyncio.sleep(SETTLE)
            self._revise.clear()
            try:
                await self._compile()
                gone = self._bind()
            except Exception:
                self._revise.set()  # try again
                raise
            if gone:
                self._add_all(only_silent=True)
            self._statuses.dirty.set()

    async def _after_deletions(self) -> None:
        """Keys of deleted objects that were never valid may be removed now: queue all nodes, at once and then once in
        `PAUSE` at most, for whoever may create such objects can repeat it."""
        while True:
            await self._invalid_gone.wait()
            self._add_all()
            self._invalid_gone.clear()
            await asyncio.sleep(PAUSE)

    async def _evaluate_due(self) -> None:
        """Evaluate waiting nodes one after the other."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.evaluator.suspensions.release_in()):
                    await self.evaluator.waiting.wait()
            self.evaluator.release()
            await self.evaluator.evaluate_due(self._queue.add)

    async def _compile(self) -> None:
        await self._compiled_rules.update()
        await self._compiled_groups.update()

    def _bind(self) -> bool:
        """Put the rules into force. Returns whether some earlier rules are gone.

        A complete list counts as complete only from now on, since the keys of the nodes are compared with the rules in
        force.
        """
        before = self.evaluator.rule_set.origins
        self._rules_synced = self._informers[RULES].synced.is_set()
        own = self._options.joining.namespace
        groups = (group for key, group in self._compiled_groups.items() if own in ("", key[0]))
        self._uncompiled = frozenset(f"{RULE_ORIGIN}{name}" for _, name in self._compiled_rules.missing())
        self.evaluator.bind((compiled for _, compiled in self._compiled_rules.items()), groups)
        return bool(before - self.evaluator.rule_set.origins)


class Unknown:
    """Objects that exist and were never valid: what they may have set before this process started stays.

    `may_select` says whether NodeFeature objects of a namespace may be used: all others set nothing.
    """

    def __init__(
        self, objects: Store[FeatureObject], rules: Store[RawObject], may_select: Callable[[str], bool]
    ) -> None:
        self._objects = objects
        self._rules = rules
        self._may_select = may_select
        self._revisions: tuple[int, int] | None = None
        self._origins: frozenset[str] = frozenset()
        self._nodes: frozenset[str] = frozenset()

    def origins(self) -> frozenset[str]:
        """`object:NAMESPACE/NAME` and `rule:OBJECT`."""
        self._update()
        return self._origins

    def has_objects(self, node: str) -> bool:
        """Whether an invalid NodeFeature names this node, so that rules do not see all its features."""
        self._update()
        return node in self._nodes

    def clear(self) -> None:
        """Namespaces changed."""
        self._revisions = None

    def _update(self) -> None:
        revisions = (self._objects.revision, self._rules.revision)
        if revisions == self._revisions:
            return
        self._revisions = revisions
        objects = {key: one for key, one in self._objects.unknown.items() if self._may_select(key[0])}
        rules = self._rules.unknown
        origins = (f"{OBJECT_ORIGIN}{namespace}/{name}" for namespace, name in objects)
        self._origins = frozenset((*origins, *(f"{RULE_ORIGIN}{name}" for _, name in rules)))
        self._nodes = frozenset(map(node_of, objects.values()))
