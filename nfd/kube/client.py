"""The one client of the Kubernetes API: connects, and sends requests.

`kubernetes.aio` finds the server and the credentials; frequent requests go as bytes through that client's own aiohttp
session, without its models.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from nfd import __version__
from nfd.errors import (
    ConfigError,
    Conflict,
    Forbidden,
    Unavailable,
    said,
)
from nfd.kube.credentials import Credentials
from nfd.kube.error_responses import error_of
from nfd.kube.kubeconfig import SHAPE, Choice, choose, impersonation, listed_files, read_kubeconfigs
from nfd.kube.server_time import ServerTime
from nfd.runtime.malloc import absent

NO_CHOICE = Choice()
CONNECTIONS = 36
"""Ten PATCHes, eight questions about reports and eight about readers, a watch of each kind, and what is rare."""
TIMEOUT = 30.0
"""Seconds for one request; a watch has its own."""
FENCE_SLACK = 1.0
"""Seconds that the answer to a fenced request may take longer than the request."""
ATTEMPTS = 5
"""Replicas that start together conflict with each other."""

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""An answer that is a tenth of the whole object (Kubernetes API concepts, "Metadata-only fetches")."""

_AGENT = f"nfd-master/{__version__}"
T = TypeVar("T")


class Fence(Protocol):
    """Whether this master may write what only the leader writes.

    `seconds` is how long such a write may take at the server: another master waits for longer before it leads.
    """

    @property
    def seconds(self) -> float: ...

    def check(self) -> None:
        """Raises: Unavailable if not."""


