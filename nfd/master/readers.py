"""HTTP paths for those who may read what the master knows: a bearer token, and the right to `get` that path."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from nfd import log
from nfd.errors import Forbidden, Unavailable
from nfd.kube.access import Access
from nfd.master import reveal
from nfd.master.reveal import Heard, Standing
from nfd.runtime.cache import Throttle

_log = log.get("master")


class Admission:
    """Lets in who shows a token and may get the path."""

    def __init__(self, access: Access) -> None:
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
