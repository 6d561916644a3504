"""Our own certificate authority: keys, certificates, and when which authority comes, signs and goes. Values only.

Times are seconds since the epoch. Certificates follow RFC 5280; keys are on the curve P-256, which every TLS library
takes.
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
"""Seconds by which a certificate is older than it is, for clocks that are late."""
CERTIFICATE, KEY = ".crt", ".key"
"""Ends of the names under which an authority is kept in the Secret."""

_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Seconds. `spread` is how long a new authority's certificate takes, at most, to reach every worker's mount."""

    interval: float = 60.0
    spread: float = 600.0
    leaf: float = 86_400.0
    rotate: float = 120 * 86_400.0
    life: float = 180 * 86_400.0

    @property
    def overlap(self) -> float:
        """From publishing a new authority until nothing that the old one signed is in use; one `spread` for delays."""
        return 2 * self.spread + self.leaf


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority as it is kept: PEM, and when its certificate was made and ends."""

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
    """A new one; certificates tell time in whole seconds."""
    now = float(int(now))
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    name = hashlib.sha256(public).hexdigest()[:16]
    subject = _subject(f"nfd-ca-{name}")
    builder = _builder(subject, subject, key.public_key(), key.public_key(), now, timing.life, ca=True)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return Authority(name, certificate, _key_pem(key), now, now + timing.life)


def issue(authority: Authority, names: Sequence[str], now: float, timing: Lifetimes) -> Leaf:
    """A new key and its certificate for these DNS names and addresses."""
    signer = serialization.load_pem_private_key(authority.key, None)
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError(f"authority {authority.name}: its key is not on an elliptic curve")
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
    """Those that the Secret's data hold, oldest first; what is no authority is passed over."""
    names = (key.removesuffix(CERTIFICATE) for key in data if key.endswith(CERTIFICATE))
    found = (_read(name, data[name + CERTIFICATE], data.get(name + KEY, b"")) for name in names)
    return tuple(sorted((one for one in found if one is not None), key=lambda one: (one.made, one.name)))


def write_authorities(authorities: Sequence[Authority]) -> dict[str, bytes]:
    """Data of the Secret, as `read_authorities` reads them."""
    certificates = {one.name + CERTIFICATE: one.certificate for one in authorities}
    return certificates | {one.name + KEY: one.key for one in authorities}


def bundle(authorities: Sequence[Authority]) -> str:
    """What workers trust."""
    return "".join(one.certificate.decode() for one in authorities)


def plan_authorities(
    known: Sequence[Authority], published: float | None, now: float, timing: Lifetimes
) -> tuple[Authority, ...]:
    """Which authorities there have to be, oldest first.

    `published` is when the newest of `known` came into the bundle, None if it is not there. An authority is replaced
    when it is old, and the old one goes when nothing is left that it signed; only then can the next change begin.
    """
    alive = tuple(one for one in known if one.ends > now)
    if len(alive) > 1 and published is not None and now >= published + timing.overlap:
        alive = alive[-1:]
    if not alive or (len(alive) == 1 and now >= alive[0].made + timing.rotate):
        alive = (*alive, make_authority(now, timing))
    return alive


def choose_signer(known: Sequence[Authority], published: float | None, now: float, timing: Lifetimes) -> Authority:
    """The newest, once every worker's mount has it; until then the one before, if there is one."""
    settled = published is not None and now >= published + timing.spread
    return known[-1] if settled or len(known) == 1 else known[-2]


def _read(name: str, certificate: bytes, key: bytes) -> Authority | None:
    try:
        parsed = x509.load_pem_x509_certificate(certificate)
        signer = serialization.load_pem_private_key(key, None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey) or parsed.public_key() != signer.public_key():
            return None
        _ = parsed.subject  # parsed when it is asked for; certificates that are signed repeat it
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
