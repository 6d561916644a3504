"""Reports as another master keeps them: what alike nodes share is sent once, and both sides forget it alike."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.features import Features
from nfd.report import Report, SourceState, State
from nfd.report_order import Order
from nfd.rpc import labeler_pb2 as pb
from nfd.rpc.replication_messages import Copy, Decoder, Digests, Encoder

KCONFIG = {f"CONFIG_{number}": "y" for number in range(500)}
FRESH = {name: SourceState(State.FRESH) for name in ("cpu", "kernel", "pci")}
LABELS = {f"feature.node.kubernetes.io/cpu-{number}": "true" for number in range(50)}


def report(node: str, sequence: int = 1, **attributes: str) -> Report:
    features = Features({"kernel.modules": MODULES}, {"kernel.config": KCONFIG, "system.name": {"nodename": node}})
    if attributes:
        features = replace(features, attributes={**features.attributes, "f.a": attributes})
    order = Order(f"boot of {node}", 7, sequence, "pod-1", 1_700_000_000.0)
    origins = dict.fromkeys(LABELS, "cpu")
    return Report(node, "v1", f"uid of {node}", order, LABELS, {"v.io/a": "ö"}, origins, FRESH, features)


MODULES = frozenset({"loop", "veth"})


def sent(encoder: Encoder, *reports: Report) -> bytes:
    return encoder.encode(iter([Copy(one, f"uid of {one.node}") for one in reports]))


def test_what_alike_nodes_share_is_sent_once() -> None:
    encoder, decoder = Encoder(Digests()), Decoder()
    reports = [report(f"node-{number}") for number in range(40)]
    first, others = sent(encoder, *reports[:2]), sent(encoder, *reports[2:])
    assert len(first) > 10_000
    assert len(others) / 38 < 400
    found = [one for data in (first, others) for one in decoder.decode(data).copies]
    assert [one.report for one in found] == reports
    assert {one.uid for one in found} == {f"uid of node-{number}" for number in range(40)}
    assert all(one.report.order == other.order for one, other in zip(found, reports, strict=True))
    assert found[5].report.order is not None
    assert (found[5].report.order.pod, found[5].report.order.issued) == ("pod-1", 1_700_000_000.0)
    assert found[5].report.labels is found[30].report.labels
    assert found[5].report.features.attributes["kernel.config"] is found[30].report.features.attributes["kernel.config"]


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("xyz"), st.booleans()), max_size=30), st.randoms())
def test_both_sides_know_the_same(steps: list[tuple[int, str, bool]], chance: random.Random) -> None:
    """Whatever comes, each report arrives as it was, and neither side keeps what no report uses."""
    encoder, decoder, contents = Encoder(Digests()), Decoder(), {value: {"v": value} for value in "xyz"}
    while steps:
        batch, steps = steps[: (count := chance.randint(1, 5))], steps[count:]
        reports = []
        for number, value, failed in batch:
            one = report(f"node-{number}")
            features = replace(one.features, attributes={**one.features.attributes, "f.a": contents[value]})
            sources = FRESH | {"pci": SourceState(State.FAILED, "no", 3.5)} if failed else FRESH
            reports.append(replace(one, features=features, sources=sources))
        message = decoder.decode(sent(encoder, *reports))
        assert (message.unusable, [one.report for one in message.copies]) == (0, reports)
        used = set(encoder._uses.users)
        assert used == set(decoder._uses.users) == decoder._parts.keys() | decoder._contents.keys()


def test_order_is_absent_or_as_it_was() -> None:
    one = replace(report("node-1"), order=None, sources={})
    (found,) = Decoder().decode(sent(Encoder(Digests()), one)).copies
    assert found.report == one


def test_a_changed_blob_spoils_only_the_reports_that_name_it() -> None:
    """Blobs are hashed again, so that one does not pass for another."""
    message = pb.Copies.FromString(
        sent(Encoder(Digests()), report("node-1"), report("node-2"), report("node-3", a="1"))
    )
    last = len(message.blobs) - 1
    message.blobs[last] = message.blobs[last].replace(b"1", b"2")
    found = Decoder().decode(message.SerializeToString())
    assert ([one.report.node for one in found.copies], found.unusable) == (["node-1", "node-2"], 1)


@pytest.mark.parametrize("field", ["node_name", "node_uid", "pod"])
def test_a_copy_with_something_invalid_is_left_out(field: str) -> None:
    message = pb.Copies.FromString(sent(Encoder(Digests()), report("node-1"), report("node-2")))
    setattr(message.copies[0], field, "a\nb")
    found = Decoder().decode(message.SerializeToString())
    assert ([one.report.node for one in found.copies], found.unusable) == (["node-2"], 1)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message(data: bytes) -> None:
    try:
        Decoder().decode(data)
    except ValueError as error:
        assert str(error)  # noqa: PT017


def test_a_message_has_a_limit() -> None:
    """What is left is for the next one."""
    copies = iter([Copy(report(f"node-{number}"), "") for number in range(500)])
    encoder, decoder, sizes = Encoder(Digests()), Decoder(), []
    while found := decoder.decode(encoder.encode(copies)).copies:
        sizes.append(len(found))
    assert sum(sizes) == 500
    assert max(sizes) == 64
