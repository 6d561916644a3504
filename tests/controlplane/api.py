"""Plain JSON requests to the API server, with no client library between a test and what the server says."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"


class ApiError(Exception):
    """The server answered with an error: `status` is the HTTP status, `message` what it said."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


@dataclass(frozen=True)
class Api:
    """One server on loopback. `http.client` knows no proxies, and each request has a connection of its own."""

    port: int
    ca_file: Path
    timeout: float = 30

    def text(
        self, method: str, path: str, token: str, body: Json | None = None, content_type: str | None = None
    ) -> str:
        """The body of the answer.

        Raises: ApiError for a status of 400 and above, OSError if nobody answers.
        """
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, */*"}
        if body is not None:
            headers["Content-Type"] = content_type or (MERGE_PATCH if method == "PATCH" else "application/json")
        trust = ssl.create_default_context(cafile=str(self.ca_file))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=self.timeout, context=trust)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 400:
            raise ApiError(answer.status, error_message(text))
        return text


def error_message(text: str) -> str:
    """The message of a Status object; the text itself where a handler answers with bare text."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, LookupError, TypeError):
        return text.strip()
