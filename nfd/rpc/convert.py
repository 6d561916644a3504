"""Reports ↔ protobuf messages. No other module sees a protobuf type.

Invalid input raises ValueError; the message says what is invalid and where.

The content of a feature is sent as a blob: a serialised `Feature` message, which is identified by its digest.
Serialisation is deterministic (map keys sorted), so equal contents have equal digests on all nodes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from nfd import names
from nfd.features import Features, Instance
from nfd.report import MAX_FEATURES, Report, SourceState, State
from nfd.report_order import Order
from nfd.rpc import labeler_pb2 as pb
from nfd.rpc.labels_for_worker import labels_for_worker
from nfd.rpc.message_size import check_blob, check_domains, check_elements, check_entries, check_plain, check_report

LONGEST_ERROR = 500
"""Characters kept of a source's error message."""
LONGEST_WORD = 253
"""Characters of an id or a version; they go into annotations and messages."""

SMALL = 64
"""Blobs of at most that many bytes are always sent: the node's own name, for example, would make every first report
need a second call."""

DIGEST_BYTES = 16

V = TypeVar("V")
M = TypeVar("M", bound=Message)

Content = frozenset[str] | Mapping[str, str] | tuple[Instance, ...]
"""The content of one feature: flags, attributes or instances."""
Set = pb.FlagFeatureSet | pb.AttributeFeatureSet | pb.InstanceFeatureSet


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A report ready to be sent. `request` contains only the small blobs; `contents` has those that its digests
    name."""

    request: bytes
    contents: Mapping[bytes, Content]

    def with_blobs(self, wanted: Iterable[bytes]) -> bytes:
        """The request with those blobs added; on the wire, repeated fields may simply be appended."""
        found = [to_blob(to_set(self.contents[one])) for one in wanted if one in self.contents]
        return self.request + pb.ReportRequest(blobs=found).SerializeToString()


class Named(NamedTuple):
    """A content with its digest, and its blob if that is small."""

    content: Content
    digest: bytes
    small: bytes | None


Digests = dict[str, Named]
"""The last encoding by feature. Encoding the kernel configuration takes as long as the rest of a report."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A report as received, without its features; `refs` lists those by name and digest."""

    report: Report
    refs: tuple[tuple[str, bytes], ...]
    blobs: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a `Report` call. If `missing` has digests, the report was not accepted."""

    heartbeat: float = 0.0
    missing: tuple[bytes, ...] = ()
    node_labels: Mapping[str, str] | None = None


def encode(report: Report, digests: Digests | None = None) -> Outgoing:
    """A report as the `Report` call sends it; `digests` of the last report are used and updated."""
    message = pb.ReportRequest(
        version=text(report.version),
        node_name=text(report.node),
        node_uid=text(report.node_uid),
        labels=texts(report.labels),
        annotations=texts(report.annotations),
        origins=texts(report.origins),
        sources={text(name): encode_state(state) for name, state in report.sources.items()},
    )
    if report.order is not None:
        order = report.order
        message.order.CopyFrom(pb.Order(boot_id=order.boot_id, started=order.started, sequence=order.sequence))
    before, features = {} if digests is None else digests, report.features
    named: list[tuple[str, Named]] = []
    contents: Iterable[tuple[str, Content]] = chain(
        features.flags.items(), features.attributes.items(), features.instances.items()
    )
    for name, content in contents:
        known = before.get(name)
        if known is None or known.content != content:
            blob = to_blob(to_set(content))
            known = Named(content, digest(blob), blob if len(blob) <= SMALL else None)
        named.append((name, known._replace(content=content)))
        message.features.add(name=text(name), digest=known.digest)
    before.clear()
    before.update(named)
    message.blobs.extend({one.digest: one.small for _, one in named if one.small is not None}.values())
    return Outgoing(message.SerializeToString(), {one.digest: one.content for _, one in named})


def decode(data: bytes, *, content: bool = False) -> Incoming:
    """A `Report` call; with `content`, what the reports of many nodes have in common: one without node and order."""
    check_report(data)
    message = parse(pb.ReportRequest, data)
    report = Report(
        node="" if content else decode_node_name(message.node_name),
        version=word(message.version, "version"),
        node_uid=word(message.node_uid, "node uid"),
        order=decode_order(message.order) if message.HasField("order") else None,
        labels=_entries(message.labels, "labels"),
        annotations=_entries(message.annotations, "annotations"),
        origins=_entries(message.origins, "origins"),
        sources=decode_sources(message.sources),
    )
    return Incoming(report, decode_refs(message.features), tuple(message.blobs))


def decode_order(message: pb.Order) -> Order:
    order = Order(word(message.boot_id, "boot id"), message.started, message.sequence)
    if problem := order.problem():
        raise ValueError(problem)
    return order


def decode_sources(found: Mapping[str, pb.SourceState]) -> dict[str, SourceState]:
    return {name: _source_state(one) for name, one in _entries(found, "sources").items()}


def decode_refs(found: Sequence[pb.FeatureRef]) -> tuple[tuple[str, bytes], ...]:
    """Names and digests of features."""
    _check_features(len(found))
    return tuple((_string(one.name, "feature"), one.digest) for one in found)


def node_name(data: bytes) -> str:
    """The node that a call of either kind is for; raises ValueError as `decode` does."""
    return decode_node_name(parse(pb.Addressee, data).node_name)


def encode_plain(report: Report) -> bytes:
    """A report as `SetLabels` of NFD v0.12 to v0.16 sends it."""
    message = pb.SetLabelsRequest(nfd_version=text(report.version) or None, node_name=text(report.node))
    message.labels.update(texts(report.labels))
    message.features.SetInParent()
    sets: tuple[tuple[Any, Mapping[str, Content]], ...] = (
        (message.features.flags, report.features.flags),
        (message.features.vattributes, report.features.attributes),
        (message.features.instances, report.features.instances),
    )
    for target, contents in sets:
        for name, content in contents.items():
            target[text(name)].CopyFrom(to_set(content))
    return message.SerializeToString()


def decode_plain(data: bytes) -> Incoming:
    """A `SetLabels` call of any NFD: without features before v0.10, and features domain by domain before v0.12.

    The older form never parses as the newer one, since the name of a domain is no protobuf message.
    """
    message: pb.SetLabelsRequest | pb.DomainSetLabelsRequest
    check_plain(data)
    try:
        message = pb.SetLabelsRequest.FromString(data)
        parts = list(_plain_sets(message.features))
    except DecodeError:
        check_domains(data)
        message = parse(pb.DomainSetLabelsRequest, data)
        domains = _entries(message.features, "features")
        parts = [(f"{key}.{name}", part) for key in domains for name, part in _plain_sets(message.features[key])]
    _check_features(len(parts))
    node = decode_node_name(message.node_name)
    blobs = [(name, to_blob(part)) for name, part in parts]
    report = Report(node, word(message.nfd_version, "nfd_version"), labels=_entries(message.labels, "labels"))
    return Incoming(report, tuple((name, digest(blob)) for name, blob in blobs), tuple(blob for _, blob in blobs))


def complete(report: Report, named: Iterable[tuple[str, Content]]) -> Report:
    """The report with its features."""
    flags: dict[str, frozenset[str]] = {}
    attributes: dict[str, Mapping[str, str]] = {}
    instances: dict[str, tuple[Instance, ...]] = {}
    count = 0
    for name, content in named:
        count += size(content)
        if isinstance(content, frozenset):
            flags[name] = content
        elif isinstance(content, tuple):
            instances[name] = content
        else:
            attributes[name] = content
    check_elements(count)
    return replace(report, features=Features(flags, attributes, instances))


def encode_answer(answer: Answer) -> bytes:
    message = pb.ReportReply(beat=answer.heartbeat, missing=answer.missing)
    if answer.node_labels is not None:
        message.node_labels.CopyFrom(pb.NodeLabels(labels=texts(answer.node_labels)))
    return message.SerializeToString()


def decode_answer(data: bytes) -> Answer:
    message = parse(pb.ReportReply, data)
    known = message.HasField("node_labels")
    labels = labels_for_worker(_entries(message.node_labels.labels, "node labels")) if known else None
    return Answer(message.beat, tuple(message.missing), labels)


def _plain_sets(features: pb.Features) -> Iterator[tuple[str, Set]]:
    yield from _entries(features.flags, "features.flags").items()
    yield from _entries(features.vattributes, "features.vattributes").items()
    yield from _entries(features.instances, "features.instances").items()


def encode_state(state: SourceState) -> pb.SourceState:
    return pb.SourceState(state=state.state.name, error=text(state.error[:LONGEST_ERROR]), since=state.since)


def _source_state(message: pb.SourceState) -> SourceState:
    """An unknown state counts as failed, which removes nothing."""
    known = {pb.SourceState.FRESH: State.FRESH, pb.SourceState.OFF: State.OFF}
    since = message.since if math.isfinite(message.since) and message.since > 0 else 0.0
    return SourceState(known.get(message.state, State.FAILED), _string(message.error, "error")[:LONGEST_ERROR], since)


def _entries(values: Mapping[str, V], where: str) -> dict[str, V]:
    """A map of the request itself, where invalid UTF-8 is an error."""
    check_entries(len(values), where)
    try:
        found = dict(values)
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: {error.object[:80]!r} is not UTF-8") from error
    for value in found.values():
        if isinstance(value, bytes):
            raise ValueError(f"{where}: {value[:80]!r} is not UTF-8")
    return found


def _string(value: str | bytes, where: str) -> str:
    """A text field; protobuf returns bytes for what is not UTF-8."""
    if isinstance(value, bytes):
        raise ValueError(f"{where}: {value[:80]!r} is not UTF-8")
    return value


def word(value: str | bytes, where: str) -> str:
    """A text field that fits on a line."""
    word = _string(value, where)
    if len(word) > LONGEST_WORD or not word.isprintable():
        raise ValueError(f"{where}: {word[:80]!r} is not at most {LONGEST_WORD} printable characters")
    return word


def decode_node_name(value: str) -> str:
    name = _string(value, "node name")
    if problem := names.subdomain_problem(name):
        raise ValueError(f"node name {name[:80]!r} {problem}")
    return name


def _check_features(count: int) -> None:
    if count > MAX_FEATURES:
        raise ValueError(f"{count} features, at most {MAX_FEATURES} are allowed")


def digest(blob: bytes) -> bytes:
    """BLAKE2b of a blob, 128 bits."""
    return hashlib.blake2b(blob, digest_size=DIGEST_BYTES).digest()


def to_set(content: Content) -> Set:
    if isinstance(content, frozenset):
        return pb.FlagFeatureSet(elements={text(name): pb.Nil() for name in content})
    if isinstance(content, tuple):
        return pb.InstanceFeatureSet(elements=[pb.InstanceFeature(attributes=texts(one)) for one in content])
    return pb.AttributeFeatureSet(elements=texts(content))


def to_blob(part: Set) -> bytes:
    """The serialised Feature around one content."""
    if isinstance(part, pb.FlagFeatureSet):
        feature = pb.Feature(flags=part)
    elif isinstance(part, pb.InstanceFeatureSet):
        feature = pb.Feature(instances=part)
    else:
        feature = pb.Feature(attributes=part)
    return feature.SerializeToString(deterministic=True)


def from_blob(blob: bytes) -> Content:
    """The content of one feature."""
    check_blob(blob)
    message = parse(pb.Feature, blob)
    match message.WhichOneof("content"):
        case "flags":
            check_elements(len(message.flags.elements))
            return frozenset(_elements(message.flags))
        case "attributes":
            check_elements(len(message.attributes.elements))
            return _elements(message.attributes)
        case "instances":
            found = message.instances.elements
            check_elements(sum(1 + len(one.attributes) for one in found))
            return tuple(_elements(one) for one in found)
    raise ValueError("blob has neither flags, attributes nor instances")


def size(content: Content) -> int:
    """How many elements a feature has, as `MAX_ELEMENTS` of `precheck` counts them."""
    return sum(1 + len(one) for one in content) if isinstance(content, tuple) else len(content)


def parse(kind: type[M], data: bytes) -> M:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ValueError(f"{kind.DESCRIPTOR.name}: {error}") from error


def texts(values: Mapping[str, str]) -> dict[str, str]:
    """Keys and values made valid for protobuf by `text`; nearly always they are ASCII and stay the same."""
    if all(map(str.isascii, values)) and all(map(str.isascii, values.values())):
        return dict(values)
    return {text(key): text(value) for key, value in values.items()}


def text(value: str) -> str:
    """The text with lone surrogates, which protobuf rejects, replaced by '?'."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _elements(part: pb.FlagFeatureSet | pb.AttributeFeatureSet | pb.InstanceFeature) -> dict[str, Any]:
    """The elements of a set. Bytes that are not UTF-8, which NFD accepts, become U+FFFD."""
    try:
        found = dict(part.attributes if isinstance(part, pb.InstanceFeature) else part.elements)
        clean = bytes not in set(map(type, found.values()))
    except UnicodeDecodeError:
        clean = False
    if clean:
        return found
    raw = pb.RawElements.FromString(part.SerializeToString()).elements
    return {one.key.decode("utf-8", "replace"): one.value.decode("utf-8", "replace") for one in raw}
