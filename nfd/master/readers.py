"""HTTP paths for those who may read what the master knows: a bearer token, and the right to `get` that path."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from aiohttp import web

from nfd import log
from nfd.errors import Forbidden, Unavailable
from nfd.kube.access import Access
from nfd.master import reveal
from nfd.master.caller import REMEMBERED, REPEAT
from nfd.master.reveal import Heard, Standing

_log = log.get("master")


class Admission:
    """Lets in who shows a token and may get the path."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._said: OrderedDict[str, float] = OrderedDict()

    async def check(self, request: web.Request) -> None:
        """Raises: web.HTTPException for whoever may not."""
        try:
            await self._access.check(request.headers.get("Authorization", ""), request.path, request.remote or "")
        except Forbidden as error:
            self._complain(request.path, str(error))
            raise web.HTTPForbidden(text=f"{error}\n") from error
        except Unavailable as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from error

    def _complain(self, path: str, reason: str) -> None:
        """The same refusal once a minute: a flood of them must not become one of the log."""
        now = monotonic()
        if now - self._said.get(reason, -REPEAT) >= REPEAT:
            _log.warning("reading refused", path=path, error=reason)
            self._said[reason] = now
            self._said.move_to_end(reason)
            if len(self._said) > REMEMBERED:
                self._said.popitem(last=False)


class Readers:
    """`missing` says why nothing can be told at present, "" if it can; `names` and `find` are about reports."""

    def __init__(
        self,
        admission: Admission,
        standing: Callable[[], Standing],
        missing: Callable[[], str],
        names: Callable[[], list[str]],
        find: Callable[[str], Heard | None],
    ) -> None:
        self._admission = admission
        self._standing = standing
        self._missing = missing
        self._names = names
        self._find = find

    def routes(self) -> list[web.RouteDef]:
        return [web.get(reveal.PATH, self._reports)]

    async def _reports(self, request: web.Request) -> web.StreamResponse:
        await self._admission.check(request)
        if missing := self._missing():
            raise web.HTTPServiceUnavailable(text=f"{missing}\n")
        response = web.StreamResponse(headers={"Content-Type": reveal.CONTENT_TYPE, "Cache-Control": "no-store"})
        await response.prepare(request)
        async for line in reveal.lines(self._standing(), self._names(), self._find):
            await response.write(line)
        await response.write_eof()
        return response
