"""Automatic certificates: an authority in a Secret, and its bundle in a ConfigMap for workers.

Every replica makes its own key and a certificate for a day, in memory only. Any replica may update Secret and
ConfigMap; both are installed empty. A write that loses a race is dropped, and the objects are read again. An authority
is replaced in three steps: the new one is added to the bundle, it signs after the workers' volumes have it, and the old
one is removed when the last certificate that it signed has ended.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from nfd.errors import KubeError
from nfd.kube.client import KubeClient, retry_on_conflict
from nfd.kube.informer import ObjectInformer
from nfd.kube.paths import CONFIG_MAPS, SECRETS, in_namespace
from nfd.master.security.authority import (
    Authority,
    Leaf,
    Lifetimes,
    bundle,
    choose_signer,
    issue,
    plan_authorities,
    read_authorities,
    write_authorities,
)
from nfd.master.security.proof_key import ENTRY
from nfd.report_request import ENTRY as EPOCH
from nfd.rpc.tls import Pem
from nfd.runtime import log, tasks

BUNDLE = "ca.crt"
"""Entry of the bundle in the ConfigMap: the file that workers mount."""
PUBLISHED = "nfd.node.kubernetes.io/ca-published"
"""Annotation of the ConfigMap: when its newest certificate was added, in seconds since the epoch."""
BACKOFF = (0.2, 30.0)

_log = log.get("master")


class Certificates:
    """A `ServerTls` for these names. Call `start` before `read`.

    Times are of the API server's clock, so that a master whose own clock is wrong replaces no authority; unless `now`
    gives another one.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        names: Sequence[str],
        timing: Lifetimes | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._client = client
        self._secret = ObjectInformer(client, in_namespace(SECRETS, namespace), name)
        self._config_map = ObjectInformer(client, in_namespace(CONFIG_MAPS, namespace), name)
        self._names = names
        self._timing = timing or Lifetimes()
        self._now = now or client.server_time.now
        self._signer: Authority | None = None
        self._leaf: Leaf | None = None
        self._bundle = b""
        self._tasks: list[asyncio.Task[None]] = []

    def read(self) -> Pem:
        """The current certificate and key."""
        leaf = self._leaf
        if leaf is None:
            raise OSError("there is no certificate yet")
        return Pem(cert=leaf.certificate, key=leaf.key, masters_ca=self._bundle)

    async def start(self) -> None:
        """Get the first certificate, however long that takes, and then renew it.

        An error in a round is retried: its cause may end.
        """
        delay = BACKOFF[0]
        while not await tasks.attempt("certificates", self._look()):
            await asyncio.sleep(delay * random.uniform(1.0, 1.25))
            delay = min(delay * 2, BACKOFF[1])
        self._tasks = [
            tasks.start("certificates", self._run),
            tasks.start("watch of the Secret", self._secret.run),
            tasks.start("watch of the ConfigMap", self._config_map.run),
        ]

    async def stop(self) -> None:
        """Stop renewing; the current certificate stays in use."""
        await tasks.cancel(self._tasks)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._timing.interval)
            await self._look()

    async def _look(self) -> bool:
        """One round, repeated while races are lost. Returns False if the API server failed; known data are used
        then."""
        try:
            self._signer = await retry_on_conflict(self.advance)
        except (KubeError, ValueError) as error:
            _log.warning("cannot renew certificates", path=self._secret.path, error=error)
        if self._signer is not None:
            self._renew(self._signer)
        return self._signer is not None

    async def advance(self, *, fresh: bool = False) -> Authority:
        """Bring Secret and ConfigMap to their desired state. Returns the authority that signs.

        The informers' copies show whether anything is to be done. Before a write, or with `fresh`, both are read again.

        Raises: KubeError; Conflict if another replica was faster.
        """
        secret, config_map = await self._secret.read(fresh=fresh), await self._config_map.read(fresh=fresh)
        known, published = read_authorities(_decode(secret)), _published(config_map)
        if not known or not _holds(config_map, known[-1]):
            published = None
        wanted = plan_authorities(known, published, self._now(), self._timing)
        trusted = bundle(wanted)
        settled = wanted == known and published is not None and _data(config_map).get(BUNDLE) == trusted
        if not settled and not fresh:
            return await self.advance(fresh=True)
        if wanted != known:
            kept = {key: value for key, value in _data(secret).items() if key == ENTRY}
            made = {key: base64.b64encode(value).decode() for key, value in write_authorities(wanted).items()}
            secret["data"] = kept | made
            await self._client.json("PUT", self._secret.path, secret)
            _log.info("certificate authorities changed", written=len(wanted), removed=len(set(known) - set(wanted)))
        if published is None or not _holds(config_map, wanted[-1]):
            published = self._now()
        if _data(config_map).get(BUNDLE) != trusted or _published(config_map) != published:
            kept = {key: value for key, value in _data(config_map).items() if key == EPOCH}
            config_map["data"] = kept | {BUNDLE: trusted}
            notes = config_map.setdefault("metadata", {}).get("annotations") or {}
            config_map["metadata"]["annotations"] = notes | {PUBLISHED: f"{published:.3f}"}
            await self._client.json("PUT", self._config_map.path, config_map)
        self._bundle = trusted.encode()
        return choose_signer(wanted, published, self._now(), self._timing)

    def _renew(self, signer: Authority) -> None:
        """Make a new certificate when another authority signs, or half of the current one's life is over."""
        leaf, now = self._leaf, self._now()
        if leaf is None or leaf.signer != signer.name or now >= leaf.made + self._timing.leaf / 2:
            self._leaf = issue(signer, self._names, now, self._timing)
            _log.info("certificate renewed", path=self._secret.path, seconds=self._timing.leaf)


def _data(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of a Secret or ConfigMap; {} without any."""
    return item.get("data") or {}


def _decode(secret: Mapping[str, Any]) -> dict[str, bytes]:
    """The Secret's data; values that are not base64 are ignored."""
    found = {}
    for key, value in _data(secret).items():
        with suppress(binascii.Error, ValueError):
            found[key] = base64.b64decode(str(value))
    return found


def _holds(config_map: Mapping[str, Any], authority: Authority) -> bool:
    return authority.certificate.decode() in str(_data(config_map).get(BUNDLE, ""))


def _published(config_map: Mapping[str, Any]) -> float | None:
    notes = (config_map.get("metadata") or {}).get("annotations") or {}
    try:
        published = float(notes[PUBLISHED])
    except (KeyError, ValueError):
        return None
    return published if math.isfinite(published) else None
