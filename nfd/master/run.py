"""Runs `nfd-master`, or removes everything that it manages from the Nodes (`--prune`)."""

from __future__ import annotations

import asyncio
import gc

from nfd.config.flags import Parsed
from nfd.master.app import Master, Signature, open_master, open_store, options_of, signature
from nfd.master.config import Config
from nfd.master.node.prune import prune
from nfd.runtime import log, tasks
from nfd.runtime.ports import raise_descriptors
from nfd.runtime.stdout import say
from nfd.runtime.tasks import Asked
from nfd.store.base import Kind

__all__ = ["remove_all", "serve", "signature"]
GARBAGE = (20_000, 20, 20)
"""Thresholds of Python's garbage collector: it runs seldom and skips objects of the start, since a report leaves hardly
any cycles."""
_log = log.get("master")


async def serve(config: Config, parsed: Parsed, mode: str, seen: Signature, asked: Asked) -> None:
    raise_descriptors()
    master = await tasks.unless(asked.stop, open_master(config, parsed, mode))
    if master is None:
        return
    try:
        await tasks.first_of(_work(master, asked.hangup, seen), asked.stop.wait())
    finally:
        await master.service.stop()


async def _work(master: Master, hangup: asyncio.Event, seen: Signature) -> None:
    """Until cancelled. Raises: NfdError, OSError if the start fails."""
    await master.service.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    await tasks.supervised("configuration", lambda: master.follow(hangup, seen))


async def remove_all(config: Config, parsed: Parsed) -> None:
    """Print each key as `NODE KIND KEY` when it is removed, or with --dry-run would be."""
    if config.no_publish:
        return
    store, proof, secret = await open_store(config, parsed)
    policy = options_of(config, parsed).settings.policy
    try:
        await store.start(lambda name: None)
        async for planned in prune(store, parsed["instance"], policy, proof, dry_run=parsed["dry-run"]):
            for kind, key in sorted(planned.left):
                _log.warning(
                    "key stays: not proven to be managed by nfd",
                    node=planned.node.name,
                    kind=kind,
                    label=key,
                )
            keys = [(kind, key) for kind, change in planned.changes.items() for key in sorted(change.remove)]
            for kind, key in [*keys, *((Kind.ANNOTATIONS, key) for key in sorted(planned.forgotten))]:
                say(f"{planned.node.name} {kind} {key}")
            for name in sorted(planned.conditions):
                say(f"{planned.node.name} conditions {name}")
        if secret is not None and parsed["delete-secret"] and not parsed["dry-run"]:
            await secret.delete()
    finally:
        await store.close()
