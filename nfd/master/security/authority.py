"""The master's certificate authority: keys, certificates, and when an authority is added, signs and is removed (pure).

Times are seconds since the epoch. Certificates follow RFC 5280. Keys are on the curve P-256, which every TLS library
supports.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SKEW = 3600.0
"""Seconds by which certificates are valid before they are made, for clocks that are behind."""
CERTIFICATE, KEY = ".crt", ".key"
"""Suffixes of an authority's entries in the Secret."""

_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """All in seconds. `spread` is the longest time until every worker's volume has a new authority's certificate."""

    interval: float = 60.0
    spread: float = 600.0
    leaf: float = 86_400.0
    rotate: float = 120 * 86_400.0
    life: float = 180 * 86_400.0

    @property
    def overlap(self) -> float:
        """From the publication of a new authority until no certificate of the old one is in use; includes one `spread`
        for delays."""
        return 2 * self.spread + self.leaf


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority as it is stored: PEM, and the validity of its certificate."""

    name: str
    certificate: bytes
    key: bytes
    made: float
    ends: float


@dataclass(frozen=True, slots=True)
class Leaf:
    """A server's certificate, its key, and when it was made; `signer` is the authority's name."""

    certificate: bytes
    key: bytes
    made: float
    signer: str


def make_authority(now: float, timing: Lifetimes) -> Authority:
    """Make a new authority; certificates have times in whole seconds."""
    now = float(int(now))
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    name = hashlib.sha256(public).hexdigest()[:16]
    subject = _subject(f"nfd-ca-{name}")
    builder = _builder(subject, subject, key.public_key(), key.public_key(), now, timing.life, ca=True)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return Authority(name, certificate, _key_pem(key), now, now + timing.life)


def issue(authority: Authority, names: Sequence[str], now: float, timing: Lifetimes) -> Leaf:
    """Make a key, and a certificate for these DNS names and addresses."""
    signer = serialization.load_pem_private_key(authority.key, None)
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError(f"authority {authority.name}: its key is not an elliptic-curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(
        _subject(names[0]), issuer.subject, key.public_key(), signer.public_key(), now, timing.leaf, ca=False
    )
    builder = builder.add_extension(
        x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
    )
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return Leaf(certificate, _key_pem(key), now, authority.name)


def read_authorities(data: Mapping[str, bytes]) -> tuple[Authority, ...]:
    """The authorities in the Secret's data, oldest first; other entries are ignored."""
    names = (key.removesuffix(CERTIFICATE) for key in data if key.endswith(CERTIFICATE))
    found = (_read(name, data[name + CERTIFICATE], data.get(name + KEY, b"")) for name in names)
    return tuple(sorted((one for one in found if one is not None), key=lambda one: (one.made, one.name)))


def write_authorities(authorities: Sequence[Authority]) -> dict[str, bytes]:
    """The Secret's data, as `read_authorities` reads them."""
    certificates = {one.name + CERTIFICATE: one.certificate for one in authorities}
    return certificates | {one.name + KEY: one.key for one in authorities}


def bundle(authorities: Sequence[Authority]) -> str:
    """The certificates that workers trust."""
    return "".join(one.certificate.decode() for one in authorities)


def plan_authorities(
    known: Sequence[Authority], published: float | None, now: float, timing: Lifetimes
) -> tuple[Authority, ...]:
    """Which authorities are needed, oldest first.

    `published` is when the newest of `known` was added to the bundle, None if it is not in it. An old authority is
    replaced. It is removed when none of its certificates is in use; only then can the next replacement begin.
    """
    alive = tuple(one for one in known if one.ends > now)
    if len(alive) > 1 and published is not None and now >= published + timing.overlap:
        alive = alive[-1:]
    if not alive or (len(alive) == 1 and now >= alive[0].made + timing.rotate):
        alive = (*alive, make_authority(now, timing))
    return alive


def choose_signer(known: Sequence[Authority], published: float | None, now: float, timing: Lifetimes) -> Authority:
    """The newest authority once every worker's volume has it; until then the one before, if there is one."""
    settled = published is not None and now >= published + timing.spread
    return known[-1] if settled or len(known) == 1 else known[-2]


def _read(name: str, certificate: bytes, key: bytes) -> Authority | None:
    try:
        parsed = x509.load_pem_x509_certificate(certificate)
        signer = serialization.load_pem_private_key(key, None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey) or parsed.public_key() != signer.public_key():
            return None
        _ = parsed.subject  # it is parsed lazily, and signed certificates repeat it
        made, ends = parsed.not_valid_before_utc.timestamp() + SKEW, parsed.not_valid_after_utc.timestamp()
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        return None
    return Authority(name, certificate, key, made, ends)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    now: float,
    life: float,
    *,
    ca: bool,
) -> x509.CertificateBuilder:
    usage = {"key_cert_sign", "crl_sign"} if ca else {"digital_signature"}
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_time(now - SKEW))
        .not_valid_after(_time(now + life))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
        .add_extension(x509.KeyUsage(**{name: name in usage for name in _USAGES}), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _subject(name: str) -> x509.Name:
    organisation = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "node-feature-discovery")
    return x509.Name([organisation, x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(microsecond=0)
