"""Writes the status of NodeFeatureRules and NodeFeatureGroups, seldom and only if it changed."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from nfd.errors import Conflict, Forbidden, Invalid, KubeError, NotFound, Unauthorized, Unavailable
from nfd.kube.check_responses import Key
from nfd.kube.client import MERGE_PATCH, METADATA_ONLY, KubeClient
from nfd.kube.informer import Store
from nfd.kube.list_pages import list_all, whole
from nfd.kube.paths import GROUPS, RULES, in_namespace, object_path
from nfd.master.http.metrics import Metrics
from nfd.master.node.desired import derive_freshness
from nfd.master.rules.evaluator import Evaluator
from nfd.master.rules.rule_store import RawObject
from nfd.master.rules.ruleset import CompiledObject, RuleSet, Steps
from nfd.master.rules.status import Tally, listed_nodes, render_group, render_steps, same_status
from nfd.rules.parse import GROUP, RULE
from nfd.runtime import log
from nfd.runtime.failures import failed
from nfd.store.base import FIELD_MANAGER

DEBOUNCE = 0.5
"""Seconds from a change to its status, so that changes are written together."""
EVERY = 10.0
"""The least seconds between two writes for one object while its specification stays the same."""
PARTIAL = 60.0
"""The least seconds between two writes for one object whose status says that some nodes are unknown, while workers are
waited for."""
PATIENCE = 900.0
"""Seconds after the start after which counts are written although some workers have not reported yet."""

REFUSED = 300.0
"""Seconds after which a status is tried again that the API server rejected, or that could not be written without a
permission or a subresource."""
NO_SUBRESOURCE = "the cluster's definition has no status subresource"
NO_PUBLISH = "noPublish is set"

_log = log.get("master")


class StatusWriter:
    """Counts are written when all `node_count` nodes are evaluated, or after `PATIENCE`.

    `silent` says whether an existing node is not fully known, `no_status` why the API server would drop the status of
    rules ("" if it would not). Problems that cannot be published are logged. Without `publish`, no status is written.
    """

    def __init__(
        self,
        client: KubeClient,
        evaluator: Evaluator,
        stores: tuple[Store[RawObject], Store[RawObject]],
        metrics: Metrics,
        node_count: Callable[[], int],
        silent: Callable[[str], bool],
        no_status: Callable[[], str] = lambda: "",
        publish: bool = True,
    ) -> None:
        self.dirty = asyncio.Event()
        self._client = client
        self._evaluator = evaluator
        self._rules, self._groups = stores
        self._metrics = metrics
        self._node_count = node_count
        self._silent = silent
        self._started = time.monotonic()
        self._written: dict[str, float] = {}
        self._sent: dict[tuple[str, str], tuple[Mapping[str, Any], float]] = {}
        """The latest status of each object that was sent, and when the same one may be sent again."""
        self._no_status = no_status
        self._forbidden = {} if publish else dict.fromkeys((RULE, GROUP), (NO_PUBLISH, math.inf))
        self._rejections: dict[str, tuple[str, float]] = dict(self._forbidden)
        """Why no status of a kind can be written, and when that is tried again."""
        self._reasons: dict[str, str] = {}
        self._logged = LoggedProblems()

    def clear(self) -> None:
        """Forget what was written, since another master may have written meanwhile."""
        self._started = time.monotonic()
        self._written.clear()
        self._sent.clear()
        self._rejections = dict(self._forbidden)

    async def run(self, leads: asyncio.Event) -> None:
        """Run until cancelled; one of several masters writes only while it leads."""
        while True:
            await self.dirty.wait()
            await leads.wait()
            await asyncio.sleep(DEBOUNCE)
            self.dirty.clear()
            try:
                wait = await self._write_all()
            except KubeError as error:
                _log.warning("cannot write status; trying again", error=error, seconds=EVERY)
                wait = EVERY
            except Exception:
                self.dirty.set()  # try again
                raise
            if wait:
                asyncio.get_running_loop().call_later(wait, self.dirty.set)
                await asyncio.sleep(min(wait, 1.0))

    async def _write_all(self) -> float:
        """Write what changed. Returns after how many seconds to write again, 0 if nothing is left. Raises:
        KubeError."""
        rule_set = self._evaluator.rule_set
        self._forget_gone(rule_set)
        if not self._rules.items and not self._groups.items:
            return 0.0
        tally = await self._count()
        if tally is None or rule_set is not self._evaluator.rule_set:
            return DEBOUNCE
        work: dict[str, Callable[[], Awaitable[float]]] = {}
        first = 0
        for compiled in rule_set.compiled_objects:
            write = partial(self._write_rules, compiled, first, tally)
            work[_rule_path(compiled.name)] = partial(_alone, write, rule=compiled.name)
            first += len(compiled.rules)
        for key in [group.key for group in rule_set.groups if group.key in self._groups.items]:
            work[_group_path(key)] = partial(_alone, partial(self._write_group, key, tally), group="/".join(key))
        # An object whose status got no answer ends the pass. In the next pass it is the last.
        waits = [await work[path]() for path in sorted(work, key=lambda path: self._written.get(path, -math.inf))]
        return min((wait for wait in waits if 0 < wait < math.inf), default=0.0)

    def _forget_gone(self, rule_set: RuleSet) -> None:
        """Forget objects that are neither among the rules in force nor among the groups."""
        rules = {(_rule_path(compiled.name), compiled.uid) for compiled in rule_set.compiled_objects}
        present = rules | {(_group_path(key), "") for key in self._groups.items}
        paths = {path for path, _ in present}
        self._sent = {one: status for one, status in self._sent.items() if one in present}
        self._written = {path: at for path, at in self._written.items() if path in paths}
        self._logged.keep(
            {*(compiled.name for compiled in rule_set.compiled_objects), *map("/".join, self._groups.items)}
        )

    async def _count(self) -> Tally | None:
        """Count over all nodes, a slice at a time; None if some are not evaluated with the rules in force yet."""
        return await self._evaluator.slices.run(self._count_steps(self._evaluator.rule_set))

    def _count_steps(self, rule_set: RuleSet) -> Steps[Tally | None]:
        tally = Tally(rule_set.rules, self._evaluator.policy)
        tally.unevaluated = max(self._node_count() - len(self._evaluator), 0)
        for node in self._evaluator.names():
            if (state := self._evaluator.get(node)) is not None:
                if state.rule_set is not rule_set:
                    return None
                tally.add(node, state.evaluation, state.joined)
                for group in rule_set.groups_relying_on(derive_freshness(state.report)):
                    tally.group(group).unsure.add(node)
            yield
        return tally

    async def _write_rules(self, compiled: CompiledObject, first: int, tally: Tally) -> float:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = await self._evaluator.slices.run(render_steps(compiled, first, tally, now))
        wait = await self._offer_rules(compiled, status)
        if self._has_no_status(RULE):
            early = {*compiled.mistakes, *(text for rule in compiled.rules for text in rule.mistakes)}
            only = early if self._awaits_workers() else None
            self._logged.log_new(compiled.name, (compiled.uid, compiled.generation), status, only)
        return wait

    async def _offer_rules(self, compiled: CompiledObject, status: Mapping[str, Any]) -> float:
        path = _rule_path(compiled.name)
        known = self._rules.statuses.get(("", compiled.name), {})
        if wait := self._refused_for(RULE):
            return wait
        if same_status(status, known):
            return 0.0
        sent, again = self._sent.get((path, compiled.uid), ({}, 0.0))
        if same_status(status, sent) and time.monotonic() < again:
            return again - time.monotonic()
        partial = bool(known.get("unknown"))
        if known.get("observedGeneration") == compiled.generation and (wait := self._not_yet(path, partial=partial)):
            return wait
        if await self._send(RULE, ("", compiled.name), compiled.uid, status):
            self._metrics.add("nodefeaturerule_status_updates")
        return self._refused_for(RULE)

    async def _write_group(self, key: Key, tally: Tally) -> float:
        """Write the status of a group. Existing nodes that are not fully known stay members.

        So do nodes on which a rule of the group failed, or a source whose features the group uses.
        """
        found, known = tally.group(key), self._groups.statuses.get(key, {})
        kept = {node for node in listed_nodes(known) if node in found.unsure or self._silent(node)}
        status = render_group(found.nodes | kept, found)
        wait = await self._offer_group(key, status, known)
        if self._has_no_status(GROUP):
            self._logged.log_new("/".join(key), None, status)
        return wait

    async def _offer_group(self, key: Key, status: Mapping[str, Any], known: Mapping[str, Any]) -> float:
        path = _group_path(key)
        if wait := self._refused_for(GROUP):
            return wait
        if status == known:
            return 0.0
        sent, again = self._sent.get((path, ""), ({}, 0.0))
        if status == sent and time.monotonic() < again and (known or again < math.inf):
            return again - time.monotonic()
        if known and (wait := self._not_yet(path, known.get("truncated", False))):
            return wait
        gone = known.keys() - status.keys()
        if await self._send(GROUP, key, "", status, gone):
            self._metrics.add("node_feature_group_update_requests")
        return self._refused_for(GROUP)

    def _has_no_status(self, kind: str) -> bool:
        """Whether no status of that kind can be published; changes of that are logged."""
        reason = self._rejections[kind][0] if kind in self._rejections else self._no_status() if kind == RULE else ""
        before, self._reasons[kind] = self._reasons.get(kind, ""), reason
        if reason and reason != before:
            known = f": {reason}" if reason in (NO_SUBRESOURCE, NO_PUBLISH) else ""
            _log.warning(f"{kind}s get no status{known}", error=f"{reason}; their problems are logged")
        elif before and not reason:
            _log.info(f"{kind}s get a status again")
        return bool(reason)

    def _refused_for(self, kind: str) -> float:
        """Seconds until a status of that kind is tried again; 0 if none was rejected."""
        return max(self._rejections[kind][1] - time.monotonic(), 0.0) if kind in self._rejections else 0.0

    async def _send(self, kind: str, key: Key, uid: str, status: Mapping[str, Any], gone: Collection[str] = ()) -> bool:
        """Returns whether it was written. `gone` are fields of the present status that it does not have any more.

        If no status of that kind can be written, none is tried for a while. Raises: KubeError.
        """
        try:
            await self._patch(_rule_path(key[1]) if kind == RULE else _group_path(key), uid, status, gone)
        except Unauthorized:
            raise
        except NotFound:
            if not await self._exists(kind, key):
                raise
            reason = NO_SUBRESOURCE
        except Forbidden as error:
            reason = str(error)
        else:
            self._rejections.pop(kind, None)
            return True
        self._rejections[kind] = reason, time.monotonic() + REFUSED
        return False

    async def _exists(self, kind: str, key: Key) -> bool:
        """Whether the API server has the object, since the informer may lag behind. Raises: KubeError.

        A list of one object needs no permission except `list`.
        """
        if key not in (self._rules if kind == RULE else self._groups).items:
            return False
        collection = RULES if kind == RULE else in_namespace(GROUPS, key[0])
        query = {"fieldSelector": f"metadata.name={key[1]}"}
        return bool(await list_all(self._client, collection, whole, query, metadata_only=True))

    def _awaits_workers(self) -> bool:
        """Whether some nodes are not evaluated yet, and may be soon."""
        return len(self._evaluator) < self._node_count() and time.monotonic() - self._started < PATIENCE

    def _not_yet(self, path: str, counts_node_count: bool = True, *, partial: bool = False) -> float:
        """Seconds until counts may be written for an object; 0 if now. `partial` counts are kept up to date."""
        every = EVERY
        if counts_node_count and self._awaits_workers():
            if not partial:
                return EVERY
            every = PARTIAL
        return max(every - (time.monotonic() - self._written.get(path, -math.inf)), 0.0)

    async def _patch(self, path: str, uid: str, status: Mapping[str, Any], gone: Collection[str]) -> None:
        """Raises: KubeError."""
        body = {"status": {**dict.fromkeys(gone), **status}} | ({"metadata": {"uid": uid}} if uid else {})
        self._sent[path, uid] = status, math.inf
        self._written[path] = time.monotonic()
        try:
            await self._client.json(
                "PATCH",
                path,
                body,
                query={"fieldManager": FIELD_MANAGER},
                content_type=MERGE_PATCH,
                accept=METADATA_ONLY,
                fenced=True,
            )
        except BaseException as error:
            self._sent[path, uid] = status, time.monotonic() + _retry_in(error)
            raise


def _rule_path(name: str) -> str:
    return object_path(RULES, name, "status")


def _group_path(key: Key) -> str:
    return object_path(in_namespace(GROUPS, key[0]), key[1], "status")


def _retry_in(error: BaseException) -> float:
    """Seconds until a status that was not written because of this error is sent again."""
    return REFUSED if isinstance(error, Invalid) else EVERY


async def _alone(write: Callable[[], Awaitable[float]], **about: str) -> float:
    """Write the status of one object; an error does not affect other objects. Raises: Unavailable, Unauthorized."""
    try:
        return await write()
    except (Unavailable, Unauthorized):
        raise
    except (Conflict, NotFound):
        return EVERY  # usually the object was deleted or is a new one, which the informer will report
    except KubeError as error:
        wait = _retry_in(error)
        _log.warning("cannot write status; trying again", error=error, seconds=wait, **about)
        return wait
    except Exception as error:
        failed("statuses", error, **about)
    return EVERY


MOST = 100
"""The most problems of one object that are logged while its specification stays the same."""


class LoggedProblems:
    """Logs each problem once for each version of an object's specification."""

    def __init__(self) -> None:
        self._logged: dict[str, tuple[object, set[tuple[str, str]]]] = {}

    def log_new(
        self, name: str, version: object, status: Mapping[str, Any], only: Collection[str] | None = None
    ) -> None:
        """Log the new problems in a status; with `only`, no other messages. `version` is that of the specification."""
        before, said = self._logged.get(name, (None, set[tuple[str, str]]()))
        if before != version:
            said = set()
        self._logged[name] = version, said
        for rule, problem in _problems(status):
            key = rule, str(problem["message"])
            if key in said or len(said) == MOST or (only is not None and key[1] not in only):
                continue
            said.add(key)
            nodes = {"nodes": problem["nodes"]} if "nodes" in problem else {}
            _log.warning("problem of a rule", rule=f"{name}/{rule}" if rule else name, error=key[1], **nodes)

    def keep(self, names: Collection[str]) -> None:
        """Forget deleted objects."""
        self._logged = {name: said for name, said in self._logged.items() if name in names}


def _problems(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The name of the rule, "" for the object as a whole, and each problem."""
    yield from (("", problem) for problem in _listed(status.get("problems")))
    for rule in _listed(status.get("rules")):
        yield from ((str(rule["name"]), problem) for problem in _listed(rule.get("problems")))


def _listed(value: Any) -> list[Mapping[str, Any]]:
    """The problems of a NodeFeatureGroup are a list; those of a NodeFeatureRule are their number."""
    return value if isinstance(value, list) else []
