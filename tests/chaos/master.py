"""nfd-master as a run starts it: `python -m tests.chaos.master FLAG…`, with variables for its place and its release.

It listens on 127.0.0.1 alone, since the address that it gives to others is that of a relay on the same port. It copies
the leader's reports through the relay at CHAOS_STREAM. CHAOS_RELEASE is one of `RELEASES`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

import nfd
from nfd.runtime.signals import begin

THIS, OLDER, NEWER = "this", "older", "newer"
RELEASES = (OLDER, THIS, NEWER)
"""One minor release before, the code as it is, and one after.

The older one knows neither --replication-token-file nor --snapshot-file: it answers UNIMPLEMENTED to followers, copies
nothing and keeps no file. Messages of the newer one have fields that this release does not know, and its snapshots have
another first line. The version is no part of the protocol otherwise.
"""
HOST = "127.0.0.1"
LATER_FLAGS = ("replication-token-file", "snapshot-file")
LATER_FIELDS = b"\xe8\x04\x01" + b"\x82\x7d\x05later"
"""Fields 77 and 2000 of any protobuf message, a number and a text."""
LATER_SNAPSHOT = b"nfd-master reports 2\n"


def main() -> int:
    begin()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    release = os.environ["CHAOS_RELEASE"]
    nfd.__dict__["__version__"] = version_of(release)
    _place(os.environ["CHAOS_STREAM"])
    if release == NEWER:
        _speak_later_protocol()
    if release == OLDER:
        sys.argv[1:] = known_before(sys.argv[1:])
    from nfd.master.__main__ import main as master

    return master()


def version_of(release: str, current: str = nfd.__version__) -> str:
    """The version that a master of that release names."""
    if release == THIS:
        return current
    major, minor = map(int, current.split(".")[:2])
    if release == NEWER:
        return f"{major}.{minor + 1}.0"
    return f"{major}.{minor - 1}.0" if minor else f"{major - 1}.9.0"


def known_before(words: Sequence[str]) -> list[str]:
    """The flags without those that the older release does not know."""
    return [word for word in words if word.lstrip("-").partition("=")[0] not in LATER_FLAGS]


def _place(stream: str) -> None:
    """Where it listens, and through what it reaches the leader's stream."""
    from nfd.master import app
    from nfd.master.reports import receive_copies
    from nfd.rpc.master_calls import replicate

    options_of = app.options_of

    def on_loopback(*given: Any) -> Any:
        return replace(options_of(*given), host=HOST)

    @asynccontextmanager
    async def through_relay(leader: str, *rest: Any) -> AsyncIterator[Any]:
        async with replicate(stream, *rest) as found:
            yield found

    _replace(app, options_of=on_loopback)
    _replace(receive_copies, replicate=through_relay)


def _speak_later_protocol() -> None:
    """Every message between masters, and every part of one that has fields of its own, has some more."""
    from nfd.master.reports import send_copies, snapshot
    from nfd.rpc import master_calls, replication_messages

    fill: Callable[..., None] = replication_messages._fill
    encode_content: Callable[..., bytes] = replication_messages.encode_content
    encode_received: Callable[..., bytes] = replication_messages.encode_received
    encode: Callable[..., bytes] = replication_messages.Encoder.encode

    def filled(copy: Any, *given: Any, **named: Any) -> None:
        fill(copy, *given, **named)
        copy.MergeFromString(LATER_FIELDS)

    class Encoder(replication_messages.Encoder):
        def encode(self, *given: Any, **named: Any) -> bytes:
            return encode(self, *given, **named) + LATER_FIELDS

    def content(*given: Any, **named: Any) -> bytes:
        return encode_content(*given, **named) + LATER_FIELDS

    _replace(replication_messages, _fill=filled, encode_content=content)
    _replace(master_calls, encode_received=lambda number: encode_received(number) + LATER_FIELDS)
    _replace(send_copies, Encoder=Encoder)
    _replace(snapshot, Encoder=Encoder, FORMAT=LATER_SNAPSHOT)


def _replace(module: ModuleType, **values: object) -> None:
    """Raises: AttributeError for a name that the module does not have."""
    for name, value in values.items():
        getattr(module, name)
        vars(module)[name] = value


if __name__ == "__main__":
    sys.exit(main())
