"""Keeps a report within what a master accepts, which rejects a larger one with the labels of all sources (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from nfd.discovery import Discovery
from nfd.features import Problem
from nfd.report import MAX_ELEMENTS, MAX_ENTRIES, MAX_FEATURES, MAX_MESSAGE

REST = 128 * 1024
"""Bytes for what is neither label nor feature: the states of sources, with their errors."""
PAIR = 9
"""Bytes of protobuf around a key and its value."""
FEATURE = 64
"""Bytes around a feature, its digest included."""
LIMITS = {"labels": MAX_ENTRIES, "features": MAX_FEATURES, "elements": MAX_ELEMENTS, "bytes": MAX_MESSAGE - REST}
LABELS, FEATURES = "labels", "features"


@dataclass(frozen=True, slots=True)
class Part:
    """The labels or the features of one source, and how much of each limit they need."""

    source: str
    kind: str
    amounts: Mapping[str, int]


Excess = Mapping[tuple[str, str], str]
"""Name of a source, and `labels` or `features` → why they cannot be reported."""


def find_excess(found: Discovery, unpublished: Collection[str] = ()) -> Excess:
    """The largest parts, without which the rest is not too much; features of `unpublished` names are not reported."""
    parts = [*_labels(found), *_features(found, unpublished)]
    excess: dict[tuple[str, str], str] = {}
    for what, limit in LIMITS.items():
        while (total := sum(part.amounts.get(what, 0) for part in parts)) > limit:
            largest = max(parts, key=lambda part: (part.amounts.get(what, 0), part.source))
            parts.remove(largest)
            reason = f"its {largest.kind} are left out: {largest.amounts[what]} {what}, and a report of {total}"
            excess[largest.source, largest.kind] = f"{reason}; at most {limit} are allowed"
    return excess


def leave_out(found: Discovery, excess: Excess) -> Discovery:
    """The same without these parts; their sources count as failed."""
    keys = {key for key, source in found.origins.items() if (source, LABELS) in excess}
    names = {
        name for source, scan in found.scans.items() if (source, FEATURES) in excess for name in scan.features.names()
    }
    reasons: dict[str, str] = {}
    for (source, _), reason in excess.items():
        reasons[source] = f"{reasons[source]}; {reason}" if source in reasons else reason
    return replace(
        found,
        features=found.features.without(names),
        labels={key: value for key, value in found.labels.items() if key not in keys},
        origins={key: source for key, source in found.origins.items() if key not in keys},
        label_errors={**found.label_errors, **reasons},
        problems=(*found.problems, *(Problem(name, name, reason) for name, reason in reasons.items())),
    )


def _labels(found: Discovery) -> Iterator[Part]:
    for source in set(found.origins.values()):
        keys = [key for key in found.labels if found.origins.get(key) == source]
        size = _bytes(chain(keys, keys, (found.labels[key] for key in keys)))
        size += (2 * PAIR + len(source)) * len(keys)
        yield Part(source, LABELS, {"labels": len(keys), "bytes": size})


def _features(found: Discovery, unpublished: Collection[str]) -> Iterator[Part]:
    for source, scan in found.scans.items():
        names = scan.features.names() - set(unpublished)
        elements = size = 0
        for kind in (scan.features.flags, scan.features.attributes, scan.features.instances):
            for name in kind.keys() & names:
                count, length = _size(kind[name])
                elements, size = elements + count, size + length + FEATURE + len(name)
        yield Part(source, FEATURES, {"features": len(names), "elements": elements, "bytes": size})


def _size(content: frozenset[str] | Mapping[str, str] | tuple[Mapping[str, str], ...]) -> tuple[int, int]:
    """Elements of a feature, as a master counts them, and its bytes."""
    if isinstance(content, tuple):
        pairs = sum(map(len, content))
        texts = chain.from_iterable(chain(one, one.values()) for one in content)
        return len(content) + pairs, _bytes(texts) + PAIR * (len(content) + pairs)
    values = () if isinstance(content, frozenset) else content.values()
    return len(content), _bytes(chain(content, values)) + PAIR * len(content)


def _bytes(texts: Iterable[str]) -> int:
    joined = "".join(texts)
    return len(joined) if joined.isascii() else len(joined.encode("utf-8", "replace"))
