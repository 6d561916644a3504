"""Compares what a scan gave with what a host case expects. The rules stand in tests/cases/hosts/README.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from nfd.features import Features

OURS = (
    "feature.node.kubernetes.io/accelerator-*",
    "amd.com/*",
    "intel.feature.node.kubernetes.io/*",
    "gpu.intel.com/*",
)
"""Labels that NFD does not have: a case is about them only where it names one."""

MORE_FLAGS = frozenset({"cpu.cpuid"})
"""Flag features that may have further elements."""


def differences(case: Mapping[str, Any], labels: Mapping[str, str], features: Features) -> list[str]:
    """One line per difference."""
    expect, ignored = case["expect"], case.get("ignore") or ()
    found = list(label_differences(expect.get("labels"), labels, ignored))
    for key, value in (expect.get("contains") or {}).items():
        found.extend(label_difference(key, value, labels))
    for kind, compare in (("flags", flags), ("attributes", attributes), ("instances", instances)):
        actual: Mapping[str, Any] = getattr(features, kind)
        for key, value in ((expect.get("features") or {}).get(kind) or {}).items():
            found.extend(f"{kind} {key}: {text}" for text in compare(key, value, actual.get(key)))
    return found


def label_differences(
    expected: Mapping[str, Any] | None, labels: Mapping[str, str], ignored: Sequence[str]
) -> Iterator[str]:
    if expected is None:
        return
    for key in sorted(expected.keys() | labels.keys()):
        others = () if key in expected else OURS
        if not any(fnmatchcase(key, glob) for glob in (*ignored, *others)):
            yield from label_difference(key, expected.get(key), labels)


def label_difference(key: str, expected: Any, labels: Mapping[str, str]) -> Iterator[str]:
    """A list means any of its values; None, alone or in it, that there may be unknown key."""
    allowed = expected if isinstance(expected, list) else [expected]
    if labels.get(key) not in allowed:
        yield f"label {key}: expected {expected!r}, found {labels.get(key)!r}"


def flags(key: str, expected: list[str] | None, actual: frozenset[str] | None) -> Iterator[str]:
    missing = set(expected or ()) - set(actual or ())
    further = set(actual or ()) - set(expected or ())
    if missing:
        yield f"missing {sorted(missing)}"
    if further and (expected is None or key not in MORE_FLAGS):
        yield f"further {sorted(further)}"


def attributes(key: str, expected: Mapping[str, Any] | None, actual: Mapping[str, str] | None) -> Iterator[str]:
    if expected is None:
        if actual:
            yield f"expected none, found {dict(actual)}"
        return
    for name, value in expected.items():
        allowed = value if isinstance(value, list) else [value]
        if (actual or {}).get(name, "") not in [one or "" for one in allowed]:
            yield f"{name}: expected {value!r}, found {(actual or {}).get(name)!r}"


def instances(
    key: str, expected: list[Mapping[str, Any]] | None, actual: Sequence[Mapping[str, str]] | None
) -> Iterator[str]:
    """Every expected instance has one of its own among the found ones, whatever the order; none is left over."""
    left = list(actual or ())
    for wanted in expected or ():
        matches = [one for one in left if not list(attributes(key, wanted, one))]
        if matches:
            left.remove(min(matches, key=len))
        else:
            yield f"missing {dict(wanted)}"
    if left:
        yield f"further {[dict(one) for one in left]}"
