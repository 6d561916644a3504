"""The master's own authority as a plan: which ones there are to be, who signs, and what a certificate says."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from cryptography import x509

from nfd.master.security.authority import (
    Authority,
    Lifetimes,
    choose_signer,
    issue,
    make_authority,
    plan_authorities,
    read_authorities,
    write_authorities,
)

NOW = 1_800_000_000.0
DAY = 86_400.0
TIMING = Lifetimes()


def authority(made: float) -> Authority:
    return make_authority(made, TIMING)


def test_authorities_survive_the_secret_and_nonsense_in_it() -> None:
    old, new = authority(NOW - DAY), authority(NOW)
    data = write_authorities((new, old))
    nonsense = {
        "a.crt": b"x",
        "b.key": b"y",
        f"{old.name}x.crt": old.certificate,
        f"{old.name}x.key": new.key,
        "z": b"",
    }
    assert read_authorities(data | nonsense) == (old, new)


@dataclass(frozen=True)
class Case:
    """Ages in days of the known authorities and of the newest one in the bundle; what is left, and who signs then."""

    name: str
    ages: tuple[float, ...]
    published: float | None
    kept: tuple[int | None, ...]
    """Indices into `ages`; None is a new one."""
    signer: int
    """Index into `kept`."""


CASES = (
    Case("nothing yet", (), None, (None,), 0),
    Case("one, young", (1,), 1, (0,), 0),
    Case("one, not in the bundle yet", (1,), None, (0,), 0),
    Case("one, old: the next one is made and does not sign", (121,), 121, (0, None), 0),
    Case("two, the new one not in the bundle", (121, 0.01), None, (0, 1), 0),
    Case("two, the new one just in the bundle", (121, 0.01), 0.006, (0, 1), 0),
    Case("two, the new one in every mount", (121, 0.01), 0.0075, (0, 1), 1),
    Case("two, certificates of the old one may be in use", (122, 1), 1.005, (0, 1), 1),
    Case("two, nothing of the old one is in use", (122, 1), 1.02, (1,), 0),
    Case("one that has ended", (181,), 181, (None,), 0),
    Case("two of which one has ended", (181, 60), 60, (1,), 0),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_plan(case: Case) -> None:
    known = tuple(authority(NOW - age * DAY) for age in case.ages)
    published = None if case.published is None else NOW - case.published * DAY
    wanted = plan_authorities(known, published, NOW, TIMING)
    assert tuple(known.index(one) if one in known else None for one in wanted) == case.kept
    since = published if wanted[-1] in known else NOW
    assert choose_signer(wanted, since, NOW, TIMING) == wanted[case.signer]
    if wanted[-1] in known:
        assert plan_authorities(wanted, published, NOW, TIMING) == wanted


def test_certificate_names_the_service_and_ends() -> None:
    leaf = issue(authority(NOW), ("nfd-master", "nfd-master.nfd.svc", "127.0.0.1"), NOW, TIMING)
    certificate = x509.load_pem_x509_certificate(leaf.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["nfd-master", "nfd-master.nfd.svc"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert certificate.not_valid_after_utc.timestamp() == NOW + DAY
