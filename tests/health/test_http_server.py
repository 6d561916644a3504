"""The probe server against real, slow and hostile clients."""

from __future__ import annotations

import http.client
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from nfd.runtime import failures
from nfd.runtime.failures import COUNTS
from nfd.runtime.http_server import MAX_CLIENTS, MAX_REQUEST, Answer, HttpServer
from nfd.runtime.probes import STUCK, alive_answer
from nfd.runtime.prometheus import OPENMETRICS, Family, failures_family, render

BIG = "x" * 3_000_000


def handler(path: str, accept: str) -> Answer | None:
    match path:
        case "/healthz":
            return Answer("ok\n")
        case "/accept":
            return Answer(accept, content_type=OPENMETRICS)
        case "/big":
            return Answer(BIG)
        case "/broken":
            raise RuntimeError("a defect")
    return None


@pytest.fixture
def server() -> Iterator[HttpServer]:
    running = HttpServer(0, handler)
    yield running
    running.close()


def ask(server: HttpServer, path: str, method: str = "GET", host: str = "localhost", **headers: str) -> tuple[int, str]:
    link = http.client.HTTPConnection(host, server.port, timeout=5)
    try:
        link.request(method, path, headers=headers)
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    finally:
        link.close()


def raw(server: HttpServer, data: bytes) -> bytes:
    with socket.create_connection(("localhost", server.port), timeout=5) as link:
        link.sendall(data)
        parts = []
        while part := link.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_answers(server: HttpServer) -> None:
    assert ask(server, "/healthz") == (200, "ok\n")
    assert ask(server, "/healthz?verbose=1", host="127.0.0.1") == (200, "ok\n")
    assert ask(server, "/healthz", "HEAD") == (200, "")
    assert ask(server, "/healthz", "POST")[0] == 405
    assert ask(server, "/nowhere")[0] == 404
    assert ask(server, "/accept", Accept="application/openmetrics-text") == (200, " application/openmetrics-text")
    assert ask(server, "/big") == (200, BIG)
    assert ask(server, "/broken") == (500, "RuntimeError: a defect\n")
    assert ask(server, "/healthz") == (200, "ok\n")


def test_a_handler_that_fails_is_told_once(server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    """By its path and with a traceback, and counted each time; the others go on."""
    failures._logged.clear()
    before = COUNTS["http handler"]
    for _ in range(3):
        assert ask(server, "/broken?x=1")[0] == 500
        assert ask(server, "/healthz") == (200, "ok\n")
    lines = [(one.getMessage(), one.fields["path"], one.exc_info is not None) for one in caplog.records]  # type: ignore[attr-defined]
    assert lines == [("unexpected error", "/broken", True)]
    assert COUNTS["http handler"] == before + 3
    assert ("_total", {"task": "http handler"}, before + 3) in failures_family("nfd_x_").samples


def test_headers(server: HttpServer) -> None:
    top, _, body = raw(server, b"GET /accept HTTP/1.0\r\naccept: a\r\n\r\n").partition(b"\r\n\r\n")
    assert top.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8",
        b"Content-Length: 2",
        b"Connection: close",
    ]
    assert body == b" a"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\r\n\r\n", b"400"),
        (b"GET\n\n", b"400"),
        (b"GET /healthz\r\n\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
        (os.urandom(100).replace(b"\n", b"") + b"\n\n", b"400"),
        (b"GET /" + b"a" * (MAX_REQUEST - 4), b"431"),
    ],
)
def test_hostile_requests(server: HttpServer, data: bytes, status: bytes) -> None:
    assert raw(server, data).split(b" ")[1] == status
    assert ask(server, "/healthz") == (200, "ok\n")


def test_slow_clients_delay_nobody_and_are_dropped() -> None:
    """More of them than there are places: those that say nothing, half a request, or do not read the answer."""
    server = HttpServer(0, handler, patience=3.0)
    links = []
    for number in range(2 * MAX_CLIENTS):
        link = socket.create_connection(("localhost", server.port), timeout=5)
        link.sendall((b"", b"GET /heal", b"GET /big HTTP/1.1\r\n\r\n")[number % 3])
        links.append(link)
    started = time.monotonic()
    assert ask(server, "/healthz") == (200, "ok\n")
    assert time.monotonic() - started < 2.5
    links[-3].recv(1)
    for link in links:
        if links.index(link) % 3 != 2:
            with suppress(ConnectionResetError):
                assert link.recv(1) == b""
        link.close()
    assert time.monotonic() - started < 20
    assert ask(server, "/healthz") == (200, "ok\n")
    while server._clients:
        assert time.monotonic() - started < 30
        time.sleep(0.01)
    server.close()


def test_clients_that_go_away(server: HttpServer) -> None:
    for data in (b"", b"GET /healthz HTTP/1.1\r\n", b"GET /big HTTP/1.1\r\n\r\n"):
        socket.create_connection(("localhost", server.port)).close()
        with socket.create_connection(("localhost", server.port)) as link:
            link.sendall(data)
    assert ask(server, "/healthz") == (200, "ok\n")


def test_closing_ends_the_thread_and_frees_the_port(server: HttpServer) -> None:
    other = HttpServer(0, handler)
    idle = socket.create_connection(("localhost", other.port))
    with pytest.raises(OSError, match="in use"):
        HttpServer(other.port, handler)
    port = other.port
    other.close()
    idle.close()
    assert not other._thread.is_alive()
    HttpServer(port, handler).close()


FAMILIES = [
    Family("a", "counter", "Things.", [("_total", {}, 3)]),
    Family("b_info", "gauge", "Build.", [("", {"version": 'v"1\\\n'}, 1.5)]),
    Family("c", "histogram", "Times.", [("_bucket", {"le": "+Inf"}, 2), ("_sum", {}, 0.25), ("_count", {}, 2)]),
]


def test_metrics_as_text() -> None:
    assert render(FAMILIES, openmetrics=True) == (
        "# HELP a Things.\n# TYPE a counter\na_total 3\n"
        '# HELP b_info Build.\n# TYPE b_info gauge\nb_info{version="v\\"1\\\\\\n"} 1.5\n'
        '# HELP c Times.\n# TYPE c histogram\nc_bucket{le="+Inf"} 2\nc_sum 0.25\nc_count 2\n# EOF\n'
    )
    plain = render(FAMILIES, openmetrics=False)
    assert plain.startswith("# HELP a_total Things.\n# TYPE a_total counter\na_total 3\n")
    assert plain.endswith("c_count 2\n")


def test_a_pass_that_does_not_end_is_no_life() -> None:
    assert alive_answer(None) == Answer("ok\n")
    assert alive_answer(time.monotonic() - STUCK + 60) == Answer("ok\n")
    stuck = alive_answer(time.monotonic() - STUCK - 0.1)
    assert (stuck.status, stuck.body) == (503, "busy for 300 s\n")
