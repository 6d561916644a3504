"""Reports as another master or a snapshot keeps them ↔ `Copies` messages.

What alike nodes have in common is a content: labels, annotations and most features. Contents and features are sent
once, under their digests, for as long as a copy that was sent uses them. Encoder and decoder count these uses alike,
so neither keeps more than the latest copies need. A feature belongs to a content if two nodes have the same one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from nfd.features import Features
from nfd.report import Report
from nfd.report_order import Order
from nfd.rpc import convert
from nfd.rpc import labeler_pb2 as pb
from nfd.rpc.convert import Content, digest, from_blob, parse, text, texts, to_blob, to_set
from nfd.runtime.cache import LruCache

KNOWN_FEATURES = 4096
KNOWN_CONTENTS = 256
"""The features and contents whose digests are kept."""
LARGE = 512 * 1024
MOST = 64
"""Bytes, and copies, after which a message is sent: encoding so many takes 10 ms."""
EACH = 200
"""Bytes of a copy, about, without what it has in common with others."""
Refs = tuple[tuple[str, bytes], ...]
"""Name and digest of features."""


class Part(NamedTuple):
    """A feature and the bytes of its blob."""

    content: Content
    size: int


class Copy(NamedTuple):
    """A report, the uid of the Node for which it was accepted, and its features by digest where that is known."""

    report: Report
    uid: str
    parts: Mapping[bytes, Part] = MappingProxyType({})


@dataclass(slots=True)
class _Feature:
    """`node` is the first one with this feature. The content is kept, so that its id stays its own."""

    content: Content
    digest: bytes
    node: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class _Content:
    """`values` are kept, so that their ids stay their own."""

    values: tuple[object, ...]
    digest: bytes
    refs: Refs


class Digests:
    """Digests of features and contents by identity; equal values of alike nodes are the same objects."""

    def __init__(self) -> None:
        self._features = LruCache[int, _Feature](KNOWN_FEATURES)
        self._contents = LruCache[tuple[object, ...], _Content](KNOWN_CONTENTS)

    def split(self, node: str, features: Features) -> tuple[Refs, Refs, dict[bytes, Content]]:
        """Features that other nodes have as well, those of this node alone, and all of them by digest."""
        shared: list[tuple[str, bytes]] = []
        own: list[tuple[str, bytes]] = []
        found = {}
        contents: Iterable[tuple[str, Content]] = chain(
            features.flags.items(), features.attributes.items(), features.instances.items()
        )
        for name, content in contents:
            one = self._feature(node, content)
            (shared if one.shared else own).append((text(name), one.digest))
            found[one.digest] = content
        return tuple(shared), tuple(own), found

    def content(self, report: Report, refs: Refs, *, sources: bool) -> _Content:
        """What the report has in common with others; without its sources if their state is its own."""
        states = report.sources if sources else None
        values = (report.labels, report.annotations, report.origins, states, report.version, refs)
        key = (*map(id, values[:4]), report.version, refs)
        if (known := self._contents.get(key)) is None:
            known = _Content(values, digest(encode_content(report, refs, sources=sources)), refs)
        self._contents.put(key, known)
        return known

    def _feature(self, node: str, content: Content) -> _Feature:
        if (known := self._features.get(id(content))) is None:
            known = _Feature(content, digest(to_blob(to_set(content))), node)
            self._features.put(id(content), known)
            return known
        if known.node != node:
            known.shared = True
        self._features.move_to_end(id(content))
        return known


def encode_content(report: Report, refs: Refs, *, sources: bool) -> bytes:
    message = pb.ReportRequest(
        version=text(report.version),
        labels=texts(report.labels),
        annotations=texts(report.annotations),
        origins=texts(report.origins),
        features=[pb.FeatureRef(name=name, digest=key) for name, key in refs],
    )
    if sources:
        for name, state in report.sources.items():
            message.sources[text(name)].CopyFrom(convert.encode_state(state))
    return message.SerializeToString(deterministic=True)


@dataclass(slots=True)
class Uses:
    """How many nodes' latest copies, or latest reports, use each digest."""

    nodes: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    users: dict[bytes, int] = field(default_factory=dict)

    def replace(self, node: str, keys: tuple[bytes, ...]) -> list[bytes]:
        """The node's latest copy uses `keys`. Returns the digests that no copy uses any more."""
        before = self.nodes.get(node, ())
        self.nodes[node] = keys
        self.acquire(keys)
        return self.release(before)

    def forget(self, node: str) -> list[bytes]:
        """There is no copy of the node any more. Returns as `replace`."""
        return self.release(self.nodes.pop(node, ()))

    def acquire(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self.users[key] = self.users.get(key, 0) + 1

    def release(self, keys: Iterable[bytes]) -> list[bytes]:
        gone = []
        for key in keys:
            if left := self.users[key] - 1:
                self.users[key] = left
            else:
                del self.users[key]
                gone.append(key)
        return gone


class Encoder:
    """Encodes copies for one receiver, which decodes all messages in order."""

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._uses = Uses()
        self._refs: dict[bytes, Refs] = {}
        self.number = 0
        """That of the last message."""

    def encode(self, copies: Iterator[Copy], *, complete: bool = False) -> bytes:
        """The next message, with as many of the copies as it has room for."""
        self.number += 1
        message, size = pb.Copies(number=self.number), 0
        if complete:
            message.complete = True
        while size < LARGE and len(message.copies) < MOST and (one := next(copies, None)) is not None:
            size += self._add(message, one)
        return message.SerializeToString()

    def _add(self, message: pb.Copies, one: Copy) -> int:
        """Add a copy and what the receiver lacks. Returns the bytes, about."""
        report, users = one.report, self._uses.users
        shared, own, features = self._digests.split(report.node, report.features)
        shared_sources = not any(state.since for state in report.sources.values())
        content = self._digests.content(report, shared, sources=shared_sources)
        brought = []
        if content.digest not in users:
            brought.append(encode_content(report, shared, sources=shared_sources))
            message.contents.append(brought[0])
        keys = dict.fromkeys(key for _, key in (*shared, *own))
        blobs = [to_blob(to_set(features[key])) for key in keys if key not in users]
        message.blobs.extend(blobs)
        if content.digest not in users:
            self._refs[content.digest] = shared
            self._uses.acquire(key for _, key in shared)
        for key in self._uses.replace(report.node, (content.digest, *(key for _, key in own))):
            if (refs := self._refs.pop(key, None)) is not None:
                self._uses.release(key for _, key in refs)
        _fill(message.copies.add(content=content.digest), one, own, sources=not shared_sources)
        return EACH + sum(map(len, (*brought, *blobs)))


def _fill(copy: pb.Copy, one: Copy, own: Refs, *, sources: bool) -> None:
    report = one.report
    copy.node_name, copy.node_uid, copy.uid = text(report.node), text(report.node_uid), text(one.uid)
    for name, key in own:
        copy.features.add(name=name, digest=key)
    if sources:
        for name, state in report.sources.items():
            copy.sources[text(name)].CopyFrom(convert.encode_state(state))
    if (order := report.order) is not None:
        copy.order.CopyFrom(pb.Order(boot_id=order.boot_id, started=order.started, sequence=order.sequence))
        copy.pod, copy.issued = text(order.pod), order.issued


class Message(NamedTuple):
    """One decoded message. `complete` says that every report was sent, `unusable` counts copies left out."""

    number: int
    copies: list[Copy]
    complete: bool
    unusable: int


class Decoder:
    """Decodes the messages of one encoder. `known` gives features that are in memory already, by digest."""

    def __init__(self, known: Callable[[bytes], Content | None] = lambda key: None) -> None:
        self._known = known
        self._parts: dict[bytes, Part] = {}
        self._contents: dict[bytes, convert.Incoming] = {}
        self._uses = Uses()

    def decode(self, data: bytes) -> Message:
        """A copy with something invalid is left out. Raises: ValueError for what is no message of this kind."""
        message = parse(pb.Copies, data)
        parts, fresh = dict(self._blobs(message.blobs)), dict(_contents(message.contents))
        copies, unusable = [], 0
        for one in message.copies:
            try:
                copies.append(self._copy(one, parts, fresh))
            except ValueError:
                unusable += 1
        return Message(message.number, copies, message.complete, unusable)

    def _blobs(self, blobs: Iterable[bytes]) -> Iterator[tuple[bytes, Part]]:
        for blob in blobs:
            key = digest(blob)
            with suppress(ValueError):
                yield key, Part(self._known(key) or from_blob(blob), len(blob))

    def _copy(self, message: pb.Copy, parts: dict[bytes, Part], fresh: Mapping[bytes, convert.Incoming]) -> Copy:
        """Raises: ValueError, also if a part of it is not known."""
        own = convert.decode_refs(message.features)
        content = self._contents.get(message.content) or fresh.get(message.content)
        refs = (*(content.refs if content is not None else ()), *own)
        found = {key: part for _, key in refs if (part := self._parts.get(key) or parts.get(key)) is not None}
        if content is not None and message.content not in self._contents:
            self._contents[message.content] = content
            self._uses.acquire(key for _, key in content.refs)
        self._parts |= found
        self._replace(message.node_name, (message.content, *(key for _, key in own)))
        if content is None or len(found) < len({key for _, key in refs}):
            raise ValueError("a part of the report was not sent")
        report = replace(
            content.report,
            node=convert.decode_node_name(message.node_name),
            node_uid=convert.word(message.node_uid, "node uid"),
            order=_order(message),
            sources=convert.decode_sources(message.sources) or content.report.sources,
        )
        report = convert.complete(report, ((name, found[key].content) for name, key in refs))
        return Copy(report, convert.word(message.uid, "uid"), found)

    def _replace(self, node: str, keys: tuple[bytes, ...]) -> None:
        gone = self._uses.replace(node, keys)
        for key in gone:
            if (content := self._contents.pop(key, None)) is not None:
                gone.extend(self._uses.release(key for _, key in content.refs))
            self._parts.pop(key, None)


def _contents(found: Iterable[bytes]) -> Iterator[tuple[bytes, convert.Incoming]]:
    for content in found:
        with suppress(ValueError):
            yield digest(content), convert.decode(content, content=True)


def _order(message: pb.Copy) -> Order | None:
    if not message.HasField("order"):
        return None
    issued = message.issued if math.isfinite(message.issued) and message.issued > 0 else 0.0
    return replace(convert.decode_order(message.order), pod=convert.word(message.pod, "pod"), issued=issued)


def encode_received(number: int) -> bytes:
    """The answer to message `number`."""
    return pb.ReplicateRequest(received=number).SerializeToString()


def decode_received(data: bytes) -> int:
    """Raises: ValueError."""
    return parse(pb.ReplicateRequest, data).received
