"""The kubelet's configuration: its topology manager's policy and scope.

From a file, or from the kubelet's own endpoint `/configz` (KubeletConfiguration kubelet.config.k8s.io/v1beta1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from nfd.config.load import read_file
from nfd.config.yamltext import parse
from nfd.errors import ConfigError, HostError

PORT = 10250
DEADLINE = 20.0
"""Seconds for one answer."""
POLICY, SCOPE = "none", "container"
"""Kubernetes' defaults."""
LARGEST = 1024 * 1024
"""Bytes of an answer."""


@dataclass(frozen=True, slots=True)
class Manager:
    """The topology manager as the kubelet is configured to run it."""

    policy: str
    scope: str


def check_uri(uri: str) -> str:
    """Raises: ValueError for what is neither https://… nor file:///…."""
    parts = urlsplit(uri)
    if (parts.scheme == "https" and parts.hostname) or (parts.scheme == "file" and parts.path and not parts.netloc):
        return uri
    raise ValueError(f"{uri!r} must be https://HOST[:PORT]/PATH or file:///PATH")


def default_uri(address: str) -> str:
    """Of a kubelet at that address; "" if there is none."""
    host = f"[{address}]" if ":" in address and not address.startswith("[") else address
    return f"https://{host}:{PORT}/configz" if address else ""


async def read_manager(uri: str, token_file: str) -> Manager:
    """Raises: HostError."""
    if uri.startswith("file:"):
        path = unquote(urlsplit(uri).path)
        return manager_of(await asyncio.to_thread(_read_file, path), path)
    token = (await asyncio.to_thread(_read, token_file)).decode("utf-8", "replace").strip()
    document = _parsed(await _fetch(uri, token), uri)
    wrapped = document.get("kubeletconfig") if isinstance(document, Mapping) else None
    if not isinstance(wrapped, Mapping):
        raise HostError(uri, "the answer has no kubeletconfig")
    return manager_of(wrapped, uri)


def manager_of(config: Any, place: str) -> Manager:
    """Raises: HostError for what is not a KubeletConfiguration."""
    if not isinstance(config, Mapping):
        raise HostError(place, "is not a KubeletConfiguration")
    policy, scope = config.get("topologyManagerPolicy"), config.get("topologyManagerScope")
    for text in (policy, scope):
        if text is not None and not isinstance(text, str):
            raise HostError(place, f"{text!r} is not a policy or scope of the topology manager")
    return Manager(policy or POLICY, scope or SCOPE)


async def _fetch(uri: str, token: str) -> bytes:
    """The kubelet's serving certificate is one of its own making as a rule, so it is not checked; NFD does the same."""
    import aiohttp

    limit = aiohttp.ClientTimeout(total=DEADLINE)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, trust_env=False) as session,
            session.get(
                uri, ssl=False, allow_redirects=False, headers={"Authorization": f"Bearer {token}"}
            ) as response,
        ):
            if response.status != 200:
                raise HostError(uri, f"answers {response.status}")
            body = await response.content.read(LARGEST + 1)
            while len(body) <= LARGEST and (part := await response.content.read(LARGEST + 1 - len(body))):
                body += part
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        raise HostError(uri, str(error) or type(error).__name__) from error
    if len(body) > LARGEST:
        raise HostError(uri, f"the answer has more than {LARGEST} bytes")
    return body


def _read_file(path: str) -> Any:
    return _parsed(_read(path), path)


def _read(path: str) -> bytes:
    try:
        return read_file(path)
    except (ConfigError, OSError) as error:
        raise HostError(path, str(error).removeprefix(f"{path}: ")) from error


def _parsed(text: bytes, place: str) -> Any:
    """JSON is YAML."""
    try:
        return parse(text, place).data
    except ConfigError as error:
        raise HostError(place, str(error).removeprefix(f"{place}: ")) from error
