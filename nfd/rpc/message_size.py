"""Counts the entries of a large message before it is parsed: rejecting it costs a hundredth of parsing it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from nfd.report import MAX_ELEMENTS, MAX_ENTRIES
from nfd.rpc import labeler_pb2 as pb

M = TypeVar("M", bound=Message)

SMALL = 64 * 1024
"""Messages of at most that many bytes are parsed without a check."""


def check_report(data: bytes) -> None:
    """Check a `Report` call. Raises: ValueError; a malformed message is left to the parser."""
    if (counts := _counts(pb.ReportOutline, data)) is not None:
        for where in ("labels", "annotations", "origins", "sources"):
            check_entries(len(getattr(counts, where)), where)


def check_plain(data: bytes) -> None:
    """Check a `SetLabels` call in its current form; as above."""
    if (counts := _counts(pb.SetLabelsOutline, data)) is not None:
        check_entries(len(counts.labels), "labels")
        _check_sets(_sets(counts.features))


def check_domains(data: bytes) -> None:
    """Check a `SetLabels` call in its older form; as above."""
    if (counts := _counts(pb.DomainSetLabelsOutline, data)) is not None:
        check_entries(len(counts.labels), "labels")
        check_entries(len(counts.features), "features")
        _check_sets(one for entry in counts.features for one in _sets(entry.value))


def check_blob(data: bytes) -> None:
    """Check a serialised Feature; as above."""
    if (counts := _counts(pb.FeatureOutline, data)) is not None:
        _check_sets((*counts.flags, *counts.attributes, *counts.instances))


def check_entries(count: int, where: str) -> None:
    if count > MAX_ENTRIES:
        raise ValueError(f"{count} {where}, at most {MAX_ENTRIES} are allowed")


def check_elements(count: int) -> None:
    if count > MAX_ELEMENTS:
        raise ValueError(f"{count} elements in the features of one report, at most {MAX_ELEMENTS} are allowed")


def _counts(kind: type[M], data: bytes) -> M | None:
    """The counts in the message; None if it is small or malformed."""
    if len(data) <= SMALL:
        return None
    try:
        return kind.FromString(data)
    except DecodeError:
        return None


def _sets(features: pb.FeaturesOutline) -> Iterable[pb.SetOutline]:
    return (entry.value for part in (features.flags, features.vattributes, features.instances) for entry in part)


def _check_sets(sets: Iterable[pb.SetOutline]) -> None:
    """Check the number of elements, then that of their attributes."""
    known = list(sets)
    check_elements(sum(len(one.elements) for one in known))
    check_elements(sum(len(element.attributes) for one in known for element in one.elements))
