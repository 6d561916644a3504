"""What comes over gRPC: reports at the master, answers and refusals at the worker, and the tokens callers show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import grpc

from nfd import names
from nfd.errors import Forbidden, ReportError
from nfd.features import Features
from nfd.kube import jwt
from nfd.kube.token_reviews import TokenReviews
from nfd.master.node.desired import derive_desired, derive_freshness
from nfd.master.node.patch import patches
from nfd.master.node.plan import Goal, plan_node
from nfd.master.reports.store import ReportStore
from nfd.report import Report, SourceState, State
from nfd.report_order import Order
from nfd.rpc import LEADER, RETRY_AFTER, client, convert, master_calls
from nfd.rpc.convert import digest
from nfd.rpc.feature_cache import FeatureCache
from nfd.rpc.labels_for_worker import labels_for_worker
from nfd.rules.policy import Policy
from nfd.store.base import Kind, trim
from nfd.worker.schedule import Pace
from tests.fuzz import legal, wire
from tests.fuzz.mutate import Bytes, below, either
from tests.fuzz.target import Made, Target, check
from tests.fuzz.trees import Trees, encoded

F = "feature.node.kubernetes.io/"
_BLOBS, _REFS, _DIGEST = 10, 9, 2
NODE = trim({
    "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7", "labels": {"kubernetes.io/os": "linux"}},
    "status": {"nodeInfo": {"bootID": "boot"}},
})  # fmt: skip


def some_reports() -> Iterator[Report]:
    features = Features(
        {"cpu.cpuid": frozenset({"AVX", "SSE4"}), "kernel.loadedmodule": frozenset()},
        {"kernel.version": {"full": "6.1.0", "major": "6"}},
        {"pci.device": ({"vendor": "10de", "class": "0300"}, {}), "usb.device": ()},
    )
    sources = {
        "cpu": SourceState(State.FRESH),
        "pci": SourceState(State.FAILED, "why", 3.5),
        "usb": SourceState(State.OFF),
    }
    yield Report("n1")
    yield Report("n1", "0.1", "u1", Order("boot", 5, 1), {F + "cpu-a": "1", "mine": "x"}, {F + "note": "any ✓ text"})
    yield Report(
        "n1", "0.1", "", Order("boot", 5, 2), {"mine": "@kernel.version.full"}, {}, {"mine": "local"}, sources, features
    )


def reports() -> Sequence[bytes]:
    outgoing = [convert.encode(report) for report in some_reports()]
    return [one.with_blobs(one.contents) for one in outgoing]


def plain_reports() -> Sequence[bytes]:
    return [convert.encode_plain(report) for report in some_reports()]


def with_true_digests(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """A report with one blob changed, and named by what it hashes to now."""
    fields = wire.parse(corpus[below(chance, len(corpus))])
    places = [at for at, (number, _, value) in enumerate(fields) if number == _BLOBS and isinstance(value, bytes)]
    if not places:
        return wire.wires(chance, corpus)
    at = places[below(chance, len(places))]
    before = fields[at][2]
    assert isinstance(before, bytes)
    after = wire.change(chance, before, corpus)
    fields[at] = _BLOBS, wire.BYTES, after
    for place, (number, kind, value) in enumerate(fields):
        if number == _REFS and isinstance(value, bytes):
            inner = [(n, k, digest(after) if v == digest(before) else v) for n, k, v in wire.parse(value)]
            fields[place] = number, kind, wire.render(inner)
    return wire.render(fields)


def take(incoming: convert.Incoming) -> Made:
    """What the server, and then a pass over the node, makes of it."""
    check(legal.is_key(f"{incoming.report.node}/x"), f"node name {incoming.report.node!r}")
    blobs = FeatureCache()
    with blobs.use(incoming) as missing:
        if missing:
            return "missing", missing
        report = convert.complete(incoming.report, blobs.contents(incoming))
        blobs.hold(report.node, incoming)
    blobs.forget(report.node)
    check(len(blobs) == 0, "no blob is left of a node that is gone")
    ReportStore().take(report, NODE, "boot")
    desired = derive_desired(report, Policy())
    for kind in (Kind.LABELS, Kind.ANNOTATIONS):
        legal.check_foreign(desired.of(kind))
    legal.check_labels(desired.of(Kind.LABELS))
    check(not desired.of(Kind.TAINTS) and not desired.of(Kind.RESOURCES), "a report sets labels and annotations alone")
    found = list(patches(plan_node(Goal(desired, derive_freshness(report)), NODE)))
    counts = (len(desired.of(kind)) for kind in (Kind.LABELS, Kind.ANNOTATIONS))
    return f"taken {[*counts]} {len(report.sources)} {len(report.features.names())}", (report, desired, found)


def run_report(data: bytes) -> Made:
    kind, made = take(convert.decode(data))
    if isinstance(made, tuple) and isinstance(made[0], Report):
        check(_again(made[0]) == made[0], "a report that is sent on is the same report")
    return kind, made


def _again(report: Report) -> Report:
    outgoing = convert.encode(report)
    incoming = convert.decode(outgoing.with_blobs(outgoing.contents))
    blobs = FeatureCache()
    with blobs.use(incoming):
        return convert.complete(incoming.report, blobs.contents(incoming))


def run_plain(data: bytes) -> Made:
    return take(convert.decode_plain(data))


def run_answer(data: bytes) -> Made:
    answer = convert.decode_answer(data)
    pace = Pace()
    pace.accepted(100.0, answer.heartbeat)
    check(100.0 < pace.heartbeat_at < 1e5, f"the next heartbeat is at {pace.heartbeat_at}")
    labels = answer.node_labels
    check(labels is None or labels == labels_for_worker(labels), f"labels of the Node: {labels}")
    return f"{len(answer.missing)}", (str(answer.heartbeat), answer.missing, labels)


@dataclass
class Refusal(grpc.RpcError):  # type: ignore[misc]
    """A refusal with trailers, as grpcio gives them; one name and value a line."""

    data: bytes

    def code(self) -> Any:
        return tuple(grpc.StatusCode)[1 + sum(self.data[:1]) % 16]

    def details(self) -> str:
        return self.data.decode("latin-1")

    def trailing_metadata(self) -> Any:
        lines = self.data.decode("latin-1").split("\n")
        return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def run_refusal(data: bytes) -> Made:
    said = client._failure(Refusal(data), "master:8080")
    wait = Pace().failed(100.0, said)
    check(0.0 <= wait < 1e5, f"the worker waits for {wait} s")
    passed_on = master_calls._failure(Refusal(data), "leader:8080")
    return f"{said.code} {passed_on.code} {said.retry_after is None} {bool(said.leader)}", str(said)


@cache
def _tokens() -> TokenReviews:
    return TokenReviews(None, "nfd-master", lambda: 0.0)  # type: ignore[arg-type]  # nobody is asked about these


def run_token(data: bytes) -> Made:
    token, uid = _tokens()._check(jwt.parse(_token(data)))
    return "asked about", (token.claims.get("exp"), uid)


def _token(claims: bytes) -> str:
    """The claims between two dots; what is no JSON is a token as it stands."""
    import base64

    if claims[:1] in b"{[":
        return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"
    return claims.decode("latin-1")


_bound = {"kubernetes.io": {"pod": {"name": "p", "uid": "u"}}, "iat": 1764293400}


def claims() -> Sequence[bytes]:
    return [
        *encoded(
            {"exp": 1764297000, "aud": ["nfd-master"], "sub": "system:serviceaccount:n:a", **_bound},
            {"aud": "nfd-master"},
        ),
        b"a.b.c",
    ]


REFUSALS = (f"\x0e{RETRY_AFTER}=1500".encode(), f"\x08details\n{LEADER}=10.0.0.1:8080\n{RETRY_AFTER}=0".encode(), b"")
_words = ("nfd-master", "exp", "aud", 10**400, 1e308, float("inf"))

TARGETS = (
    Target(
        "report",
        "Report calls",
        reports,
        either(wire.wires, with_true_digests, Bytes()),
        run_report,
        (ValueError, ReportError),
    ),
    Target(
        "setlabels",
        "SetLabels calls",
        plain_reports,
        either(wire.wires, wire.wires, Bytes()),
        run_plain,
        (ValueError, ReportError),
    ),
    Target(
        "reply",
        "the master's answers",
        lambda: [
            convert.encode_answer(convert.Answer(60.0, (b"d" * 16,))),
            convert.encode_answer(convert.Answer(60.0, node_labels={names.DEPLOY_LABELS + "driver": "true"})),
            b"",
        ],
        either(wire.wires, Bytes()),
        run_answer,
        (ValueError,),
    ),
    Target(
        "refusal",
        "the master's refusals, trailers included",
        lambda: REFUSALS,
        Bytes(RETRY_AFTER, LEADER),
        run_refusal,
        (),
    ),
    Target(
        "token",
        "claims of callers' tokens",
        claims,
        either(Trees(*_words), Bytes(*_words[:3])),
        run_token,
        (Forbidden,),
    ),
)
