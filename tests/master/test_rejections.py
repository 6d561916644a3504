"""Keys that the policy rejects, and what the log says about them."""

from __future__ import annotations

import pytest

from nfd.errors import ReportError
from nfd.master.security.authentication import CertificateAuthenticator, LoggedRejections
from nfd.rpc.caller_types import Peer


def test_same_refusal_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    complaints = LoggedRejections(lambda: now)
    for _ in range(100):
        complaints.make("reason", "PERMISSION_DENIED", node="n1")
    assert len(caplog.records) == 1
    complaints.make("reason", "PERMISSION_DENIED", node="n2")
    assert len(caplog.records) == 2
    now = 60.0
    complaints.make("reason", "PERMISSION_DENIED", node="n1")
    assert len(caplog.records) == 3


@pytest.mark.parametrize(
    ("common_name", "others", "node", "taken"),
    [
        ("n1", (), "n1", True),
        ("N1", (), "n1", False),
        ("nfd-worker", ("n1",), "n1", True),
        ("nfd-worker", ("N1.example",), "n1.EXAMPLE", True),
        ("nfd-worker", ("*.example",), "n1.example", True),
        ("nfd-worker", ("*.example",), "a.n1.example", False),
        ("nfd-worker", ("*",), "n1", False),
        ("nfd-worker", ("10.0.0.1",), "10.0.0.1", True),
        ("", ("n1",), "n1", True),
        ("", ("n2",), "n1", False),
    ],
)
async def test_names_in_certificates(common_name: str, others: tuple[str, ...], node: str, taken: bool) -> None:
    """As NFD's -verify-node-name: the common name as it is, other names as host names."""
    gate = CertificateAuthenticator()
    caller = await gate.identify(Peer("ipv4:10.0.0.9:1", "", common_name, others))
    if taken:
        gate.admit(caller, node)
        return
    with pytest.raises(ReportError, match=f"not for node {node}") as caught:
        gate.admit(caller, node)
    assert caught.value.code == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("ipv6:%5B::1%5D:1", "::1"),
        ("ipv6:[fd00::2]:4711", "fd00::2"),
        ("ipv6:%5Bfe80::1%25eth0%5D:4711", "fe80::1%eth0"),
        ("ipv4:10.0.0.9:4711", "10.0.0.9"),
    ],
)
async def test_no_certificate_where_one_is_asked_for(
    address: str, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the caller's address, and no node, since none is known."""
    with pytest.raises(ReportError, match="has no certificate") as caught:
        await CertificateAuthenticator().identify(Peer(address))
    assert caught.value.code == "PERMISSION_DENIED"
    (record,) = [one for one in caplog.records if one.message == "report rejected"]
    fields = record.__dict__["fields"]
    assert (fields["address"], fields["node"]) == (shown, None)
