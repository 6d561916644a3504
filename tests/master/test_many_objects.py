"""Many NodeFeature objects for one node: a pass over it stays short, and no namespace displaces another's objects."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from nfd.features import Features, merge
from nfd.master.node.outcome import NO_RULES, evaluate_node
from nfd.master.rules.nodefeatures import MOST, FeatureObject, Joining, Size, admit_objects, parse_feature_object
from nfd.report import Report
from nfd.store.base import Kind, Node

OWN, TENANT, OTHER = "nfd", "tenant", "another"
JOINING = Joining(namespace=OWN)
FEW = Size(objects=4, labels=10, letters=1000, elements=40)


def one(namespace: str, name: str, labels: Mapping[str, str] | None = None, elements: int = 0) -> FeatureObject:
    flags = {"vendor.x": frozenset(f"{name}.{number}" for number in range(elements))}
    return FeatureObject(namespace, name, "n", labels or {}, Features(flags if elements else {}))


def used(objects: Sequence[FeatureObject], most: Size = FEW) -> list[str]:
    return sorted(f"{found.namespace}/{found.name}" for found in admit_objects(objects, JOINING, most).objects)


@pytest.mark.parametrize("kind", ["flags", "attributes", "instances"])
def test_the_time_of_a_merge_grows_with_the_objects_and_no_faster(kind: str) -> None:
    """Sixteen times the objects may take eighty times as long (larger sets use slower memory), but not 256 times."""

    def part(number: int) -> Features:
        names = [f"{number}.{index}" for index in range(500)]
        made: dict[str, Any] = {
            "flags": frozenset(names),
            "attributes": dict.fromkeys(names, "v"),
            "instances": tuple({"a": name} for name in names),
        }
        return Features(**{kind: {"vendor.x": made[kind]}})

    def seconds(count: int) -> float:
        parts, best = [part(number) for number in range(count)], float("inf")
        for _ in range(5):
            began = time.process_time()
            merge(parts)
            best = min(best, time.process_time() - began)
        return best

    assert seconds(400) < 80 * seconds(25)


def test_all_are_used_that_fit_together() -> None:
    objects = [one(TENANT, "b", {"x": "1"}, 20), one(OWN, "a", {"y": "1"}, 40), one(OTHER, "c", elements=20)]
    found = admit_objects(objects, JOINING, FEW)
    assert (found.objects, found.surplus, found.origins) == (tuple(objects), (), frozenset())
    again = admit_objects(found.objects, JOINING, FEW)
    assert again == found


@pytest.mark.parametrize(
    "flood",
    [
        [one(TENANT, f"a{number:03d}") for number in range(100)],
        [one(TENANT, f"a{number:03d}", {f"k{number}.{at}": "v" for at in range(4)}) for number in range(100)],
        [one(TENANT, f"a{number:03d}", {f"k{number}": "v" * 300}) for number in range(100)],
        [one(TENANT, f"a{number:03d}", elements=15) for number in range(100)],
    ],
    ids=["objects", "labels", "letters", "elements"],
)
def test_no_namespace_displaces_the_objects_of_another(flood: list[FeatureObject]) -> None:
    """The master's namespace has its own limits; the order of the informer has no influence."""
    honest = [one(OTHER, "z", {"z": "1"}, 10), one(OWN, "z", {"own": "1"}, 40)]
    found = used([*flood, *honest])
    assert {f"{OTHER}/z", f"{OWN}/z"} < set(found)
    assert used([*reversed(flood), *honest]) == found
    assert len(found) < 2 + FEW.objects
    total = admit_objects([*flood, *honest], JOINING, FEW)
    assert len(total.objects) + len(total.surplus) == len(flood) + 2


def test_a_namespace_leaves_to_others_what_it_does_not_need() -> None:
    objects = [one(OTHER, "z"), *(one(TENANT, f"a{number}") for number in range(5))]
    assert used(objects) == [f"{OTHER}/z", f"{TENANT}/a0", f"{TENANT}/a1", f"{TENANT}/a2"]


