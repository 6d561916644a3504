"""Names of callers are compared as they are: nothing is taken away from one so that it becomes another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.errors import Forbidden
from nfd.kube.client import KubeClient
from nfd.kube.token_reviews import TokenReviews, account_of
from nfd.master.security.authentication import covers

WORKER = "system:serviceaccount:nfd:nfd-worker"
POD = {"pod-name": ["p"], "pod-uid": ["u"], "node-name": ["n"], "node-uid": ["i"]}


def reviewed(user: str) -> Mapping[str, Any]:
    extra = {f"authentication.kubernetes.io/{key}": value for key, value in POD.items()}
    return {"authenticated": True, "user": {"username": user, "extra": extra}}


async def identify(user: str) -> str:
    # the review names the node: nobody is asked
    tokens = TokenReviews(cast("KubeClient", None), "nfd-master", lambda: 0.0)
    return (await tokens._identify(reviewed(user))).account


async def test_a_worker() -> None:
    assert await identify(WORKER) == "nfd/nfd-worker"


@pytest.mark.parametrize(
    "user",
    [
        "",
        "nfd:nfd-worker",
        "serviceaccount:nfd:nfd-worker",
        "oidc:nfd:nfd-worker",
        "System:ServiceAccount:nfd:nfd-worker",
        " system:serviceaccount:nfd:nfd-worker",
        "system:serviceaccount:nfd:nfd-worker ",
        "system:serviceaccount:system:serviceaccount:nfd:nfd-worker",
        "system:serviceaccount:nfd/nfd-worker:x",
        "system:serviceaccount:nfd:nfd-worker:x",
        "system:serviceaccount::nfd-worker",
        "system:serviceaccount:nfd:",
        "system:serviceaccounts:nfd:nfd-worker",
        "system:node:nfd:nfd-worker",
    ],
)
async def test_no_other_user_is_one(user: str) -> None:
    with pytest.raises(Forbidden, match="not a service-account token"):
        await identify(user)


@given(st.text("system:rvcaoun-nfd/wk.", max_size=60))
def test_an_account_is_its_whole_name(user: str) -> None:
    namespace, name = account_of(user)
    assert (namespace == "") == (name == "")
    assert not namespace or user == f"system:serviceaccount:{namespace}:{name}"


NAMES = [
    ("n1", "n1", True),
    ("N1.Corp", "n1.corp", True),
    ("*.corp", "n1.corp", True),
    ("10.0.0.1", "10.0.0.1", True),
    ("2001:DB8::1", "2001:db8::1", True),
    ("n1.", "n1", False),
    ("n1..", "n1", False),
    ("n1", "n1.", False),
    ("*", "n1", False),
    ("*.corp", "a.b.corp", False),
    ("*.corp", ".corp", False),
    ("n1.*", "n1.corp", False),
    ("\N{KELVIN SIGN}1", "k1", False),
    ("", "", False),
    ("n1", "n2", False),
]


@pytest.mark.parametrize(("name", "node", "covered"), NAMES)
def test_names_in_certificates(name: str, node: str, covered: bool) -> None:
    assert covers(name, node) is covered
