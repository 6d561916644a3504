"""A small HTTP server, for `nfd.runtime.probes`.

`http.server` costs 7 MiB of memory, more than all the rest of a scan, so this implements the part of HTTP that a
kubelet and Prometheus need: GET and HEAD, one answer, then close (RFC 9112). One thread serves all clients without
waiting for any of them: too many, too slow or too talkative ones are dropped.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from nfd.runtime.failures import failed
from nfd.runtime.threads import start_thread

MAX_CLIENTS = 32
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


@dataclass(frozen=True, slots=True)
class Answer:
    """What to say to a request."""

    body: str
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


OK = Answer("ok\n")


Handler = Callable[[str, str], Answer | None]
"""Answers a path, given the Accept header; None: no such path. Called in the server's thread."""


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