def test_the_object_of_nfds_worker_is_always_used() -> None:
    workers = one(OWN, "n", {"cpu": "1"}, 10 * FEW.elements)
    objects = [*(one(OWN, f"a{number}") for number in range(9)), workers]
    assert f"{OWN}/n" in used(objects)


def test_one_object_of_a_megabyte_still_fits() -> None:
    assert one(TENANT, "big", {f"k{number}": "v" for number in range(3000)}, 40_000).size.fits(MOST)


def test_what_surplus_objects_gave_stays() -> None:
    """Neither their keys nor those of rules are removed, and the worker's report applies."""
    flood = [one(TENANT, f"a{number:04d}", {f"t.io/k{number}": "v"}) for number in range(MOST.objects + 10)]
    outcome = evaluate_node(Node.bare("n"), Report("n", labels={"cpu-x": "1"}), NO_RULES, flood, JOINING)
    last = flood[-1].origin
    assert len(outcome.surplus) == 10
    assert last in outcome.surplus
    assert not outcome.fresh.proves_absent(last)
    assert outcome.fresh.proves_absent(flood[0].origin)
    assert outcome.fresh.blind
    labels = outcome.derive_desired().of(Kind.LABELS)
    assert labels["feature.node.kubernetes.io/cpu-x"] == "1"
    assert len(labels) == MOST.objects + 1
    fewer = evaluate_node(Node.bare("n"), Report("n"), NO_RULES, flood[: MOST.objects], JOINING)
    assert not fewer.surplus
    assert not fewer.fresh.blind


def aged(namespace: str, name: str, created: str, labels: Mapping[str, str] | None = None) -> FeatureObject:
    return replace(one(namespace, name, labels), created=created)


def test_more_namespaces_than_objects_do_not_displace_earlier_ones() -> None:
    """Whoever can create namespaces cannot stop the use of all objects of a node."""
    before = [aged(f"z{number:03d}", "a", "2026-01-01T00:00:00Z") for number in range(MOST.objects)]
    newcomers = [aged(f"a{number:03d}", "a", "2026-01-02T00:00:00Z") for number in range(44)]
    found = admit_objects([*newcomers, *before], JOINING)
    assert sorted(one.namespace for one in found.objects) == [one.namespace for one in before]
    assert {one.origin for one in newcomers} == found.origins
    assert admit_objects(found.objects, JOINING).objects == found.objects


def test_more_namespaces_of_many_objects_each_give_one() -> None:
    """By name, where all are of the same time."""
    objects = [one(f"n{number:03d}", name) for number in range(300) for name in ("a", "b")]
    found = admit_objects(objects, JOINING)
    assert [f"{one.namespace}/{one.name}" for one in found.objects] == [f"n{number:03d}/a" for number in range(256)]
    assert len(found.surplus) == 600 - 256


def test_an_object_larger_than_a_share_is_used_while_it_fits() -> None:
    """Of two with six labels one fits into ten; the earlier one, whichever name its namespace has."""
    six = {f"k{number}": "v" for number in range(6)}
    objects = [aged(TENANT, "a", "2026-01-02T00:00:00Z", six), aged("z", "a", "2026-01-01T00:00:00Z", six)]
    assert used(objects) == ["z/a"]
    assert used([*objects, aged(OTHER, "a", "2026-01-03T00:00:00Z", {"x": "1"})]) == [f"{OTHER}/a", "z/a"]


def test_the_time_of_an_object_is_that_of_the_api_server() -> None:
    metadata = {"namespace": TENANT, "name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}
    assert parse_feature_object({"metadata": metadata, "spec": {}}).created == "2026-01-01T00:00:00Z"
    with pytest.raises(ValueError, match="metadata: 'creationTimestamp'"):
        parse_feature_object({"metadata": metadata | {"creationTimestamp": 5}, "spec": {}})
