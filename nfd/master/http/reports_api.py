"""HTTP paths for those who may read what the master knows: a bearer token, and the right to `get` that path."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_type_hints

from aiohttp import web

from nfd.errors import Forbidden, Unavailable
from nfd.features import Features
from nfd.kube.reviews import AccessReviews
from nfd.master.config import NamespaceSelector
from nfd.master.node.rejections import Unwritten, parse_unwritten, render_unwritten
from nfd.master.rules.nodefeatures import Joining
from nfd.report import Order, Report, SourceState, State
from nfd.rules.policy import Policy
from nfd.runtime import log
from nfd.runtime.cache import Throttle

_log = log.get("master")


class ReadAuthorization:
    """Lets in who shows a token and may get the path."""

    def __init__(self, access: AccessReviews) -> None:
        self._access = access
        self._throttle = Throttle()

    async def check(self, request: web.Request) -> None:
        """Raises: web.HTTPException for whoever may not."""
        try:
            await self._access.check(request.headers.get("Authorization", ""), request.path, request.remote or "")
        except Forbidden as error:
            if self._throttle.is_due(str(error)):
                _log.warning("reading refused", path=request.path, error=error)
            raise web.HTTPForbidden(text=f"{error}\n") from error
        except Unavailable as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from error


class ReportsApi:
    """`missing` says why nothing can be told at present, "" if it can; `names` and `find` are about reports."""

    def __init__(
        self,
        admission: ReadAuthorization,
        standing: Callable[[], MasterState],
        missing: Callable[[], str],
        names: Callable[[], list[str]],
        find: Callable[[str], TimedReport | None],
    ) -> None:
        self._admission = admission
        self._standing = standing
        self._missing = missing
        self._names = names
        self._find = find

    def routes(self) -> list[web.RouteDef]:
        return [web.get(PATH, self._reports)]

    async def _reports(self, request: web.Request) -> web.StreamResponse:
        await self._admission.check(request)
        if missing := self._missing():
            raise web.HTTPServiceUnavailable(text=f"{missing}\n")
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})
        await response.prepare(request)
        async for line in lines(self._standing(), self._names(), self._find):
            await response.write(line)
        await response.write_eof()
        return response


PATH = "/reports"
CONTENT_TYPE = "application/x-ndjson"
_ORDER = ("boot_id", "started", "sequence")
_SETS = tuple(name for name, kind in get_type_hints(Policy).items() if kind == frozenset[str])


@dataclass(frozen=True, slots=True)
class MasterState:
    """What a master goes by, apart from reports, rules and objects; `namespace` is its own.

    `fixed` is what flags and variables say about its configuration, whatever a file says: name, values and origin of
    each layer. `gate` is whether the feature gates allow keys without a namespace to get the default one.
    `namespace_selector` is for NodeFeature objects, None if the master is too old to tell. `node_selector` is for the
    Nodes that are its own. Without `publish` it writes nothing.
    """

    policy: Policy = field(default_factory=Policy)
    overwrite: bool = True
    instance: str = ""
    namespace: str = ""
    deny_labels: bool = False
    gate: bool = True
    fixed: tuple[tuple[str, Any, str], ...] = ()
    namespace_selector: NamespaceSelector | None = None
    node_selector: str = ""
    publish: bool = True
    unwritten: tuple[Unwritten, ...] = ()
    """What it cannot write at present."""

    @property
    def joining(self) -> Joining:
        """How it joins reports and objects."""
        return Joining(self.policy, self.namespace, self.deny_labels)


@dataclass(frozen=True, slots=True)
class TimedReport:
    """A report, and how many seconds ago its worker last spoke, None if nobody knows."""

    report: Report
    age: float | None = None


def render_state(standing: MasterState) -> dict[str, Any]:
    policy = asdict(standing.policy)
    found = {name: sorted(value) if name in _SETS else value for name, value in policy.items()}
    rest = {one.name: getattr(standing, one.name) for one in fields(standing) if one.name != "policy"}
    selector = standing.namespace_selector
    told = None if selector is None else selector.model_dump(mode="json", by_alias=True)
    return {
        "policy": found,
        **rest,
        "namespace_selector": told,
        "unwritten": [*map(render_unwritten, standing.unwritten)],
    }


def parse_state(data: Mapping[str, Any]) -> MasterState:
    """The reverse. Raises: KeyError, ValueError, TypeError for what is none."""
    policy = dict(data["policy"])
    known = {one.name for one in fields(Policy)}
    values: dict[str, Any] = {
        name: frozenset(value) if name in _SETS else value for name, value in policy.items() if name in known
    }
    rest = {one.name: data[one.name] for one in fields(MasterState) if one.name in data and one.name != "policy"}
    rest["fixed"] = tuple((str(name), value, str(origin)) for name, value, origin in data.get("fixed") or ())
    if (selector := data.get("namespace_selector")) is not None:
        rest["namespace_selector"] = NamespaceSelector.model_validate(selector)
    rest["unwritten"] = tuple(map(parse_unwritten, data.get("unwritten") or ()))
    return MasterState(Policy(**values), **rest)


async def lines(
    standing: MasterState, names: list[str], find: Callable[[str], TimedReport | None]
) -> AsyncIterator[bytes]:
    """The answer, a piece for each node, so that others have their turn between two."""
    yield _line({"settings": render_state(standing)})
    numbers: dict[int, tuple[int, Any]] = {}
    for name in names:
        heard = find(name)
        if heard is not None:
            yield b"".join(_of_node(heard, numbers))


def _of_node(heard: TimedReport, numbers: dict[int, tuple[int, Any]]) -> Iterator[bytes]:
    """`numbers` is by identity, and keeps what it names alive: the master shares equal contents."""
    report = heard.report
    refs: list[tuple[str, str, int]] = []
    for kind in ("flags", "attributes", "instances"):
        for feature, content in getattr(report.features, kind).items():
            if id(content) not in numbers:
                numbers[id(content)] = len(numbers), content
                value = sorted(content) if kind == "flags" else content
                yield _line({"content": numbers[id(content)][0], "value": value})
            refs.append((kind, feature, numbers[id(content)][0]))
    order = {name: getattr(report.order, name) for name in _ORDER} if report.order is not None else None
    sources = {name: [state.state, state.error, state.since] for name, state in report.sources.items()}
    texts = {name: dict(getattr(report, name)) for name in ("labels", "annotations", "origins")}
    plain = {"version": report.version, "uid": report.node_uid, "order": order, "sources": sources, "age": heard.age}
    yield _line({"node": report.node, **plain, **texts, "features": refs})


def parse_line(data: Mapping[str, Any], contents: dict[int, Any]) -> TimedReport | None:
    """A line after the first; None for one that has a content. Raises: KeyError, TypeError, ValueError."""
    if "content" in data:
        contents[int(data["content"])] = data["value"]
        return None
    parts: dict[str, dict[str, Any]] = {"flags": {}, "attributes": {}, "instances": {}}
    for kind, feature, number in data["features"]:
        value = contents[number]
        parts[kind][feature] = frozenset(value) if kind == "flags" else tuple(value) if kind == "instances" else value
    order = Order(**data["order"]) if data.get("order") else None
    sources = {name: SourceState(State(one[0]), one[1], one[2]) for name, one in data["sources"].items()}
    texts = {name: data[name] for name in ("labels", "annotations", "origins")}
    report = Report(
        data["node"], data["version"], data["uid"], order, sources=sources, features=Features(**parts), **texts
    )
    return TimedReport(report, data.get("age"))


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
