"""The order guard: late reports are refused, and nothing that was said shuts out an honest worker for good."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.errors import ReportError
from nfd.kube import jwt
from nfd.kube.token_reviews import Pod, _issued
from nfd.master.reports.store import ReportStore
from nfd.report import Report
from nfd.report_order import LONGEST_UPTIME, MOST_REPORTS, Order
from nfd.store.base import Node
from tests.master.conftest import BOOT
from tests.rpc.loopback import running

HIGHEST = LONGEST_UPTIME, MOST_REPORTS
NODE = Node("n", "uid", "1", BOOT, {}, {}, {}, ())


def order(pod: str, issued: float, started: int = 1, sequence: int = 1, boot: str = BOOT) -> Order:
    return Order(boot, started, sequence, pod, issued)


OLDER = [
    (order("a", 10, 1, 2), order("a", 10, 1, 1), False),
    (order("a", 10, 1, 1), order("a", 10, 1, 2), True),
    (order("a", 20, 1, 1), order("a", 10, 1, 2), True),
    (order("a", 10, 2, 1), order("a", 10, 1, 9), False),
    (order("b", 20, 1, 1), order("a", 10, *HIGHEST), False),
    (order("b", 10, 1, 1), order("a", 10, *HIGHEST), True),
    (order("b", 9, 1, 1), order("a", 10, *HIGHEST), True),
    (order("b", 9, 2, 1), order("a", 10, 1, 9), False),
    (order("", 0, 1, 1), order("", 0, 1, 2), True),
    (order("", 0, 1, 1), order("a", 10, 1, 2), True),
    (order("b", 20, 1, 1), order("", 0, 1, 2), True),
    (order("b", 0, 1, 1), order("a", 0, 1, 2), True),
]


@pytest.mark.parametrize(("one", "before", "older"), OLDER)
def test_which_report_is_older(one: Order, before: Order, older: bool) -> None:
    """Within a pod, and without tokens, start and count decide; another pod needs a later token to begin anew."""
    assert one.older(before) is older


COUNTS = st.tuples(st.integers(0, LONGEST_UPTIME), st.integers(0, MOST_REPORTS))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5), COUNTS), max_size=12), COUNTS)
def test_no_pod_shuts_out_the_next_one(said: list[tuple[str, int, tuple[int, int]]], counted: tuple[int, int]) -> None:
    """Whatever pods said, the one that comes after them is heard; also after their silence was taken for an end."""
    reports = ReportStore()
    for pod, issued, counts in said:
        try:
            reports.take(Report("n", order=order(pod, issued, *counts)), NODE, BOOT)
        except ReportError as error:
            assert "newer report" in str(error)  # noqa: PT017
    if said:
        reports.expire(NODE)
    fresh = Report("n", order=order("new", 6, *counted))
    reports.take(fresh, NODE, BOOT)
    assert reports.get("n") is fresh


@given(COUNTS, COUNTS)
def test_of_one_pod_the_later_report_stays(first: tuple[int, int], second: tuple[int, int]) -> None:
    reports = ReportStore()
    for counts in (first, second):
        try:
            reports.take(Report("n", order=order("a", 1, *counts)), NODE, BOOT)
        except ReportError:
            assert second < first
    kept = reports.get("n")
    assert kept is not None
    assert kept.order == Order(BOOT, *max(first, second))


POD = Pod("nfd/nfd-worker", "p", "u", "n", "i")


def token(claims: object) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.c2ln"


ISSUED = [
    ({"iat": 5, "kubernetes.io": {"pod": {"uid": "u"}}}, 5.0),
    ({"iat": 5, "kubernetes.io": {"pod": {"uid": "other"}}}, 0.0),
    ({"iat": 5, "kubernetes.io": {"pod": "u"}}, 0.0),
    ({"iat": 5, "kubernetes.io": []}, 0.0),
    ({"iat": 5}, 0.0),
    ({"iat": True, "kubernetes.io": {"pod": {"uid": "u"}}}, 0.0),
    ({"iat": "5", "kubernetes.io": {"pod": {"uid": "u"}}}, 0.0),
    ({"iat": float("nan"), "kubernetes.io": {"pod": {"uid": "u"}}}, 0.0),
    ({"iat": 1e300, "kubernetes.io": {"pod": {"uid": "u"}}}, 0.0),
    ({"kubernetes.io": {"pod": {"uid": "u"}}}, 0.0),
]


@pytest.mark.parametrize(("claims", "issued"), ISSUED)
def test_when_a_token_was_issued(claims: object, issued: float) -> None:
    read = jwt.parse(token(claims))
    assert read is not None
    assert _issued(read, POD) == issued


BEYOND = [(LONGEST_UPTIME + 1, 1), (2**63 - 1, 1), (2**64 - 1, 1), (1, MOST_REPORTS + 1), (1, 2**63 - 1)]


@pytest.mark.parametrize(("started", "sequence"), BEYOND)
async def test_values_that_no_clock_reaches_are_refused(started: int, sequence: int) -> None:
    """Over gRPC, without tokens, and the honest worker goes on."""
    async with running() as master:
        with pytest.raises(ReportError, match=r"INVALID_ARGUMENT: order: .*(no machine has|than any worker makes)"):
            await master.send(Report("n1", order=Order(BOOT, started, sequence)))
        await master.send(Report("n1", order=Order(BOOT, *HIGHEST)))
        assert len(master.taken.reports) == 1
