"""The content of one feature ↔ protobuf.

It is sent as a blob: a serialised `Feature` message, which is identified by its digest. Serialisation is deterministic
(map keys sorted), so equal contents have equal digests on all nodes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from nfd.features import Features, Instance
from nfd.rpc import labeler_pb2 as pb
from nfd.rpc.precheck import check_blob, check_elements

Content = frozenset[str] | Mapping[str, str] | tuple[Instance, ...]
"""The content of one feature: flags, attributes or instances."""

DIGEST_BYTES = 16

M = TypeVar("M", bound=Message)
Set = pb.FlagFeatureSet | pb.AttributeFeatureSet | pb.InstanceFeatureSet


def digest(blob: bytes) -> bytes:
    """BLAKE2b of a blob, 128 bits."""
    return hashlib.blake2b(blob, digest_size=DIGEST_BYTES).digest()


def contents(features: Features) -> Iterator[tuple[str, Content]]:
    yield from features.flags.items()
    yield from features.attributes.items()
    yield from features.instances.items()


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
