"""A report that a master would reject is sent without the largest source, which counts as failed."""

from __future__ import annotations

import pytest

from nfd.discovery import Discovery, Scan
from nfd.features import Features, join
from nfd.report import MAX_ELEMENTS, MAX_ENTRIES, MAX_FEATURES, MAX_MESSAGE, Report, SourceState, State
from nfd.report_order import Order
from nfd.rpc import convert
from nfd.worker.report_size import LIMITS, find_excess, leave_out

SMALL = Features(flags={"cpu.cpuid": frozenset({"AVX", "AES"})}, instances={"pci.device": ({"vendor": "10de"},)})
TEXT = "\N{LATIN SMALL LETTER E WITH ACUTE}" * 32


def found(*, labels: int = 0, features: Features | None = None) -> Discovery:
    """A scan of `cpu`, of `acme` with as much, and of `other` with something less."""
    scans = {"acme": Scan(features or Features()), "cpu": Scan(SMALL)}
    keys = {f"acme.example/n{number}": "acme" for number in range(labels)} | {"f/cpu-a": "cpu", "f/other-a": "other"}
    return Discovery(scans, join(scan.features for scan in scans.values()), dict.fromkeys(keys, "1"), keys)


def accepted(one: Discovery) -> bool:
    """Whether a master takes the report, with all features in one message."""
    sources = {name: SourceState(State.FAILED, "why" * 5000) for name in ("acme", "cpu", "other")}
    report = Report("n", "1", "", Order("b", 1, 1), one.labels, {}, one.origins, sources, one.features)
    outgoing = convert.encode(report)
    data = outgoing.with_blobs(outgoing.contents)
    try:
        incoming = convert.decode(data)
        list(map(convert.from_blob, incoming.blobs))
        convert.complete(incoming.report, ((name, outgoing.contents[key]) for name, key in incoming.refs))
    except ValueError:
        return False
    return len(data) <= MAX_MESSAGE


LARGE = {
    "labels": found(labels=MAX_ENTRIES + 1),
    "features": found(features=Features(flags={f"acme.f{number}": frozenset() for number in range(MAX_FEATURES + 1)})),
    "flags": found(features=Features(flags={"acme.f": frozenset(map(str, range(MAX_ELEMENTS)))})),
    "instances": found(features=Features(instances={"acme.f": ({"a": "1"},) * (MAX_ELEMENTS // 2)})),
    "letters": found(features=Features(attributes={"acme.f": {f"{n}": TEXT for n in range(65_000)}})),
    "long": found(features=Features(attributes={"acme.f": {"a": "x" * MAX_MESSAGE}})),
}


@pytest.mark.parametrize("case", LARGE)
def test_the_largest_source_is_left_out(case: str) -> None:
    before = LARGE[case]
    assert not accepted(before)
    after = leave_out(before, find_excess(before))
    assert accepted(after)
    assert after.doubtful == {"acme"}
    assert "are left out: " in after.failed["acme"]
    assert {"f/cpu-a": "1", "f/other-a": "1"}.items() <= after.labels.items()
    assert SMALL.flags.items() <= after.features.flags.items()
    assert after.scans == before.scans, "what a failing scan falls back to"
    assert after.origins.keys() == after.labels.keys()
    assert after.problems[-1].source == "acme"


def test_what_fits_is_unchanged() -> None:
    for one in (
        found(),
        found(labels=MAX_ENTRIES - 2),
        found(features=Features(attributes={"acme.f": {f"{n}": "" for n in range(MAX_ELEMENTS - 4)}})),
    ):
        assert not find_excess(one)
        assert accepted(one)


def test_several_sources_and_what_is_not_published() -> None:
    many = {f"{number}": "" for number in range(MAX_ELEMENTS)}
    features = Features(attributes={"acme.f": many, "acme.g": many})
    one = found(labels=MAX_ENTRIES, features=features)
    after = leave_out(one, find_excess(one))
    assert after.failed["acme"].count("are left out") == 2
    assert accepted(after)
    assert not find_excess(found(features=features), ["acme.f", "acme.g"])
    assert LIMITS["bytes"] < MAX_MESSAGE
