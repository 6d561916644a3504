"""Answers that a status of success comes with, and that are not what was asked for: trouble, and never news."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from nfd.errors import Expired, Unavailable
from nfd.kube.check_responses import (
    check_object,
    check_review,
    check_token_review,
    identified,
    parse_event,
    parse_page,
    place_of,
)

NODES = "/api/v1/nodes"
RULES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
META = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
STRANGERS: list[Any] = [
    {"error": "not today"},
    {},
    None,
    [],
    "ok",
    5,
    True,
    [{"metadata": {"name": "a"}}],
    {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503},
]
Spoil = Callable[[Any], object]
NULL = "items null"
LISTS: dict[str, Spoil] = {
    "no items": lambda answer: answer.pop("items"),
    NULL: lambda answer: answer.update(items=None),
    "items a mapping": lambda answer: answer.update(items={}),
    "items that are no objects": lambda answer: answer["items"].append("b"),
    "an item that is null": lambda answer: answer["items"].append(None),
    "an item without a name": lambda answer: answer["items"][0]["metadata"].pop("name"),
    "an item without metadata": lambda answer: answer["items"][0].pop("metadata"),
    "a name that is no text": lambda answer: answer["items"][0]["metadata"].update(name=5),
    "a namespace that is no text": lambda answer: answer["items"][0]["metadata"].update(namespace=5),
    "an item of another kind": lambda answer: answer["items"][0].update(kind="Pod", apiVersion="v1"),
    "another kind": lambda answer: answer.update(kind="PodList"),
    "an empty list of another kind": lambda answer: answer.update(kind="PodList", items=[]),
    "no list": lambda answer: answer.update(kind=answer["kind"].removesuffix("List")),
    "no kind": lambda answer: answer.pop("kind"),
    "another group": lambda answer: answer.update(apiVersion="other.io/v1"),
    "no version of the API": lambda answer: answer.pop("apiVersion"),
    "no metadata": lambda answer: answer.pop("metadata"),
    "no resourceVersion": lambda answer: answer["metadata"].pop("resourceVersion"),
    "an empty resourceVersion": lambda answer: answer["metadata"].update(resourceVersion=""),
    "a resourceVersion that is no text": lambda answer: answer["metadata"].update(resourceVersion=7),
    "a token that is no text": lambda answer: answer["metadata"].update({"continue": 7}),
}


def some_list(path: str, *, metadata_only: bool = False) -> dict[str, Any]:
    """As a real API server answers."""
    place = place_of(path, metadata_only=metadata_only)
    item: dict[str, Any] = {"metadata": {"name": "a", "resourceVersion": "3"}}
    if place.api_version != "v1":
        item |= {"kind": place.kind, "apiVersion": place.api_version}
    return {
        "kind": f"{place.kind}List",
        "apiVersion": place.api_version,
        "metadata": {"resourceVersion": "7"},
        "items": [item],
    }


@pytest.mark.parametrize("metadata_only", [False, True])
@pytest.mark.parametrize("path", [NODES, RULES])
def test_real_lists(path: str, metadata_only: bool) -> None:
    place, answer = place_of(path, metadata_only=metadata_only), some_list(path, metadata_only=metadata_only)
    page = parse_page(answer, place)
    assert ([item["metadata"]["name"] for item in page.items], page.token, page.version) == (["a"], "", "7")
    assert parse_page({**answer, "metadata": {"resourceVersion": "7", "continue": "x"}}, place).token == "x"
    assert parse_page({**answer, "items": []}, place).items == []


def test_an_empty_list_of_metadata_is_null() -> None:
    """So kube-apiserver 1.36 writes it, of every kind; no other list."""
    answer = {**some_list(NODES, metadata_only=True), "items": None}
    assert parse_page(answer, place_of(NODES, metadata_only=True)).items == []


@pytest.mark.parametrize("path", [NODES, RULES])
@pytest.mark.parametrize(
    ("spoil", "metadata_only"),
    [(spoil, bare) for bare in (False, True) for spoil in LISTS if not (bare and spoil == NULL)],
)
def test_a_list_that_is_none(spoil: str, path: str, metadata_only: bool) -> None:
    answer = some_list(path, metadata_only=metadata_only)
    LISTS[spoil](answer)
    with pytest.raises(Unavailable, match=re.escape(f"GET {path}: the answer is ")) as raised:
        parse_page(answer, place_of(path, metadata_only=metadata_only))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("answer", STRANGERS)
def test_strangers(answer: object) -> None:
    for check in (parse_page, check_object, check_review, check_token_review):
        with pytest.raises(Unavailable):
            check(answer, place_of(NODES))
    with pytest.raises(Unavailable):
        parse_event(json.dumps(answer).encode(), place_of(NODES))


def test_an_object_is_the_one_that_was_asked_for() -> None:
    place, bare = place_of(f"{NODES}/a/status"), place_of(f"{NODES}/a/status", metadata_only=True)
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}
    assert check_object(node, place) == node
    assert check_object({**META, "metadata": {"name": "a"}}, bare)["metadata"] == {"name": "a"}
    for other in ({"kind": "Pod"}, {"apiVersion": "v2"}, {"metadata": {"name": "b"}}, {"metadata": {}}):
        with pytest.raises(Unavailable):
            check_object({**node, **other}, place)


def event(kind: str, /, **fields: Any) -> bytes:
    item = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "3"}, **fields}
    return json.dumps({"type": kind, "object": item}).encode()


def test_real_events() -> None:
    place = place_of(NODES)
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        found = parse_event(event(kind), place)
        assert (found.type, found.item["metadata"]["name"], found.version) == (kind, "a", "3")
    bookmark = parse_event(event("BOOKMARK", metadata={"resourceVersion": "9"}), place)
    assert (bookmark.type, bookmark.version) == ("BOOKMARK", "9")
    status = {"kind": "Status", "code": 410, "message": "too old"}
    with pytest.raises(Expired, match="too old"):
        parse_event(json.dumps({"type": "ERROR", "object": status}).encode(), place)
    with pytest.raises(Unavailable, match="busy"):
        parse_event(json.dumps({"type": "ERROR", "object": {**status, "code": 500, "message": "busy"}}).encode(), place)


@pytest.mark.parametrize(
    "line",
    [
        event("GONE"),
        b'{"type": {"ADDED": 1}, "object": {}}',
        b'{"type": ["ADDED"]}',
        event("DELETED", kind="Pod"),
        event("DELETED", apiVersion="v2"),
        event("DELETED", metadata={"resourceVersion": "3"}),
        event("DELETED", metadata={"name": "a"}),
        event("DELETED", metadata=None),
        event("BOOKMARK", metadata={}),
        event("ADDED", metadata={"name": 5, "resourceVersion": "3"}),
        b'{"type": "DELETED", "object": null}',
        b'{"type": "DELETED"}',
        b'{"object": {}}',
        event("ADDED")[:-5],
        b"<html>it works</html>",
        b"[" * 100_000,
    ],
)
def test_an_event_that_is_none(line: bytes) -> None:
    with pytest.raises(Unavailable, match=f"watch of {NODES}: (invalid JSON|not an event)") as raised:
        parse_event(line, place_of(NODES))
    assert "\n" not in str(raised.value)


REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
REVIEW: dict[str, Any] = {
    "kind": "TokenReview",
    "apiVersion": "authentication.k8s.io/v1",
    "status": {"authenticated": True, "user": {"username": "alice", "groups": ["a"], "extra": {"x": ["y"]}}},
}


def test_real_reviews() -> None:
    place = place_of(REVIEWS)
    assert check_token_review(REVIEW, place)["user"]["username"] == "alice"
    refused = {**REVIEW, "status": {"user": {}, "error": "invalid bearer token"}}
    assert check_token_review(refused, place).get("authenticated") is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda answer: answer.pop("status"),
        lambda answer: answer.pop("kind"),
        lambda answer: answer.update(kind="SubjectAccessReview"),
        lambda answer: answer.update(apiVersion="v1"),
        lambda answer: answer.update(status=True),
        lambda answer: answer["status"].update(authenticated="true"),
        lambda answer: answer["status"].update(authenticated=1),
        lambda answer: answer["status"].update(user="alice"),
        lambda answer: answer["status"].update(audiences="nfd-master"),
        lambda answer: answer["status"]["user"].update(username=["alice"]),
        lambda answer: answer["status"]["user"].update(groups="system:masters"),
        lambda answer: answer["status"]["user"].update(extra=["x"]),
        lambda answer: answer["status"]["user"].update(extra={"x": "y"}),
        lambda answer: answer["status"]["user"].update(extra={"x": [5]}),
    ],
)
def test_a_review_that_is_none(spoil: Spoil) -> None:
    answer = copy.deepcopy(REVIEW)
    spoil(answer)
    with pytest.raises(Unavailable):
        check_token_review(answer, place_of(REVIEWS))


@pytest.mark.parametrize(
    "answer",
    [
        '{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7',
        '{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":""}}',
        '{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"","resourceVersion":"7"}}',
        '{"kind":"Node","apiVersion":"v1","metadata":{"name":"a\\",\\"uid","uid":"u","resourceVersion":"7"}}',
        '{"kind":"Node","apiVersion":"v1","metadata":{"labels":{"resourceVersion":"7"},"name":"a","uid":"u"}}',
        '{"metadata":{"name":"a","uid":"u","resourceVersion":"7"},"kind":"Node","apiVersion":"v1"}',
        '{ "kind": "Node", "apiVersion": "v1", "metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}}',
        "",
        "<html>",
    ],
)
def test_answers_that_have_to_be_parsed(answer: str) -> None:
    assert not identified(answer.encode())


def test_an_answer_that_says_at_its_beginning_what_it_is() -> None:
    answer = b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"7","labels":{}}}'
    assert identified(answer) == (b"a", b"u", b"7")
