"""Values ↔ messages: nothing is lost, equal contents have equal digests, hostile bytes are a clear error."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nfd.features import Features
from nfd.report import MAX_ELEMENTS, MAX_FEATURES, Report, SourceState, State
from nfd.report_order import LONGEST_UPTIME, MOST_REPORTS, Order
from nfd.rpc import convert
from tests.rpc import nfd016

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
WORD = TEXT.filter(str.isprintable)
MAPS = st.dictionaries(TEXT, TEXT, max_size=4)
FEATURES = st.builds(
    Features,
    st.dictionaries(TEXT, st.frozensets(TEXT, max_size=4), max_size=3),
    st.dictionaries(TEXT, MAPS, max_size=3),
    st.dictionaries(TEXT, st.lists(MAPS, max_size=3).map(tuple), max_size=3),
)
STATES = st.builds(SourceState, st.sampled_from(State), TEXT, st.floats(0, 1e9))
ORDERS = st.builds(Order, WORD, st.integers(0, LONGEST_UPTIME), st.integers(0, MOST_REPORTS))
REPORTS = st.builds(
    Report,
    node=st.just("node-1"), version=WORD, node_uid=WORD, order=st.none() | ORDERS, labels=MAPS, annotations=MAPS,
    origins=MAPS, sources=st.dictionaries(TEXT, STATES, max_size=3), features=FEATURES,
)  # fmt: skip


def received(incoming: convert.Incoming, blobs: dict[bytes, bytes]) -> Report:
    return convert.complete(incoming.report, [(name, convert.from_blob(blobs[key])) for name, key in incoming.refs])


def blobs_of(outgoing: convert.Outgoing) -> dict[bytes, bytes]:
    return {key: convert.to_blob(convert.to_set(one)) for key, one in outgoing.contents.items()}


@given(REPORTS)
@settings(max_examples=200)
def test_a_report_survives_the_wire(report: Report) -> None:
    """Whatever text it holds, as two calls and as one with its blobs."""
    outgoing = convert.encode(report)
    assert received(convert.decode(outgoing.request), blobs_of(outgoing)) == report
    whole = convert.decode(outgoing.with_blobs(outgoing.contents))
    assert received(whole, {convert.digest(blob): blob for blob in whole.blobs}) == report


@given(FEATURES)
@settings(max_examples=100)
def test_digests_name_contents(features: Features) -> None:
    """The same elements in another order, and by way of SetLabels, have the same digests."""
    turned = Features(
        {key: frozenset(sorted(value, reverse=True)) for key, value in features.flags.items()},
        {key: dict(reversed(value.items())) for key, value in features.attributes.items()},
        {key: tuple(dict(reversed(one.items())) for one in value) for key, value in features.instances.items()},
    )
    first = convert.encode(Report("n", features=features))
    assert blobs_of(first) == blobs_of(convert.encode(Report("n", features=turned)))
    plain = convert.decode_plain(convert.encode_plain(Report("n", features=features)))
    assert sorted(plain.refs) == sorted(convert.decode(first.request).refs)


@given(st.lists(FEATURES, max_size=4))
@settings(max_examples=100)
def test_digests_of_the_last_report_change_nothing(features: list[Features]) -> None:
    """However the features change from one report to the next."""
    digests: convert.Digests = {}
    for one in features:
        report = Report("n", features=one)
        assert convert.encode(report, digests) == convert.encode(report)
        assert digests.keys() == one.names()


@given(REPORTS)
@settings(max_examples=100)
def test_set_labels_of_0_16(report: Report) -> None:
    """What we send parses, by tables of NFD's own, to the same content; and back."""
    message = nfd016.v016().FromString(convert.encode_plain(report))
    assert message.node_name == report.node
    assert dict(message.labels) == report.labels
    parsed = {name: frozenset(part.elements) for name, part in message.features.flags.items()}
    assert parsed == report.features.flags
    assert {name: dict(part.elements) for name, part in message.features.vattributes.items()} == (
        report.features.attributes
    )
    incoming = convert.decode_plain(message.SerializeToString())
    assert received(incoming, {convert.digest(blob): blob for blob in incoming.blobs}) == Report(
        report.node, report.version, labels=report.labels, features=report.features
    )


def test_lone_surrogates_become_question_marks() -> None:
    """A file name that is not UTF-8 must not keep a report from being sent."""
    report = Report(
        "n",
        sources={"local": SourceState(State.FAILED, "bad file \udcff")},
        features=Features({"a": frozenset({"\ud800x"})}, {"b": {"k": "\udc80"}}, {"c": ({"k": "\udfff"},)}),
    )
    outgoing = convert.encode(report)
    back = received(convert.decode(outgoing.request), blobs_of(outgoing))
    assert back.sources["local"].error == "bad file ?"
    assert back.features == Features({"a": frozenset({"?x"})}, {"b": {"k": "?"}}, {"c": ({"k": "?"},)})


