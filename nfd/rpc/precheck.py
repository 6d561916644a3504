"""How much a large message holds, before it is read: what holds too much is refused for a hundredth of the price."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from nfd.rpc import labeler_pb2 as pb

M = TypeVar("M", bound=Message)

SMALL = 64 * 1024
"""Bytes; what is no larger is read at once, whatever it holds."""
MAX_ENTRIES = 10_000
"""Labels of one report, and as many annotations, origins and sources; a Node can list some 4,000 of them."""
MAX_ELEMENTS = 100_000
"""Flags, attributes and instances of one report together; a large kernel's are some 10,000."""


def check_report(data: bytes) -> None:
    """A `Report` call. Raises: ValueError; what is malformed is left to who reads it."""
    if (outline := _outline(pb.ReportOutline, data)) is not None:
        for where in ("labels", "annotations", "origins", "sources"):
            check_entries(len(getattr(outline, where)), where)


def check_plain(data: bytes) -> None:
    """A `SetLabels` call, in the form of today; as above."""
    if (outline := _outline(pb.SetLabelsOutline, data)) is not None:
        check_entries(len(outline.labels), "labels")
        _check_sets(_sets(outline.features))


def check_domains(data: bytes) -> None:
    """A `SetLabels` call, in its older form; as above."""
    if (outline := _outline(pb.DomainSetLabelsOutline, data)) is not None:
        check_entries(len(outline.labels), "labels")
        check_entries(len(outline.features), "features")
        _check_sets(one for entry in outline.features for one in _sets(entry.value))


def check_blob(data: bytes) -> None:
    """A serialised Feature; as above."""
    if (outline := _outline(pb.FeatureOutline, data)) is not None:
        _check_sets((*outline.flags, *outline.attributes, *outline.instances))


def check_entries(count: int, where: str) -> None:
    if count > MAX_ENTRIES:
        raise ValueError(f"{count} {where} are more than {MAX_ENTRIES}")


def check_elements(count: int) -> None:
    if count > MAX_ELEMENTS:
        raise ValueError(f"{count} elements in one report's features are more than {MAX_ELEMENTS}")


def _outline(kind: type[M], data: bytes) -> M | None:
    """How much the message holds; None if it is small, or malformed."""
    if len(data) <= SMALL:
        return None
    try:
        return kind.FromString(data)
    except DecodeError:
        return None


def _sets(features: pb.FeaturesOutline) -> Iterable[pb.SetOutline]:
    return (entry.value for part in (features.flags, features.vattributes, features.instances) for entry in part)


def _check_sets(sets: Iterable[pb.SetOutline]) -> None:
    """Elements by themselves, then with what each of them holds."""
    known = list(sets)
    check_elements(sum(len(one.elements) for one in known))
    check_elements(sum(len(element.attributes) for one in known for element in one.elements))
