"""A small HTTP server for probes and metrics, and the text form of metrics.

`http.server` costs 7 MiB of memory, more than all the rest of a scan, so this implements the part of HTTP that a
kubelet and Prometheus need: GET and HEAD, one answer, then close (RFC 9112). One thread serves all clients without
waiting for any of them: too many, too slow or too talkative ones are dropped.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate

from nfd.runtime.failures import COUNTS, failed
from nfd.runtime.threads import start_thread

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"

MAX_CLIENTS = 32
STUCK = 300.0
"""Seconds after which a pass that does not end makes /healthz fail."""
MAX_REQUEST = 8 * 1024
"""Bytes of a request; the answer to more is 431."""
PATIENCE = 5.0
"""Seconds for one client, from connecting to the last byte of the answer."""

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


Sample = tuple[str, Mapping[str, str], float]
"""Suffix, labels, value: `("_total", {}, 3)`."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric."""

    name: str
    kind: str
    help: str
    samples: Iterable[Sample]


class Histogram:
    """How often something took how long; `bounds` are upper ones, in seconds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._seconds = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._seconds += seconds

    def samples(self, labels: Mapping[str, str]) -> Iterator[Sample]:
        """Those of a family of the kind `histogram`."""
        for bound, count in zip((*map(str, self._bounds), "+Inf"), accumulate(self._counts), strict=True):
            yield "_bucket", {**labels, "le": bound}, count
        yield "_sum", labels, self._seconds
        yield "_count", labels, sum(self._counts)


def render(families: Iterable[Family], *, openmetrics: bool) -> str:
    """OpenMetrics 1.0 or the Prometheus text format 0.0.4, which names a counter with its `_total`."""
    lines: list[str] = []
    for family in families:
        name = family.name if openmetrics or family.kind != "counter" else f"{family.name}_total"
        lines += [f"# HELP {name} {_escape(family.help)}", f"# TYPE {name} {family.kind}"]
        lines += [f"{family.name}{suffix}{_labels(labels)} {value!r}" for suffix, labels, value in family.samples]
    return "\n".join([*lines, "# EOF\n" if openmetrics else ""])


def _labels(labels: Mapping[str, str]) -> str:
    text = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return f"{{{text}}}" if text else ""


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def gauge(name: str, about: str, values: float | Mapping[str, float], label: str = "") -> Family:
    """One value or, with a `label`, one for each value of that."""
    return Family(name, "gauge", about, _samples("", values, label))


def counter(name: str, about: str, counts: float | Mapping[str, float], label: str = "") -> Family:
    """As `gauge`."""
    return Family(name, "counter", about, _samples("_total", counts, label))


def _samples(suffix: str, values: float | Mapping[str, float], label: str) -> list[Sample]:
    if isinstance(values, Mapping):
        return [(suffix, {label: key}, value) for key, value in values.items()]
    return [(suffix, {}, values)]


def build_family(prefix: str, version: str, started: float) -> Family:
    """`build_info`, as NFD's programs have it."""
    about = "Start time in seconds since the epoch, with the version as label."
    return gauge(f"{prefix}build_info", about, {version: started}, "version")


def failures_family(prefix: str) -> Family:
    """How often the parts of this process failed in a way that was not foreseen, by part."""
    about = "Unexpected errors by task. The program continues. Its log contains the traceback."
    return counter(f"{prefix}task_failures", about, dict(sorted(COUNTS.items())), "task")


@dataclass(frozen=True, slots=True)
class Answer:
    """What to say to a request."""

    body: str
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


OK = Answer("ok\n")


def metrics_answer(families: Iterable[Family], accept: str) -> Answer:
    """The metrics in the form that an Accept header asks for."""
    openmetrics = "application/openmetrics-text" in accept
    return Answer(render(families, openmetrics=openmetrics), content_type=OPENMETRICS if openmetrics else PLAIN)


def alive_answer(busy_since: float | None) -> Answer:
    """`/healthz` of a program whose pass began then, or has time until then for what it does (monotonic seconds; None:
    it is between two)."""
    busy = 0.0 if busy_since is None else time.monotonic() - busy_since
    return Answer(f"busy for {busy:.0f} s\n", 503) if busy > STUCK else OK


Handler = Callable[[str, str], Answer | None]
"""Answers a path, given the Accept header; None: no such path. Called in the server's thread."""


def probes(
    alive: Callable[[], Answer], missing: Callable[[], str], families: Callable[[], Iterable[Family]]
) -> Handler:
    """What a daemon serves: `/healthz`, `/readyz` (503 while `missing` names what it waits for), and `/metrics`."""

    def answer(path: str, accept: str) -> Answer | None:
        match path:
            case "/healthz":
                return alive()
            case "/readyz":
                return Answer(f"{waits}\n", 503) if (waits := missing()) else OK
            case "/metrics":
                return metrics_answer(families(), accept)
        return None

    return answer