def field(number: int, data: bytes) -> bytes:
    """One length-delimited field."""
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def pair(key: bytes, value: bytes) -> bytes:
    return field(1, key) + field(2, value)


def test_bytes_exactly_as_0_16_writes_them() -> None:
    """Assembled by hand from the field tables, with bytes that are not UTF-8, which Go's proto2 lets through."""
    flags = field(1, pair(b"cpu.cpuid", field(1, pair(b"AVX\xff", b""))))
    attributes = field(2, pair(b"system.dmiid", field(1, pair(b"sys_vendor", b"Acm\xe9"))))
    instances = field(3, pair(b"pci.device", field(1, field(1, pair(b"class", b"0300")))))
    request = field(1, b"v0.16.0") + field(2, b"n1") + field(3, pair(b"a", b"b"))
    incoming = convert.decode_plain(request + field(4, flags + attributes + instances))
    report = received(incoming, {convert.digest(blob): blob for blob in incoming.blobs})
    assert (report.node, report.version, report.labels) == ("n1", "v0.16.0", {"a": "b"})
    assert report.features == Features(
        {"cpu.cpuid": frozenset({"AVX\ufffd"})},
        {"system.dmiid": {"sys_vendor": "Acm\ufffd"}},
        {"pci.device": ({"class": "0300"},)},
    )
    empty_feature = field(4, field(1, pair(b"cpu.cpuid", b"")))
    assert convert.encode_plain(Report("n1", features=Features({"cpu.cpuid": frozenset()}))) == (
        field(2, b"n1") + empty_feature
    )


def test_features_of_0_10_by_domain() -> None:
    request = nfd016.v010()(node_name="n1", labels={"cpu-x": "true"})
    for domain in ("cpu", "kernel", "memory", "network", "pci", "storage", "system", "usb", "local", "custom", "fake"):
        request.features[domain].keys["flag"].elements["on"].SetInParent()
        request.features[domain].values["attribute"].elements["k"] = domain
        request.features[domain].instances["instance"].elements.add().attributes["k"] = "v"
        alone = type(request)(node_name="n1", features={domain: request.features[domain]})
        assert len(convert.decode_plain(alone.SerializeToString()).refs) == 3
    incoming = convert.decode_plain(request.SerializeToString())
    report = received(incoming, {convert.digest(blob): blob for blob in incoming.blobs})
    assert len(report.features.names()) == 33
    assert report.features.attributes["usb.attribute"] == {"k": "usb"}
    assert report.labels == {"cpu-x": "true"}


def test_requests_without_features_are_empty() -> None:
    for request in (nfd016.v004(), nfd016.v016()):
        incoming = convert.decode_plain(request(node_name="n1", labels={"x": "y"}).SerializeToString())
        assert incoming.refs == ()
        assert incoming.report.labels == {"x": "y"}


MANY = {f"k{number}": "" for number in range(MAX_ELEMENTS + 1)}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xff", "Error parsing message"),
        (b"", "node name '' is empty"),
        (nfd016.v016()(node_name="../etc").SerializeToString(), "node name '../etc' must be"),
        (nfd016.v016()(node_name="N").SerializeToString(), "node name 'N' must be"),
        (field(2, b"n") + field(3, pair(b"\xff", b"")), "labels: b'\\xff' is not UTF-8"),
        (field(2, b"\xff"), "not UTF-8"),
    ],
)
def test_hostile_set_labels(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        convert.decode_plain(data)


@given(st.binary(max_size=200))
@settings(max_examples=500)
def test_any_bytes_parse_or_are_a_value_error(data: bytes) -> None:
    for decode in (convert.decode, convert.decode_plain, convert.from_blob, convert.decode_answer):
        with suppress(ValueError):
            decode(data)


def test_limits() -> None:
    """A few bytes on the wire must not become gigabytes of objects."""
    too_many = convert.encode(Report("n", features=Features(attributes={"a": MANY})))
    with pytest.raises(ValueError, match="100001 elements"):
        convert.from_blob(next(iter(blobs_of(too_many).values())))
    half = dict(list(MANY.items())[: MAX_ELEMENTS // 2 + 1])
    with pytest.raises(ValueError, match="100002 elements"):
        convert.complete(Report("n"), [("a", half), ("b", half)])
    names = {f"f{number}": frozenset[str]() for number in range(MAX_FEATURES + 1)}
    for decode, encoded in (
        (convert.decode, convert.encode(Report("n", features=Features(names))).request),
        (convert.decode_plain, convert.encode_plain(Report("n", features=Features(names)))),
    ):
        with pytest.raises(ValueError, match="1001 features"):
            decode(encoded)


def test_unknown_state_counts_as_failed() -> None:
    """A worker newer than the master may say something we do not know; nothing is removed then."""
    state = field(1, b"pci") + field(2, b"\x08\x09")
    incoming = convert.decode(field(2, b"n") + field(8, state))
    assert incoming.report.sources["pci"].state is State.FAILED
