"""A registry that means harm, or is broken: one line that names what is wrong, in bounded time and memory."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from nfd.errors import ConfigError, NfdError
from nfd.oci.artifact import ARTIFACT_TYPE, fetch_specification
from nfd.oci.client import Login, parse_challenges
from nfd.oci.reference import Platform, parse_platform, parse_reference

OTHER = "sha256:" + "0" * 64
Answer = tuple[int, Mapping[str, str], bytes]


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def as_bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


IMAGE = as_bytes({"schemaVersion": 2})


class Hostile(ThreadingHTTPServer):
    """Answers by the beginning of the path below the repository; `drip` sends a byte now and then, for ever."""

    def __init__(self, answers: Mapping[str, Answer], drip: str = "") -> None:
        self.answers, self.drip, self.over = answers, drip, threading.Event()
        self.seen: list[tuple[str, str]] = []
        super().__init__(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        self.thread.start()

    def stop(self) -> None:
        self.over.set()
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Hostile

    def do_GET(self) -> None:
        path = self.path.removeprefix("/v2/a/b/")
        self.server.seen.append((path, self.headers.get("Authorization", "")))
        status, headers, data = next(
            (answer for start, answer in self.server.answers.items() if path.startswith(start)), (404, {}, b"")
        )
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value.replace("HOST", f"127.0.0.1:{self.server.server_port}"))
        dripping = bool(self.server.drip) and path.startswith(self.server.drip)
        self.send_header("Content-Length", str(10**6 if dripping else len(data)))
        self.end_headers()
        if not dripping:
            self.wfile.write(data)
        while dripping and not self.server.over.wait(0.1):
            self.wfile.write(b" ")

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def hostile() -> Iterator[Any]:
    servers: list[Hostile] = []

    def start(answers: Mapping[str, Answer], drip: str = "") -> Hostile:
        servers.append(Hostile(answers, drip))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


NOBODY = Login()


def fetch(server: Hostile, login: Login = NOBODY, seconds: float = 20) -> bytes:
    reference = parse_reference(f"127.0.0.1:{server.server_port}/a/b:1")
    platform = Platform("linux", "amd64")
    return fetch_specification(reference, platform, login, strict=False, plain_http=True, seconds=seconds)


def ok(data: bytes, **headers: str) -> Answer:
    return 200, headers, data


def listed(*digests: str, kind: str = ARTIFACT_TYPE) -> bytes:
    return as_bytes({"manifests": [{"digest": digest, "artifactType": kind} for digest in digests]})


ARTIFACT = as_bytes({"artifactType": ARTIFACT_TYPE, "layers": [{"digest": OTHER}]})
FULL = {"manifests/1": ok(IMAGE), "referrers/": ok(listed(digest_of(ARTIFACT))), "manifests/sha256": ok(ARTIFACT)}
ODD: list[tuple[str, Mapping[str, Answer], str]] = [
    ("no JSON", {"manifests/1": ok(b"<html>")}, "the answer is invalid"),
    ("deep", {"manifests/1": ok(b"[" * 10**5)}, "the answer is invalid"),
    ("a list", {"manifests/1": ok(b"[]")}, "the answer is invalid"),
    ("large", {"manifests/1": ok(b" " * (5 * 1024 * 1024))}, "the answer is larger than 4096 KiB"),
    ("no digest", {"manifests/1": ok(as_bytes({"manifests": [{"digest": "../../x"}]}))}, "manifests.0.digest"),
    ("wrong digest", FULL | {"manifests/sha256": ok(b"{}")}, "the content does not have the digest"),
    ("wrong layer", FULL | {"blobs/": ok(b"x")}, f"the content does not have the digest {OTHER}"),
    ("large layer", FULL | {"blobs/": ok(b" " * (2 * 1024 * 1024))}, "the answer is larger than 1024 KiB"),
    ("no layer there", FULL, f"{OTHER} is listed but missing"),
    ("server error", {"manifests/1": (503, {}, b"x")}, "status 503"),
    (
        "told",
        {"manifests/1": (403, {}, as_bytes({"errors": [{"code": "DENIED", "message": "m" * 9999}]}))},
        "status 403, DENIED: mmm",
    ),
    ("odd errors", {"manifests/1": (403, {}, as_bytes({"errors": {"a": 1}}))}, "status 403"),
    ("circle", {"": (307, {"Location": "http://HOST/v2/a/b/x"}, b"")}, "more than 5 redirects"),
    ("to files", {"": (307, {"Location": "file:///etc/passwd"}, b"")}, "file:///etc/passwd"),
    (
        "page elsewhere",
        {"manifests/1": ok(IMAGE), "referrers/": ok(listed(), Link='<http://example.invalid/x>; rel="next"')},
        "it points to another place",
    ),
    ("no known log-in", {"": (401, {"WWW-Authenticate": "Negotiate"}, b"")}, "it wants a log-in; by no way known here"),
    ("realm is a file", {"": (401, {"WWW-Authenticate": 'Bearer realm="file:///x"'}, b"")}, "it sends to 'file:///x'"),
    ("no realm", {"": (401, {"WWW-Authenticate": "Bearer"}, b"")}, "it sends to ''"),
    (
        "odd token",
        {"v2/token": ok(b"[1]"), "": (401, {"WWW-Authenticate": 'Bearer realm="http://HOST/v2/a/b/v2/token"'}, b"")},
        "the answer has no token",
    ),
    (
        "token with a line end",
        {
            "v2/token": ok(as_bytes({"token": "a\r\nX: y"})),
            "": (401, {"WWW-Authenticate": 'Bearer realm="http://HOST/v2/a/b/v2/token"'}, b""),
        },
        "the answer has no token",
    ),
]


@pytest.mark.parametrize(("answers", "said"), [one[1:] for one in ODD], ids=[one[0] for one in ODD])
def test_odd_answers(hostile: Any, answers: Mapping[str, Answer], said: str) -> None:
    with pytest.raises(NfdError) as caught:
        fetch(hostile(answers))
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("status", [400, 404, 405, 501])
def test_no_referrers_api_however_it_is_said(hostile: Any, status: int) -> None:
    """The tag that stands in for it; of several pages all."""
    artifact = as_bytes({"artifactType": ARTIFACT_TYPE, "layers": [{"digest": digest_of(b"x")}]})
    tag = f"manifests/{digest_of(IMAGE).replace(':', '-')}"
    link = '</v2/a/b/none>; rel="first", </v2/a/b/two?a=1,2>; rel="next"'
    pages = {tag: ok(listed(), Link=link), "two?a=1,2": ok(listed(digest_of(artifact)))}
    answers = {"manifests/1": ok(IMAGE), "referrers/": (status, {}, b"x"), **pages}
    found = {"manifests/sha256:": ok(artifact), "blobs/": ok(b"x")}
    assert fetch(hostile(answers | found)) == b"x"


def test_pages_without_end_end(hostile: Any) -> None:
    pages = {"manifests/1": ok(IMAGE), "": ok(listed(), Link="</v2/a/b/more>; rel=next")}
    with pytest.raises(NfdError, match="no compatibility artifact"):
        fetch(server := hostile(pages))
    assert len(server.seen) < 60


def test_many_artifacts_are_not_all_read(hostile: Any) -> None:
    """Of a list that is too long the rest is passed over."""
    other = as_bytes({"artifactType": "other"})
    answers = {"referrers/": ok(listed(*[digest_of(other)] * 500, kind="")), "manifests/sha256": ok(other)}
    with pytest.raises(NfdError, match="no compatibility artifact"):
        fetch(server := hostile({"manifests/1": ok(IMAGE)} | answers))
    assert len(server.seen) < 60


@pytest.mark.parametrize("slow", ["manifests/1", "referrers/", "blobs/"])
def test_a_slow_one_has_its_time(hostile: Any, slow: str) -> None:
    start = time.monotonic()
    with pytest.raises(NfdError, match="took more than 1 s"):
        fetch(hostile(FULL, slow), seconds=1)
    assert time.monotonic() - start < 100


def test_a_password_does_not_follow_to_another_server(hostile: Any) -> None:
    """Neither does a token."""
    there = hostile({})
    here = hostile({"": (307, {"Location": f"http://127.0.0.1:{there.server_port}/v2/a/b/x"}, b"")})
    with pytest.raises(NfdError, match="no such image"):
        fetch(here, Login(token="secret"))
    assert here.seen == [("manifests/1", "Bearer secret")]
    assert there.seen == [("x", "")]


IMAGES = {
    "localhost:5000/a/b": ("localhost:5000", "a/b", "latest"),
    "docker.io/library/x:1": ("docker.io", "library/x", "1"),
    f"[::1]:5000/x:1@{OTHER}": ("[::1]:5000", "x", OTHER),
}


def test_references() -> None:
    for text, parts in IMAGES.items():
        found = parse_reference(text)
        assert (found.registry, found.repository, found.name) == parts
    assert parse_reference("docker.io/x").host == "registry-1.docker.io"
    for odd in (
        "",
        "x",
        "h/",
        "h/X",
        "h/a:",
        "h/a:b:c",
        "h/a@sha256:0",
        "h/a b",
        "u@h/a",
        "h/a/../b",
        "h/a?x=1",
        "é/a",
    ):
        with pytest.raises(ConfigError, match="--image"):
            parse_reference(odd)


def test_platforms() -> None:
    assert str(parse_platform("linux", "aarch64")) == "linux/arm64"
    assert str(parse_platform("linux/arm/v7:1", "x86_64")) == "linux/arm/v7:1"
    for odd in ("", "/", "a/b/c/d", "linux/"):
        with pytest.raises(ConfigError, match="--platform"):
            parse_platform(odd, "x86_64")


def test_challenges() -> None:
    told = ['Basic realm="a, b", Bearer realm="https://x/t?y=1",service=z , scope="a:b:c"', "Negotiate"]
    found = parse_challenges(told)
    assert found["basic"] == {"realm": "a, b"}
    assert found["bearer"] == {"realm": "https://x/t?y=1", "service": "z", "scope": "a:b:c"}
    start = time.monotonic()
    for odd in ("a=" * 9999, "x " * 9999, 'x a="' * 9999, "x a=b" + " " * 9999 + "!", "x " + "a=b " * 9999):
        parse_challenges([odd])
    assert time.monotonic() - start < 10