@dataclass(slots=True)
class _Client:
    link: socket.socket
    deadline: float
    request: bytearray = field(default_factory=bytearray)
    answer: memoryview | None = None


class HttpServer:
    """Listens on all addresses from construction on; raises OSError if the port cannot be had (0 takes a free one)."""

    def __init__(self, port: int, handler: Handler, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._handler = handler
        self._listener = listen(port)
        self._listener.setblocking(False)
        self._poller = select.poll()
        self._poller.register(self._listener, select.POLLIN)
        self._clients: dict[int, _Client] = {}
        self._thread = start_thread("http", self._run, again=True)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Stop at once; clients being served are cut off."""
        self._listener.shutdown(socket.SHUT_RDWR)  # makes accept fail, which ends the thread
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        """Until the listener is shut down; what one client brings out is no reason to keep the others."""
        try:
            while self._turn():
                pass
        finally:
            for client in list(self._clients.values()):
                self._drop(client)

    def _turn(self) -> bool:
        """Wait for something to happen and deal with it; false when the listener is shut down."""
        first = min((client.deadline for client in self._clients.values()), default=None)
        timeout = None if first is None else max(0.0, first - time.monotonic()) * 1000
        for descriptor, _ in self._poller.poll(timeout):
            if descriptor == self._listener.fileno():
                if not self._accept():
                    return False
            elif (client := self._clients.get(descriptor)) is not None:
                self._serve(client)
        now = time.monotonic()
        for client in [one for one in self._clients.values() if one.deadline <= now]:
            self._drop(client)
        return True

    def _accept(self) -> bool:
        try:
            link, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return True
        except OSError as error:
            if error.errno == errno.EINVAL:
                return False
            time.sleep(0.1)  # out of descriptors: the backlog waits
            return True
        if len(self._clients) >= MAX_CLIENTS:
            self._drop(min(self._clients.values(), key=lambda one: one.deadline))
        link.setblocking(False)
        self._clients[link.fileno()] = _Client(link, time.monotonic() + self._patience)
        self._poller.register(link, select.POLLIN)
        return True

    def _serve(self, client: _Client) -> None:
        """Read or write what the client is ready for."""
        try:
            if client.answer is None:
                self._read(client)
            if client.answer is not None:
                client.answer = client.answer[client.link.send(client.answer) :]
                if not client.answer:
                    self._drop(client)
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)

    def _read(self, client: _Client) -> None:
        data = client.link.recv(4096)
        client.request += data
        if not data:
            self._drop(client)
        elif len(client.request) > MAX_REQUEST:
            self._reply(client, Answer("request too long\n", 431))
        elif b"\r\n\r\n" in client.request or b"\n\n" in client.request:
            self._reply(client, *_answer(bytes(client.request), self._handler))

    def _reply(self, client: _Client, answer: Answer, head: bool = False) -> None:
        body = answer.body.encode()
        top = (
            f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        client.answer = memoryview(top.encode() + (b"" if head else body))
        self._poller.modify(client.link, select.POLLOUT)

    def _drop(self, client: _Client) -> None:
        if self._clients.pop(client.link.fileno(), None) is not None:
            self._poller.unregister(client.link)
            with suppress(OSError):
                client.link.close()


@contextmanager
def serving(port: int, handler: Handler) -> Iterator[None]:
    """A server for as long as the block lasts; none at port 0. Raises: OSError if the port cannot be had."""
    server = HttpServer(port, handler) if port else None
    try:
        yield
    finally:
        if server is not None:
            server.close()


def listen(port: int, host: str = "") -> socket.socket:
    """On that address; without one on all, IPv6 and IPv4 on one socket where the kernel has both. Raises: OSError."""
    if host:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _answer(request: bytes, handler: Handler) -> tuple[Answer, bool]:
    """The answer, and whether its body is not wanted (HEAD)."""
    top, *fields = request.decode("latin-1").replace("\r\n", "\n").partition("\n\n")[0].split("\n")
    words = top.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Answer("this is an HTTP/1.1 server\n", 400), False
    method, target, _ = words
    if method not in ("GET", "HEAD"):
        return Answer("only GET and HEAD\n", 405), False
    accept = ",".join(line.partition(":")[2] for line in fields if line.lower().startswith("accept:"))
    try:
        answer = handler(target.partition("?")[0], accept)
    except Exception as error:  # a defect behind one path must not end the thread
        failed("http handler", error, path=target.partition("?")[0])
        answer = Answer(f"{type(error).__name__}: {error}\n", 500)
    return answer or Answer("there are /healthz, /readyz and /metrics\n", 404), method == "HEAD"
