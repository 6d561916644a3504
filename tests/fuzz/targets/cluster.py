"""What the API server hands on from others: Nodes with anybody's metadata, NodeFeature objects, events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nfd.errors import Expired, Unavailable
from nfd.features import from_json, to_json
from nfd.kube.error_responses import error_of
from nfd.master.node.desired import Desired, derive_desired
from nfd.master.node.ownership import annotation, bookkeeping, parse_owned, render_owned
from nfd.master.node.patch import patches
from nfd.master.node.plan import Goal, plan_node
from nfd.master.node.proof import Proof
from nfd.master.rules.nodefeatures import Joining, join_objects, parse_feature_object
from nfd.quantity import parse_quantity, same_quantity
from nfd.report import Report
from nfd.report_order import Order
from nfd.rules.policy import Policy
from nfd.store.base import Kind, trim
from nfd.store.file import merge
from nfd.store.kube import KubeStore
from tests.fuzz import legal
from tests.fuzz.mutate import Bytes, either
from tests.fuzz.target import Made, Target, check
from tests.fuzz.targets.rules import FEATURES
from tests.fuzz.trees import Trees, encoded

F = "feature.node.kubernetes.io/"
UID, PROOF = "u1", Proof(b"the key in the Secret of masters")
REPORT = Report(
    "n1", "", "u1", Order("boot", 1, 1), {F + "cpu-a": "1", "nvidia.com/gpu.present": "true"}, {F + "note": "x"}
)
DESIRED = Desired(
    {
        **derive_desired(REPORT, Policy()).values,
        Kind.RESOURCES: {F + "dongle": "3"},
        Kind.TAINTS: {"vendor.io/t:NoSchedule": "v"},
    },
    boot_id="boot",
)


def some_node() -> dict[str, Any]:
    """One that was labelled before, by us and by others."""
    empty = trim({"metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7"}})
    before = Report("n1", "", "u1", Order("boot", 1, 1), {F + "cpu-b": "1", "mine": "1"}, {}, {"mine": "local"})
    planned = plan_node(Goal(derive_desired(before, Policy()), proof=PROOF), empty)
    notes = {
        **planned.records,
        annotation("taints"): "vendor.io/t=v:NoSchedule",
        annotation("extended-resources"): "old",
    }
    return {
        "metadata": {
            "name": "n1",
            "uid": "u1",
            "resourceVersion": "7",
            "annotations": {**notes, "volumes.kubernetes.io/x": "true"},
            "labels": {
                F + "cpu-b": "1",
                F + "mine": "1",
                F + "foreign": "1",
                "kubernetes.io/hostname": "n1",
                "nvidia.com/gpu.present": "true",
            },
            "managedFields": [
                {"manager": "kubelet", "time": "2030-01-01T00:00:00Z"},
                {"manager": "x", "subresource": "status"},
            ],
        },
        "spec": {
            "taints": [
                {"key": "vendor.io/t", "value": "v", "effect": "NoSchedule"},
                {"key": "a", "effect": "NoExecute"},
            ]
        },
        "status": {"capacity": {"cpu": "4", F + "old": "1"}, "nodeInfo": {"bootID": "boot"}},
    }


def run_node(data: bytes) -> Made:
    item = _mapping(data)
    node = trim(item)
    legal_before = node.labels
    owned = parse_owned(node.annotations, "", node.uid, PROOF)
    found = []
    for overwrite in (True, False):
        goal = Goal(DESIRED, overwrite=overwrite, policy=Policy(enable_taints=True), proof=PROOF)
        planned = plan_node(goal, node)
        for kind, change in planned.changes.items():
            check(change.remove <= owned.of(kind).keys(), "only what is recorded as ours is removed")
            if not overwrite:
                foreign = change.write.keys() & node.actual(kind).keys() - owned.of(kind).keys()
                check(not foreign or kind is Kind.TAINTS, f"somebody else's {sorted(foreign)} stay as they are")
        after: Any = item
        sent = [patch.body for patch in patches(planned)]
        for body in sent:
            after = merge(after, body)
        again = plan_node(goal, trim(after))
        check(not again, f"a second pass has nothing to do, and does {again.changes} {again.records} {again.forgotten}")
        found.append(sent)
    return f"{[len(owned.of(kind)) for kind in Kind]} {len(found[0])}", (
        legal_before,
        json.dumps(found, sort_keys=True),
    )


def run_ownership(data: bytes) -> Made:
    """The bookkeeping alone, as four texts: what is written again says the same."""
    texts = data.decode("utf-8", "replace").split("\n")
    keys = sorted(bookkeeping())
    owned = parse_owned(dict(zip(keys, texts, strict=False)), "", UID, PROOF)
    written = render_owned(owned, "", UID, PROOF)
    keys_of = (key for kind in Kind for key in owned.of(kind))
    if all(legal.is_key(key.partition(":")[0]) for key in keys_of):  # no Node has others
        again = parse_owned(written, "", UID, PROOF)
        check(not again.doubt, "what we wrote is proven")
        check(render_owned(again, "", UID, PROOF) == written, "bookkeeping that was read is written as it was")
    return f"{[len(owned.of(kind)) for kind in Kind]} {len(written)}", written


def run_object(data: bytes) -> Made:
    one = parse_feature_object(_mapping(data))
    joined = join_objects(REPORT, [one], Joining(Policy(), "nfd"))
    desired = derive_desired(joined, Policy())
    legal.check_labels(desired.of(Kind.LABELS))
    legal.check_foreign(desired.of(Kind.LABELS))
    check(from_json(to_json(one.features)) == one.features, "features in JSON are the same features")
    return f"{bool(one.node)} {len(one.labels)} {len(desired.of(Kind.LABELS))}", (joined, desired)


def run_event(data: bytes) -> Made:
    """A line of a watch on Nodes."""
    store = KubeStore(None)  # type: ignore[arg-type]  # nothing is asked
    store._informer._take(data)
    return f"{len(store.names())}", [store.get(name) for name in store.names()]


def run_status(data: bytes) -> Made:
    """An error answer: a header line, then the body."""
    head, _, body = data.partition(b"\n")
    error = error_of("GET /x", 400 + sum(head[:1]) % 120, {"Retry-After": head[1:].decode("latin-1")}, body)
    wait = getattr(error, "retry_after", None)
    check(wait is None or 0 <= wait < float("inf"), f"the wait is {wait} s")
    return type(error).__name__, (str(error), wait)


def run_quantity(data: bytes) -> Made:
    one, _, other = data.decode("utf-8", "replace").partition("\n")
    found = parse_quantity(one)
    return f"{found is None} {same_quantity(one, other)}", str(found)


def _mapping(data: bytes) -> Mapping[str, Any]:
    """JSON objects, as the API server sends them."""
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def feature_objects() -> Sequence[bytes]:
    metadata = {"name": "n1", "namespace": "nfd", "labels": {"nfd.node.kubernetes.io/node-name": "n1"}}
    spec = {"features": to_json(FEATURES), "labels": {"a": "1", "vendor.io/b": "x"}}
    return encoded({"metadata": metadata, "spec": spec}, {"metadata": {**metadata, "namespace": "other"}, "spec": None})


def events() -> Sequence[bytes]:
    gone = {"kind": "Status", "code": 410, "message": "too old"}
    whole = {"kind": "Node", "apiVersion": "v1", **some_node()}
    return encoded(
        *({"type": kind, "object": whole} for kind in ("ADDED", "DELETED", "BOOKMARK")),
        {"type": "ERROR", "object": gone},
    )


def bookkeepings() -> Sequence[bytes]:
    notes = some_node()["metadata"]["annotations"]
    return ["\n".join(notes.get(key, "") for key in sorted(bookkeeping())).encode(), b"a,b,x.io/c\n\n/d\n{}\nk=v:E\n"]


_words = (
    "labels",
    "annotations",
    *sorted(bookkeeping()),
    F + "a",
    "a,b",
    "/x",
    "x.io/*",
    "k=v:NoSchedule",
    ":",
    "lists",
    "proof",
    "boot",
    "origins",
    "0xff",
    "1Ki",
)
_trees = Trees(*_words)

TARGETS = (
    Target("node", "Nodes with anybody's metadata", lambda: encoded(some_node()), _trees, run_node, (ValueError,)),
    Target(
        "ownership",
        "bookkeeping annotations",
        bookkeepings,
        Bytes("?", '"lists":', "/*", '"labels":{"local":[', ",,", "=:", ":"),
        run_ownership,
        (),
    ),
    Target(
        "nodefeature",
        "NodeFeature objects",
        feature_objects,
        Trees("spec", "features", "flags", "elements", *_words),
        run_object,
        (ValueError,),
    ),
    Target(
        "watch",
        "events of a watch",
        events,
        either(Trees(*_words, "MODIFIED", "ERROR", "DELETED"), Bytes()),
        run_event,
        (ValueError, Expired, Unavailable),
    ),
    Target(
        "status",
        "error answers of the API server",
        lambda: [
            b"\x1d5\n" + one for one in encoded({"message": "no", "details": {"causes": [{"field": "metadata.uid"}]}})
        ],
        Bytes("message", "details", "causes", "field"),
        run_status,
        (),
    ),
    Target(
        "quantity",
        "Kubernetes quantities",
        lambda: (b"1.5Gi\n1536Mi", b"1e3\n1k", b"-.5m\n0"),
        Bytes("Ei", "e99", "E", "e-999", "n", longest=200),
        run_quantity,
        (),
    ),
)
