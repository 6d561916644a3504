"""The page over HTTP: its files for anyone; the data of the fleet, cached for seconds, for authorised clients.

A client on this machine uses `kubectl port-forward`, so the API server has authorised it for the pod. Its Host name
rules out requests of other web sites. Any other client needs a token.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from ipaddress import ip_address
from typing import Protocol

from aiohttp import web

from nfd.fleet.dra_devices import Dra
from nfd.master.node.desired import name_origin
from nfd.master.node.ownership import CLAIMED, Origin
from nfd.master.page.picture import dra_data, fleet_data
from nfd.store.base import Node

PATH = "/page/"
DATA = f"{PATH}fleet.json"
FRESH = 5.0
"""Seconds for which an answer is reused, so that many viewers cost no more than one."""
ASSETS = {
    "index.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "fleet.js": "text/javascript",
    "picture.js": "text/javascript",
    "builder.js": "text/javascript",
    "bars_and_tables.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_POLICY = {
    "default-src": "'none'",
    **dict.fromkeys(("script-src", "style-src", "img-src", "connect-src"), "'self'"),
    **dict.fromkeys(("base-uri", "form-action", "frame-ancestors"), "'none'"),
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
_OWN = frozenset({"127.0.0.1", "::1"})
_OWN_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?", re.ASCII | re.IGNORECASE)
_PROXIES = ("Forwarded", "X-Forwarded-For", "Via")
Shown = tuple[str, Mapping[str, str], Mapping[str, str], tuple[Mapping[str, str], ...]]
"""The parts of a Node that the page uses."""
Admit = Callable[[web.Request], Awaitable[None]]


@dataclass(frozen=True)
class Knowledge:
    """What the master knows apart from the Nodes. `cluster` is a name, "" if it has none.

    `age` is the number of seconds since the last report of a node, None if it has not reported to this master.
    `origins` are the labels of a Node that are managed by nfd, and where they come from.
    """

    cluster: str = ""
    age: Callable[[str], float | None] = lambda name: None
    origins: Callable[[Node], Mapping[str, Origin]] = lambda node: {}


class ReadsDra(Protocol):
    """`found` is the last reading, None if there is none yet."""

    found: Dra | None

    async def read(self) -> Dra: ...


class Page:
    """`missing` is the reason why nodes are not known yet, "" if they are.

    `admit` authorises a client by its token, None if there is no API server. An answer is reused for `fresh` seconds.
    `dra` reads what DRA has, None if the page does not show it.
    """

    def __init__(
        self,
        nodes: Callable[[], Sequence[Node]],
        missing: Callable[[], str],
        admit: Admit | None = None,
        fresh: float = FRESH,
        knowledge: Knowledge = Knowledge(),
        dra: ReadsDra | None = None,
    ) -> None:
        self._nodes = nodes
        self._missing = missing
        self._admit = admit
        self._fresh = fresh
        self._knowledge = knowledge
        self._dra = dra
        self._packed = b""
        self._drawn: tuple[list[Shown], Dra | None] | None = None
        self._packed_dra: tuple[Dra, bytes] | None = None
        self._until = 0.0
        self._drawing = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        shown = [web.get(PATH + ("" if name == "index.html" else name), _asset(name)) for name in ASSETS]
        to_page = [web.get(path, _to_page) for path in ("/", PATH.rstrip("/"))]
        return [*shown, *to_page, web.get(DATA, self._data)]

    async def _data(self, request: web.Request) -> web.Response:
        if not _is_local(request):
            if self._admit is None:
                raise web.HTTPForbidden(text="the page is available only on this machine\n")
            await self._admit(request)
        if missing := self._missing():
            raise web.HTTPServiceUnavailable(text=f"{missing}\n")
        if "reports" in request.query:
            packed = _compress({"ages": self._ages()})
        elif "node" in request.query:
            packed = _compress(self._reasons(request.query["node"]))
        elif "dra" in request.query:
            packed = await self._pack_dra()
        else:
            packed = await self._pack()
        return _answer(request, packed, "application/json", "no-store")

    def _ages(self) -> dict[str, int]:
        """Seconds since the last report, in whole minutes, of the nodes that reported to this master."""
        ages = ((node.name, self._knowledge.age(node.name)) for node in self._nodes())
        return {name: int(age // 60) * 60 for name, age in ages if age is not None}

    def _reasons(self, name: str) -> dict[str, str]:
        """Who set each label of a node. Raises: web.HTTPNotFound."""
        node = next((one for one in self._nodes() if one.name == name), None)
        if node is None:
            raise web.HTTPNotFound(text="no such node\n")
        origins = self._knowledge.origins(node)
        return {key: origin_text(origins[key]) if key in origins else "not managed by nfd" for key in node.labels}

    async def _pack(self) -> bytes:
        """Rebuild the answer if something changed, in a thread, since the event loop serves thousands of workers."""
        async with self._drawing:
            if time.monotonic() >= self._until:
                nodes, dra = self._nodes(), self._dra.found if self._dra else None
                shown = [(node.name, node.labels, node.resources, node.taints) for node in nodes], dra
                if shown != self._drawn:
                    self._packed, self._drawn = await asyncio.to_thread(self._packed_fleet, nodes, dra), shown
                self._until = time.monotonic() + self._fresh
            return self._packed

    def _packed_fleet(self, nodes: Sequence[Node], dra: Dra | None) -> bytes:
        return _compress(fleet_data(nodes, self._knowledge.cluster, reads_dra=self._dra is not None, dra=dra))

    async def _pack_dra(self) -> bytes:
        """What DRA has. The problems of nodes depend on it, so the fleet is drawn anew after a new reading.

        Raises: web.HTTPNotFound.
        """
        if self._dra is None:
            raise web.HTTPNotFound(text="the page does not show DRA\n")
        found = await self._dra.read()
        if self._packed_dra is None or self._packed_dra[0] is not found:
            names = {node.name for node in self._nodes()}
            packed = await asyncio.to_thread(lambda: _compress(dra_data(found, names)))
            self._packed_dra, self._until = (found, packed), 0.0
        return self._packed_dra[1]


def origin_text(origin: Origin) -> str:
    """The source, rule or object that a label managed by nfd comes from."""
    return "nfd; its origin is not recorded" if origin is None or origin == CLAIMED else name_origin(origin)


def _compress(data: Mapping[str, object]) -> bytes:
    return gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 6, mtime=0)


def _is_local(request: web.Request) -> bool:
    """Whether the client is on this machine, names it as host, and forwards no other client's request."""
    peer = request.transport.get_extra_info("peername") if request.transport else None
    if not peer or any(name in request.headers for name in _PROXIES):
        return False
    address = ip_address(str(peer[0]).partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    return str(address) in _OWN and _OWN_HOST.fullmatch(request.headers.get("Host", "")) is not None


def _asset(name: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    packed = gzip.compress(files("nfd.master.page").joinpath("assets", name).read_bytes(), 9, mtime=0)

    async def answer(request: web.Request) -> web.Response:
        return _answer(request, packed, ASSETS[name], "no-cache")

    return answer


async def _to_page(request: web.Request) -> web.Response:
    raise web.HTTPFound(PATH.lstrip("/"))  # relative: a proxy may have added a path prefix


def _answer(request: web.Request, packed: bytes, kind: str, keep: str) -> web.Response:
    tag = f'W/"{hashlib.sha256(packed).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": tag, "Cache-Control": keep}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    body = packed
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
    else:
        body = gzip.decompress(packed)
    return web.Response(body=body, content_type=kind, charset="utf-8", headers=headers)
