"""Rejected changes are remembered: which keys are left out, when they are tried again, and how many are kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from nfd.errors import Conflict, Forbidden, Invalid, KubeError, Unauthorized, Unavailable
from nfd.kube.error_responses import error_of
from nfd.master.node.known_rejections import AT_MOST_EVERY, EVERYTHING, LASTS, MOST, RETRY, Rejections
from nfd.master.node.plan import Act
from nfd.master.node.writer import _named
from nfd.store.base import Kind, Node

F, V = "feature.node.kubernetes.io/", "vendor.io/"
A: Act = (Kind.LABELS, F + "a", False)
B: Act = (Kind.LABELS, V + "b", False)
NO = Invalid("no", by="webhook w")
POLICY = "nodes \"n\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
WEBHOOK = 'admission webhook "w.example.com" denied the request: no'
RIGHT = 'nodes "n" is forbidden: User "alice" cannot patch resource "nodes" in API group "" at the cluster scope'


def node(name: str, **labels: str) -> Node:
    return Node(name, "u", "1", "b", labels, {}, {}, ())


@dataclass
class Fleet:
    """Nodes that are refused something, and passes that were asked for: (node, in how many seconds)."""

    woken: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.refusals = Rejections(lambda name, seconds: self.woken.append((name, seconds)))

    def refuse(self, *names: str, act: Act = A, value: str = "1", now: float = 0.0, sure: bool = True) -> None:
        for name in names:
            self.refusals.refuse(name, {act: value}, NO, now, sure=sure)

    def left(self, name: str, now: float, value: str = "1") -> bool:
        return A in self.refusals.left_out(node(name), {A: value}, now)


def test_three_nodes_make_it_a_matter_of_all_and_a_fourth_is_the_next_canary() -> None:
    fleet = Fleet()
    fleet.refuse("n1", "n2")
    assert not fleet.left("n4", 1.0)
    fleet.refuse("n3")
    assert fleet.left("n4", 1.0)
    assert fleet.left("n4", 1.0, value="another value")
    assert fleet.refusals.probes("n1", RETRY) == ([A], [])
    fleet.refuse("n1", now=RETRY)
    assert fleet.refusals.probes("n4", 2 * RETRY) == ([A], []), "who has never tried goes first"
    assert fleet.refusals.accept("n4", {A: "1"}, 2 * RETRY) == {A: 3}
    assert {name for name, seconds in fleet.woken if seconds == 0} == {"n1", "n2", "n3"}
    assert not fleet.refusals.unwritten()


def test_where_some_node_gets_it_it_is_no_matter_of_all() -> None:
    """A policy about some nodes: they are refused again at once, and the others are not held up for them."""
    fleet = Fleet()
    fleet.refuse("n1", "n2", "n3")
    assert fleet.refusals.accept("n4", {A: "1"}, 1.0) == {A: 3}
    fleet.refuse("n1", "n2", "n3", now=1.1)
    assert not fleet.left("n5", 2.0)
    assert fleet.left("n1", 2.0)
    assert fleet.refusals.accept("n5", {A: "1"}, 2.0) == {}, "not at each of a thousand nodes"
    assert fleet.refusals.accept("n6", {A: "1"}, 1.0 + RETRY) == {A: 3}
    fleet.refuse("n1", "n2", "n3", now=6.0)
    assert fleet.left("n7", 6.0 + LASTS)


def test_another_value_is_tried_and_what_is_wanted_no_more_is_forgotten() -> None:
    fleet = Fleet()
    fleet.refuse("n1")
    assert fleet.left("n1", 1.0)
    assert not fleet.left("n1", 1.0, value="2")
    fleet.refuse("n1")
    assert fleet.refusals.left_out(node("n1"), {B: "1"}, 1.0) == frozenset()
    assert fleet.refusals.nodes() == set()


def test_a_node_that_changes_is_tried_at_once_but_not_all_the_time() -> None:
    fleet = Fleet()
    fleet.refuse("n1")
    fleet.refusals.passed(node("n1"), {A}, 0.0)
    assert A in fleet.refusals.left_out(replace(node("n1"), version="2", resources={"v/x": "1"}), {A: "1"}, 1.0)
    assert A not in fleet.refusals.left_out(node("n1", team="x"), {A: "1"}, 1.0)
    fleet.refusals.passed(node("n1", team="x"), {A}, 1.0)
    again = node("n1", team="y")
    assert A in fleet.refusals.left_out(again, {A: "1"}, 1.0 + AT_MOST_EVERY / 2)
    assert fleet.refusals.passed(again, {A}, 1.0 + AT_MOST_EVERY / 2) == AT_MOST_EVERY / 2
    assert A not in fleet.refusals.left_out(again, {A: "1"}, 1.0 + AT_MOST_EVERY)


def test_what_is_in_doubt_is_tried_together_later_each_time() -> None:
    fleet = Fleet()
    now, waits = 0.0, []
    for _ in range(5):
        fleet.refusals.refuse("n1", {A: "1", B: "1"}, NO, now, sure=False)
        waits.append(fleet.refusals.passed(node("n1"), {A, B}, now))
        now += waits[-1] or 0
        assert fleet.refusals.probes("n1", now) == ([], [A, B])
    assert waits == [1, 2, 4, 4, 4]
    assert not fleet.left("n2", now), "doubt of one node is none of another"


def test_a_canary_that_cannot_try_hands_over() -> None:
    fleet = Fleet()
    fleet.refuse("n1", "n2")
    fleet.refusals.hand_over("n1", 1.0)
    assert fleet.refusals.probes("n2", RETRY) == ([A], [])
    fleet.refusals.forget("n2")
    assert fleet.refusals.probes("n1", 2 * RETRY) == ([A], [])
    fleet.refusals.forget("n1")
    assert fleet.refusals.nodes() == set()
    assert fleet.refusals.unwritten() == []


def test_memory_has_a_limit_and_a_node_beyond_it_waits_as_a_whole() -> None:
    fleet = Fleet()
    for number in range(2 * MOST):
        fleet.refuse(f"n{number % 7}", act=(Kind.LABELS, f"{V}{number}", False))
    assert len(fleet.refusals.unwritten()) == MOST + 1
    assert EVERYTHING in fleet.refusals.left_out(node("n1"), {A: "1"}, 1.0)
    assert EVERYTHING not in fleet.refusals.left_out(node("other"), {A: "1"}, 1.0), "it is not sure what is refused"


@pytest.mark.parametrize(
    ("status", "said", "kind", "by"),
    [
        (422, POLICY, Invalid, "ValidatingAdmissionPolicy p"),
        (403, POLICY, Invalid, "ValidatingAdmissionPolicy p"),
        (413, POLICY, Invalid, "ValidatingAdmissionPolicy p"),
        *((status, WEBHOOK, Invalid, "webhook w.example.com") for status in (400, 401, 403, 404, 409, 422)),
        (422, "Node is invalid", Invalid, "validation"),
        (400, "bad", Invalid, "validation"),
        (403, RIGHT, Forbidden, ""),
        (401, "Unauthorized", Unauthorized, ""),
        (409, "the object has been modified", Conflict, ""),
        *((status, WEBHOOK, Unavailable, "") for status in (408, 429, 500, 503, 504)),
        (500, 'failed calling webhook "w": no endpoints', Unavailable, ""),
    ],
)
def test_who_refused_it(status: int, said: str, kind: type[KubeError], by: str) -> None:
    error = error_of("PATCH /x", status, {}, f'{{"message": "{said.replace(chr(34), chr(92) + chr(34))}"}}'.encode())
    assert type(error) is kind
    assert getattr(error, "by", "") == by


ACTS: tuple[Act, ...] = (
    A,
    (Kind.LABELS, F + "a.b", False),
    B,
    (Kind.RESOURCES, V + "slots", False),
    (Kind.TAINTS, V + "t:NoSchedule", False),
    (Kind.LABELS, "bare", True),
)


@pytest.mark.parametrize(
    ("said", "fields", "keys"),
    [
        (f"label {F}a is not for you", (), {F + "a"}),
        (f"failed expression: !('{F}a.b' in object.metadata.labels)", (), {F + "a.b"}),
        (f"not {F}a.", (), {F + "a"}),
        ("no", (f"status.capacity.{V}slots",), {V + "slots"}),
        ("no", (f"status.capacity[{V}slots]",), {V + "slots"}),
        (f"taint {V}t is reserved", (), {V + "t:NoSchedule"}),
        (f"k.startsWith('{V}')", (), {V + "b", V + "slots", V + "t:NoSchedule"}),
        (f"{V}*", (), {V + "b", V + "slots", V + "t:NoSchedule"}),
        (f"see https://{V}docs/{F}x and bare", (), set()),
        ("", ("spec.taints[0].key",), set()),
    ],
)
def test_keys_that_an_answer_names(said: str, fields: tuple[str, ...], keys: set[str]) -> None:
    named = _named(Invalid("", fields=frozenset(fields), said=said or " "), ACTS)
    assert {key for _, key, _ in named} == keys