class Open:
    """There is no other master."""

    seconds = 10.0

    def check(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Request:
    """One call; `body` is encoded by the caller."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    fenced: bool = False
    """Sent only by the leader, and executed at once or not at all; it needs a body."""


class KubeClient:
    """Requests to one API server; errors are KubeErrors."""

    def __init__(self, api: Any, loader: Any = None, place: str = "", namespace: str = "") -> None:
        self.api = api
        """The `kubernetes.aio` ApiClient, for what is rarely said (Lease, TokenReview, Secret)."""
        self.fence: Fence = Open()
        self.place = place
        """Which server and credentials these are, in words."""
        self.namespace = namespace
        """That of the kubeconfig's context; "" if it names none."""
        self.timeout: float | None = TIMEOUT
        """Seconds for a request; None waits without a limit."""
        self.server_time = ServerTime()
        self._configuration = api.configuration
        self._rest = api.rest_client
        self._credentials = Credentials(api, loader)

    async def json(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The JSON of the answer. `options` are fields of Request; `query` may be left out."""
        query = options.pop("query", {})
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        async with self.open(Request(method, path, query, data, **options)) as response:
            try:
                return json.loads(await response.read())
            except (ValueError, RecursionError) as error:
                raise Unavailable(f"{method} {path}: the answer is not JSON: {error}") from error

    @asynccontextmanager
    async def open(
        self, request: Request, *, read_timeout: float | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, to be read in the block; `read_timeout` is the longest silence, without a limit on the whole.

        Raises: Forbidden (401, 403), NotFound, Conflict, Invalid (413, 422, and what admission refuses), Unavailable
        (no answer, 429, 5xx).
        """
        limit = aiohttp.ClientTimeout(total=self.timeout)
        query = request.query
        body: bytes | aiohttp.Payload | None = request.body
        if request.fenced:
            query, body = self._fenced(request)
            limit = aiohttp.ClientTimeout(total=self.fence.seconds + FENCE_SLACK)
        if read_timeout is not None:
            limit = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT, sock_read=read_timeout)
        what = f"{request.method} {request.path}"
        try:
            async with self._session().request(
                request.method,
                self._url(request.path, query),
                data=body,
                headers=await self._headers(request),
                timeout=limit,
                allow_redirects=False,
                **self._connection_options(),
            ) as response:
                self.server_time.note(response.headers.get("Date", ""))
                with _cut_off_on_error(response):
                    if response.status >= 300:
                        error = error_of(what, response.status, response.headers, await response.read())
                        if response.status == 401 and isinstance(error, Forbidden):
                            self._credentials.refused()
                        raise error
                    yield response
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{what}: {failure_text(error)}") from error

    async def close(self) -> None:
        await self.api.close()

    def _session(self) -> aiohttp.ClientSession:
        if self._rest.pool_manager is None:
            self._rest.pool_manager = self._rest._create_pool_manager()
        session: aiohttp.ClientSession = self._rest.pool_manager
        return session

    def _fenced(self, request: Request) -> tuple[Mapping[str, str], aiohttp.Payload]:
        """The server drops what it cannot do in time, and nothing is sent once this master no longer leads.

        Raises: Unavailable if that is so already.
        """
        self.fence.check()
        limit = {"timeout": f"{round(self.fence.seconds * 1000)}ms"}
        return {**request.query, **limit}, _Fenced(request.body or b"", self.fence)

    def _url(self, path: str, query: Mapping[str, str]) -> str:
        return f"{self._configuration.host}{path}{f'?{urlencode(query)}' if query else ''}"

    async def _headers(self, request: Request) -> dict[str, str]:
        headers = {"Accept": request.accept, "User-Agent": _AGENT}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        await self._credentials.renew()
        try:
            settings = await self._configuration.auth_settings()
        except Exception as error:  # a token file that is just being replaced, an exec plugin that fails
            raise Unavailable(f"credentials: {' '.join(str(error).split()) or type(error).__name__}") from error
        for setting in settings.values():
            if setting["value"]:
                headers["Authorization"] = setting["value"]
        return headers

    def _connection_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self._configuration.tls_server_name:
            options["server_hostname"] = self._configuration.tls_server_name
        if self._rest.proxy:
            options["proxy"] = self._rest.proxy
        if self._rest.proxy_headers:
            options["proxy_headers"] = self._rest.proxy_headers
        return options


class _Fenced(aiohttp.BytesPayload):
    """A body that asks once more when its connection is there, which may take long; headers wait for the body."""

    def __init__(self, body: bytes, fence: Fence) -> None:
        super().__init__(body)
        self._fence = fence

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._fence.check()
        await super().write_with_length(writer, content_length)


@contextmanager
def _cut_off_on_error(response: aiohttp.ClientResponse) -> Iterator[None]:
    """A connection whose answer is not read to its end is closed at once, without a TLS shutdown."""
    try:
        yield
    except BaseException:
        if response.connection is not None and response.connection.transport is not None:
            response.connection.transport.abort()
        raise


def failure_text(error: Exception) -> str:
    """Why a request had no answer, in words."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return f"the certificate of {error.host}:{error.port} is not trusted: {reason}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"cannot find the address of {error.host}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno  # asyncio's own text has an address in it
        known = number is not None and number in errno.errorcode
        return f"cannot connect to {error.host}:{error.port}: {os.strerror(number or 0) if known else error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection"
    return str(error) or "no answer in time"


async def connect(kubeconfig: str = "", choice: Choice = NO_CHOICE) -> KubeClient:
    """A client by that file, else by `$KUBECONFIG`, else by the pod's service account. Nothing is sent yet.

    Raises: ConfigError if the one that applies cannot be used.
    """
    if os.path.expanduser("~") == "~":  # noqa: PTH111
        os.environ["HOME"] = "/"  # as container runtimes do; without a home the library fails while it is imported
    with absent("kubernetes_validate"):  # optional, and unused here: with its libraries, half a second and 20 MiB
        from kubernetes import aio  # 50 MiB of generated models: only for who talks to a cluster

    client, config = cast(Any, aio.client), cast(Any, aio.config)
    configuration = client.Configuration()
    configuration.connection_pool_maxsize = CONNECTIONS
    configuration.retries = False
    variable, loader, chosen = os.environ.get("KUBECONFIG", ""), None, None
    files = [kubeconfig] if kubeconfig else listed_files(variable)
    try:
        if files:
            chosen = choose(read_kubeconfigs(files), choice)
            loader = chosen.loader()
            await loader.load_and_set(configuration)
        else:
            config.load_incluster_config(client_configuration=configuration)
            if choice.context or choice.cluster or choice.user:
                raise ConfigError("--context, --cluster and --user need a kubeconfig")
        headers = chosen.headers if chosen is not None else tuple(impersonation({}, choice))
        # aiohttp would look into ~/.netrc before each request, in a thread, and trip over what it finds there
        configuration.client_session_kwargs = {"trust_env": False, "headers": headers}
        configuration.proxy = configuration.proxy or _proxy_of_environment(configuration.host)
        place, namespace = (chosen.place, chosen.namespace) if chosen else ("service account of the pod", "")
        return KubeClient(client.ApiClient(configuration), loader, place, namespace)
    except ConfigError:
        raise
    except Exception as error:  # the loader trips over malformed files in many ways
        raise ConfigError(_advice(os.pathsep.join(files), error)) from error


def _advice(path: str, error: Exception) -> str:
    text = " ".join(said(error).removeprefix(f"{path}: ").split())
    if isinstance(error, TypeError | AttributeError | LookupError):  # the loader took another shape for granted
        text = SHAPE
    if path:
        return f"kubeconfig {path}: {text}"
    return f"no --kubeconfig or KUBECONFIG, and not in a pod with a service account: {text}"


def _proxy_of_environment(url: str) -> str | None:
    """What HTTPS_PROXY and the like ask for, NO_PROXY considered; never for this machine itself, as in Go."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host == "localhost" or host.startswith("127.") or host == "::1" or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)


async def retry_on_conflict(attempt: Callable[[], Awaitable[T]]) -> T:
    """What the attempt returns; it is repeated after a Conflict, since other replicas write the same object.

    Raises: what the attempt raises; after five attempts, Conflict.
    """
    for number in range(1, ATTEMPTS):
        with suppress(Conflict):
            return await attempt()
        await asyncio.sleep(0.2 * number * random.random())
    return await attempt()
