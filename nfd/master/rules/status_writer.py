"""Writes the status of NodeFeatureRules and NodeFeatureGroups: seldom, and only what is new."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from nfd.errors import Conflict, Forbidden, KubeError, NotFound, Unavailable
from nfd.kube.client import MERGE_PATCH, METADATA_ONLY, KubeClient
from nfd.kube.informer import Store
from nfd.kube.paths import GROUPS, RULES, in_namespace, object_path
from nfd.kube.responses import Key
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
"""Seconds from a change to its status, so that what happens together is written together."""
EVERY = 10.0
"""Seconds at least between two writes for one object while its specification stays the same."""
PATIENCE = 900.0
"""Seconds after the start until counts are written although some workers have not spoken yet."""

REFUSED = 300.0
"""Seconds after which a status is tried again that could not be written for want of a right or a subresource."""
NO_SUBRESOURCE = "the cluster's definition has no such subresource"
NO_PUBLISH = "noPublish is set"

_log = log.get("master")


class StatusWriter:
    """`everybody` tells how many nodes there are: counts are written once all of them are judged, or time is up.

    `silent` tells whether less is known of a node that exists than there is, `lost` why a status of rules would be lost
    ("" if it would not). Problems of which no status can tell are logged; without `publish` none is written.
    """

    def __init__(
        self,
        client: KubeClient,
        verdicts: Evaluator,
        stores: tuple[Store[RawObject], Store[RawObject]],
        metrics: Metrics,
        everybody: Callable[[], int],
        silent: Callable[[str], bool],
        lost: Callable[[], str] = lambda: "",
        publish: bool = True,
    ) -> None:
        self.dirty = asyncio.Event()
        self._client = client
        self._verdicts = verdicts
        self._rules, self._groups = stores
        self._metrics = metrics
        self._everybody = everybody
        self._silent = silent
        self._started = time.monotonic()
        self._written: dict[str, float] = {}
        self._sent: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._lost = lost
        self._forbidden = {} if publish else dict.fromkeys((RULE, GROUP), (NO_PUBLISH, math.inf))
        self._refusals: dict[str, tuple[str, float]] = dict(self._forbidden)
        """Why no status of a kind can be written, and until when that is not tried again."""
        self._said: dict[str, str] = {}
        self._logged = LoggedProblems()

    def clear(self) -> None:
        """Start over: another master may have written meanwhile."""
        self._started = time.monotonic()
        self._written.clear()
        self._sent.clear()
        self._refusals = dict(self._forbidden)

    async def run(self, leads: asyncio.Event) -> None:
        """Until cancelled; one of several masters writes only while it leads."""
        while True:
            await self.dirty.wait()
            await leads.wait()
            await asyncio.sleep(DEBOUNCE)
            self.dirty.clear()
            try:
                wait = await self._write_all()
            except KubeError as error:
                _log.warning("status not written; trying again", error=error, seconds=EVERY)
                wait = EVERY
            except Exception:
                self.dirty.set()  # it is still to be done
                raise
            if wait:
                asyncio.get_running_loop().call_later(wait, self.dirty.set)
                await asyncio.sleep(min(wait, 1.0))

    async def _write_all(self) -> float:
        """Answers after how many seconds to come again, 0 if everything is said. Raises: KubeError."""
        book = self._verdicts.book
        self._forget_gone(book)
        if not self._rules.items and not self._groups.items:
            return 0.0
        tally = await self._count()
        if tally is None or book is not self._verdicts.book:
            return DEBOUNCE
        waits = [0.0]
        first = 0
        for sheet in book.sheets:
            waits.append(await _alone(self._write_rules(sheet, first, tally), rule=sheet.name))
            first += len(sheet.rules)
        for key in [group.key for group in book.groups if group.key in self._groups.items]:
            waits.append(await _alone(self._write_group(key, tally), group="/".join(key)))
        return min((wait for wait in waits if 0 < wait < math.inf), default=0.0)

    def _forget_gone(self, book: RuleSet) -> None:
        """Forget objects that are neither among the rules in force nor among the groups."""
        rules = {(object_path(RULES, sheet.name, "status"), sheet.uid) for sheet in book.sheets}
        present = rules | {(_group_path(key), "") for key in self._groups.items}
        paths = {path for path, _ in present}
        self._sent = {one: status for one, status in self._sent.items() if one in present}
        self._written = {path: at for path, at in self._written.items() if path in paths}
        self._logged.keep({*(sheet.name for sheet in book.sheets), *map("/".join, self._groups.items)})

    async def _count(self) -> Tally | None:
        """Go through all nodes, a slice at a time; None if some are still judged by older rules."""
        return await self._verdicts.turns.run(self._count_steps(self._verdicts.book))

    def _count_steps(self, book: RuleSet) -> Steps[Tally | None]:
        tally = Tally(book.rules, self._verdicts.policy)
        for node in self._verdicts.names():
            if (verdict := self._verdicts.get(node)) is not None:
                if verdict.book is not book:
                    return None
                tally.add(node, verdict.evaluation, verdict.joined)
                for group in book.groups_relying_on(derive_freshness(verdict.report).failed):
                    tally.group(group).unsure.add(node)
            yield
        return tally

    async def _write_rules(self, sheet: CompiledObject, first: int, tally: Tally) -> float:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = await self._verdicts.turns.run(render_steps(sheet, first, tally, now))
        wait = await self._offer_rules(sheet, status)
        if self._is_untold(RULE):
            early = {*sheet.mistakes, *(text for rule in sheet.rules for text in rule.mistakes)}
            only = early if self._awaits_workers() else None
            self._logged.tell(sheet.name, (sheet.uid, sheet.generation), status, only)
        return wait

    async def _offer_rules(self, sheet: CompiledObject, status: Mapping[str, Any]) -> float:
        path = object_path(RULES, sheet.name, "status")
        known = self._rules.statuses.get(("", sheet.name), {})
        if wait := self._refused_for(RULE):
            return wait
        if same_status(status, known) or same_status(status, self._sent.get((path, sheet.uid), {})):
            return 0.0
        if known.get("observedGeneration") == sheet.generation and (wait := self._not_yet(path)):
            return wait
        if await self._send(RULE, path, sheet.uid, status, lambda: ("", sheet.name) in self._rules.items):
            self._metrics.add("nodefeaturerule_status_updates")
        return self._refused_for(RULE)

    async def _write_group(self, key: Key, tally: Tally) -> float:
        """Nodes of which less is known than there is stay members for as long as they exist.

        So do those on which a rule of the group failed, or a source whose features the group looks at.
        """
        found, known = tally.group(key), self._groups.statuses.get(key, {})
        kept = {node for node in listed_nodes(known) if node in found.unsure or self._silent(node)}
        status = render_group(found.nodes | kept, found)
        wait = await self._offer_group(key, status, known)
        if self._is_untold(GROUP):
            self._logged.tell("/".join(key), None, status)
        return wait

    async def _offer_group(self, key: Key, status: Mapping[str, Any], known: Mapping[str, Any]) -> float:
        path = _group_path(key)
        if wait := self._refused_for(GROUP):
            return wait
        if status == known or (known and status == self._sent.get((path, ""))):
            return 0.0
        if known and (wait := self._not_yet(path, known.get("truncated", False))):
            return wait
        if await self._send(GROUP, path, "", status, lambda: key in self._groups.items):
            self._metrics.add("node_feature_group_update_requests")
        return self._refused_for(GROUP)

    def _is_untold(self, kind: str) -> bool:
        """Whether nobody can read a status of that kind, which is said when it begins and when it ends."""
        reason = self._refusals[kind][0] if kind in self._refusals else self._lost() if kind == RULE else ""
        before, self._said[kind] = self._said.get(kind, ""), reason
        if reason and reason != before:
            known = f": {reason}" if reason in (NO_SUBRESOURCE, NO_PUBLISH) else ""
            _log.warning(f"{kind}s get no status{known}", error=f"{reason}; their problems are logged")
        elif before and not reason:
            _log.info(f"{kind}s get a status again")
        return bool(reason)

    def _refused_for(self, kind: str) -> float:
        """Seconds until a status of that kind is tried again; 0 if none was refused."""
        return max(self._refusals[kind][1] - time.monotonic(), 0.0) if kind in self._refusals else 0.0

    async def _send(
        self, kind: str, path: str, uid: str, status: Mapping[str, Any], exists: Callable[[], bool]
    ) -> bool:
        """Whether it was written. If none of that kind can be, none is tried for a while. Raises: KubeError."""
        try:
            await self._patch(path, uid, status)
        except (NotFound, Forbidden) as error:
            self._sent.pop((path, uid), None)
            if isinstance(error, Forbidden) or exists():
                reason = str(error) if isinstance(error, Forbidden) else NO_SUBRESOURCE
                self._refusals[kind] = reason, time.monotonic() + REFUSED
            return False
        self._refusals.pop(kind, None)
        return True

    def _awaits_workers(self) -> bool:
        """Whether some nodes have yet to be judged, and may be soon."""
        return len(self._verdicts) < self._everybody() and time.monotonic() - self._started < PATIENCE

    def _not_yet(self, path: str, counts_everybody: bool = True) -> float:
        """Seconds until counts may be written for an object; 0 if they may."""
        now = time.monotonic()
        if counts_everybody and self._awaits_workers():
            return EVERY
        return max(EVERY - (now - self._written.get(path, -EVERY)), 0.0)

    async def _patch(self, path: str, uid: str, status: Mapping[str, Any]) -> None:
        """Raises: KubeErrors, but no Conflict: then there is a new object, which the watch tells of."""
        body = {"status": status} | ({"metadata": {"uid": uid}} if uid else {})
        self._sent[path, uid] = status
        self._written[path] = time.monotonic()
        with suppress(Conflict):
            await self._client.json(
                "PATCH",
                path,
                body,
                query={"fieldManager": FIELD_MANAGER},
                content_type=MERGE_PATCH,
                accept=METADATA_ONLY,
                fenced=True,
            )


def _group_path(key: Key) -> str:
    return object_path(in_namespace(GROUPS, key[0]), key[1], "status")


async def _alone(work: Awaitable[float], **about: str) -> float:
    """The status of one object; what goes wrong with it keeps back no other. Raises: Unavailable."""
    try:
        return await work
    except Unavailable:
        raise
    except KubeError as error:
        _log.warning("status not written; trying again", error=error, seconds=EVERY, **about)
    except Exception as error:
        failed("statuses", error, **about)
    return EVERY


MOST = 100
"""Problems of one object that are logged as long as its specification stays the same."""


class LoggedProblems:
    """Each problem is logged once for each specification of the object that it is in."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[object, set[tuple[str, str]]]] = {}

    def tell(self, name: str, version: object, status: Mapping[str, Any], only: Collection[str] | None = None) -> None:
        """Log what is new in a status; with `only` no other messages than these. `version` is of the specification."""
        before, said = self._said.get(name, (None, set[tuple[str, str]]()))
        if before != version:
            said = set()
        self._said[name] = version, said
        for rule, problem in _problems(status):
            key = rule, str(problem["message"])
            if key in said or len(said) == MOST or (only is not None and key[1] not in only):
                continue
            said.add(key)
            nodes = {"nodes": problem["nodes"]} if "nodes" in problem else {}
            _log.warning("problem of a rule", rule=f"{name}/{rule}" if rule else name, error=key[1], **nodes)

    def keep(self, names: Collection[str]) -> None:
        """Forget objects that are gone."""
        self._said = {name: said for name, said in self._said.items() if name in names}


def _problems(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The name of the rule, "" for the object as a whole, and each problem."""
    yield from (("", problem) for problem in _listed(status.get("problems")))
    for rule in _listed(status.get("rules")):
        yield from ((str(rule["name"]), problem) for problem in _listed(rule.get("problems")))


def _listed(value: Any) -> list[Mapping[str, Any]]:
    """The problems of a NodeFeatureGroup are a list, those of a NodeFeatureRule their number."""
    return value if isinstance(value, list) else []
