"""What certificates say of who they are for, odd ones included."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nfd.rpc.tls import names_of

FOUND = Path(__file__).parents[1] / "fuzz/found"


def odd_version() -> bytes:
    """Version 102, as fuzzing found it."""
    (certificate,) = (
        value
        for key, value in json.loads((FOUND / "authority--version-of-no-certificate").read_text()).items()
        if key.endswith(".crt")
    )
    return str(certificate).encode()


@pytest.mark.parametrize(
    "certificate",
    [b"", b"x", b"-----BEGIN CERTIFICATE-----", odd_version()],
    ids=["empty", "text", "header", "version"],
)
def test_no_certificate(certificate: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        names_of(certificate)
