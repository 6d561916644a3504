"""A token service as registries name one ("Token Authentication Specification" of the CNCF registry)."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

SERVICE, ISSUER, KEY_ID = "registry", "tests", "one"
USER, PASSWORD = "robot", "pässword"
BCRYPT = "$2b$05$abcdefghijklmnopqrstuucZGbUxuMlEqps0qcu2pjhO7vaatQZIC"
"""Of the password, as htpasswd files have it."""


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Tokens:
    """Signs tokens; `config` is what the registry must know."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        numbers = self._key.public_key().public_numbers()
        point = {"x": encode(numbers.x.to_bytes(32)), "y": encode(numbers.y.to_bytes(32))}
        key = {"kty": "EC", "crv": "P-256", "kid": KEY_ID, "alg": "ES256", "use": "sig", **point}
        self._jwks = folder / "jwks.json"
        self._jwks.write_text(json.dumps({"keys": [key]}))
        self.asked: list[Mapping[str, list[str]]] = []
        """Queries, in order."""

    def config(self, realm: str) -> dict[str, Any]:
        return {"auth": {"token": {"realm": realm, "service": SERVICE, "issuer": ISSUER, "jwks": str(self._jwks)}}}

    def sign(self, *actions: str, repository: str) -> str:
        now = int(time.time())
        access = [{"type": "repository", "name": repository, "actions": list(actions)}]
        claims = {"iss": ISSUER, "sub": USER, "aud": SERVICE, "exp": now + 300, "nbf": now - 5, "access": access}
        head = {"alg": "ES256", "typ": "JWT", "kid": KEY_ID}
        text = ".".join(encode(json.dumps(part).encode()) for part in (head, claims))
        r, s = utils.decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{encode(r.to_bytes(32) + s.to_bytes(32))}"

    @contextmanager
    def serving(self) -> Iterator[str]:
        """The realm: tokens for who knows the password."""
        tokens = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
                query = parse_qs(urlsplit(self.path).query)
                tokens.asked.append(query)
                _, name, actions = query["scope"][0].split(":")
                good = self.headers["Authorization"] == wanted
                told = {"token": tokens.sign(*actions.split(","), repository=name)} if good else {}
                body = json.dumps(told).encode()
                self.send_response(200 if good else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
