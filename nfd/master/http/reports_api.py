"""HTTP paths for authorised clients: with a bearer token whose user may `get` the path."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_type_hints

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from nfd.config.section import parse_pattern
from nfd.errors import Forbidden, Unavailable
from nfd.features import Features
from nfd.kube.token_reviews import AccessReviews
from nfd.master.config import NamespaceSelector
from nfd.master.node.known_rejections import Unwritten, parse_unwritten, render_unwritten
from nfd.master.rules.nodefeatures import Joining
from nfd.report import Report, SourceState, State
from nfd.report_order import Order
from nfd.rules.policy import Policy
from nfd.runtime import log
from nfd.runtime.cache import Throttle
from nfd.store.base import texts

_log = log.get("master")


class ReadAuthorization:
    """Authorises clients by their token and the path."""

    def __init__(self, access: AccessReviews) -> None:
        self._access = access
        self._throttle = Throttle()

    async def check(self, request: web.Request) -> None:
        """Raises: web.HTTPException for a client that is not authorised."""
        try:
            await self._access.check(request.headers.get("Authorization", ""), request.path, request.remote or "")
        except Forbidden as error:
            if self._throttle.is_due(str(error)):
                _log.warning("access denied", path=request.path, error=error)
            raise web.HTTPForbidden(text=f"{error}\n") from error
        except Unavailable as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from error


class ReportsApi:
    """`missing` is the reason why there are no reports at present, "" if there are; `names` and `find` return
    reports."""

    def __init__(
        self,
        admission: ReadAuthorization,
        state: Callable[[], MasterState],
        missing: Callable[[], str],
        names: Callable[[], list[str]],
        find: Callable[[str], TimedReport | None],
    ) -> None:
        self._admission = admission
        self._standing = state
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
    """The state of a master apart from reports, rules and objects; `namespace` is its own.

    `fixed` is the configuration from flags and variables, which override files: name, values and origin of each layer.
    `gate` says whether the feature gates allow the default prefix. `namespace_selector` is for NodeFeature objects,
    None if the master is too old to report it. `node_selector` selects its Nodes. Without `publish` it writes nothing.
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
    """The keys that the API server rejects at present."""
    kept_taints: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The startup taints that Nodes still have, and why, by Node."""
    node_conditions: bool | None = None
    """Whether Nodes get conditions, None if the master is too old to report it."""
    silent: tuple[str, ...] = ()
    """The Nodes whose worker is silent, if Nodes get conditions."""

    @property
    def joining(self) -> Joining:
        """The options for merging reports and objects."""
        return Joining(self.policy, self.namespace, self.deny_labels)


@dataclass(frozen=True, slots=True)
class TimedReport:
    """A report, and the seconds since the worker's last one, None if unknown."""

    report: Report
    age: float | None = None


def render_state(state: MasterState) -> dict[str, Any]:
    policy = asdict(state.policy)
    found = {name: sorted(value) if name in _SETS else value for name, value in policy.items()}
    rest = {one.name: getattr(state, one.name) for one in fields(state) if one.name != "policy"}
    selector = state.namespace_selector
    written = None if selector is None else selector.model_dump(mode="json", by_alias=True)
    return {
        "policy": found,
        **rest,
        "namespace_selector": written,
        "unwritten": [*map(render_unwritten, state.unwritten)],
    }


def parse_state(data: Mapping[str, Any]) -> MasterState:
    """The reverse. Raises: KeyError, ValueError, TypeError for invalid data."""
    policy = dict(data["policy"])
    known = {one.name for one in fields(Policy)}
    values: dict[str, Any] = {
        name: frozenset(value) if name in _SETS else value for name, value in policy.items() if name in known
    }
    try:
        parse_pattern(values.get("label_whitelist", ""))
    except ValueError as error:
        raise ValueError(f"settings.policy.label_whitelist: {error}") from error
    rest = {one.name: data[one.name] for one in fields(MasterState) if one.name in data and one.name != "policy"}
    rest["fixed"] = tuple((str(name), value, str(origin)) for name, value, origin in data.get("fixed") or ())
    rest["unwritten"] = tuple(map(parse_unwritten, data.get("unwritten") or ()))
    try:
        return TypeAdapter(MasterState).validate_python({"policy": values, **rest})
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"settings.{'.'.join(map(str, first['loc']))}: {first['msg']}") from error


async def lines(
    state: MasterState, names: list[str], find: Callable[[str], TimedReport | None]
) -> AsyncIterator[bytes]:
    """The answer, in one piece per node, so that other tasks run in between."""
    yield _line({"settings": render_state(state)})
    numbers: dict[int, tuple[int, Any]] = {}
    for name in names:
        reported = find(name)
        if reported is not None:
            yield b"".join(map(_line, render_report(reported, numbers)))


def render_report(reported: TimedReport, numbers: dict[int, tuple[int, Any]]) -> Iterator[dict[str, Any]]:
    """The lines of one node; the reverse of `parse_line`.

    `numbers` are by identity and keep their values alive: the master shares equal contents.
    """
    report = reported.report
    refs: list[tuple[str, str, int]] = []
    for kind in ("flags", "attributes", "instances"):
        for feature, content in getattr(report.features, kind).items():
            if id(content) not in numbers:
                numbers[id(content)] = len(numbers), content
                value = sorted(content) if kind == "flags" else content
                yield {"content": numbers[id(content)][0], "value": value}
            refs.append((kind, feature, numbers[id(content)][0]))
    order = {name: getattr(report.order, name) for name in _ORDER} if report.order is not None else None
    sources = {name: [state.state, state.error, state.since] for name, state in report.sources.items()}
    texts = {name: dict(getattr(report, name)) for name in ("labels", "annotations", "origins")}
    plain = {"version": report.version, "uid": report.node_uid, "order": order, "sources": sources, "age": reported.age}
    yield {"node": report.node, **plain, **texts, "features": refs}


def parse_line(data: Mapping[str, Any], contents: dict[int, Any]) -> TimedReport | None:
    """Parse a line after the first; None for one with a content. Raises: KeyError, TypeError, ValueError."""
    if "content" in data:
        contents[data["content"]] = _content(data["value"])
        return None
    parts: dict[str, dict[str, Any]] = {"flags": {}, "attributes": {}, "instances": {}}
    for kind, feature, number in data["features"]:
        value = contents[number]
        if not _is_of(kind, value):
            raise ValueError(f"{feature}: content {number} is not of {kind}")
        parts[kind][_text(feature)] = (
            frozenset(value) if kind == "flags" else tuple(value) if kind == "instances" else value
        )
    order = Order(**data["order"]) if data.get("order") else None
    sources = {name: SourceState(State(one[0]), one[1], one[2]) for name, one in data["sources"].items()}
    maps = {name: texts(dict(data[name]), name) for name in ("labels", "annotations", "origins")}
    report = Report(
        data["node"], data["version"], data["uid"], order, sources=sources, features=Features(**parts), **maps
    )
    return TimedReport(report, data.get("age"))


def _is_of(kind: str, value: Any) -> bool:
    if kind == "attributes" or isinstance(value, Mapping):
        return kind == "attributes" and isinstance(value, Mapping)
    return not value or isinstance(value[0], Mapping) == (kind == "instances")


def _content(value: Any) -> Any:
    """Attributes, instances or flags. Raises: ValueError, TypeError."""
    if not isinstance(value, list):
        return texts(dict(value), "value")
    instances = any(isinstance(one, Mapping) for one in value)
    return [texts(dict(one), "value") if instances else _text(one) for one in value]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {type(value).__name__}")
    return value


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"
