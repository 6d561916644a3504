"""Reads the reports of all workers from the leading master, at `/reports` (`--master URL`)."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from nfd.config.named_files import read_bytes
from nfd.errors import ConfigError, KubeError
from nfd.kube.client import KubeClient
from nfd.master.http.reports_api import PATH, MasterState, TimedReport, parse_line, parse_state

_FORWARD = (
    'kubectl -n NAMESPACE port-forward "$(kubectl -n NAMESPACE get deployment -l role=master -o name)" 8081, '
    "to a master with --serve-reports"
)


async def read_reports(client: KubeClient, args: Namespace) -> tuple[dict[str, TimedReport], MasterState]:
    """All reports from --master, and the state of the master. Raises: ConfigError, KubeError."""
    url, token = args.master, await _authorization(client, args.token_file)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError(f"--master {url}: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"--master {url}: must be http://HOST:PORT or https://HOST:PORT")
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ConfigError(f"--master {url}: a token is never sent in plain text; use {_FORWARD}")
    headers = {"Authorization": token} if token else {}
    limit = aiohttp.ClientTimeout(sock_connect=10.0, sock_read=30.0)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, read_bufsize=2**26) as session,
            session.get(f"{url.rstrip('/')}{PATH}", headers=headers, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise KubeError(f"--master {url}: {_reason(response.status, await response.text())}")
            return _parse(await response.read())
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise KubeError(f"--master {url}: {error or type(error).__name__}; use {_FORWARD}") from error


def _reason(status: int, text: str) -> str:
    if status == 404:
        return "the master does not serve reports; start it with --serve-reports"
    return " ".join(text.split())[:500] or f"status {status}"


def _parse(data: bytes) -> tuple[dict[str, TimedReport], MasterState]:
    """Parse the answer. Raises: ValueError if it is invalid."""
    first, *rest = data.splitlines()
    contents: dict[int, Any] = {}
    try:
        state = parse_state(json.loads(first)["settings"])
        found = [reported for line in rest if (reported := parse_line(json.loads(line), contents)) is not None]
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"the answer is invalid: {error}") from error
    return {reported.report.node: reported for reported in found}, state


async def _authorization(client: KubeClient, token_file: str | None) -> str:
    """The token in the file, else that of the kubeconfig."""
    if token_file:
        try:
            return f"Bearer {read_bytes(token_file, pipes=True).decode().strip()}"
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--token-file {token_file}: {getattr(error, 'strerror', None) or error}") from error
    settings: Mapping[str, Any] = await client.api.configuration.auth_settings()
    return next((str(one["value"]) for one in settings.values() if str(one["value"]).startswith("Bearer ")), "")
