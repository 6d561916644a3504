"""Keys and certificates of one throw-away control plane, made on the spot and thrown away with it."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pki:
    """Paths of the PEM files: a CA, the server's certificate and key, the key that signs service account tokens."""

    ca: Path
    certificate: Path
    key: Path
    service_account_key: Path

    @classmethod
    def inside(cls, folder: Path) -> Pki:
        return cls(folder / "ca.crt", folder / "server.crt", folder / "server.key", folder / "service-account.key")


def create(folder: Path) -> Pki:
    """Write all of it into `folder`; the server is `127.0.0.1`, `localhost` and `kubernetes.default.svc`."""
    pki = Pki.inside(folder)
    ca_key, server_key = new_key(), new_key()
    ca = certify("control-plane-ca", ca_key, issuer=None, signer=ca_key)
    server = certify("kube-apiserver", server_key, issuer=ca, signer=ca_key)
    pki.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    pki.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    write_key(pki.key, server_key)
    write_key(pki.service_account_key, new_key())
    return pki


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )


def certify(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    *,
    issuer: x509.Certificate | None,
    signer: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    """A certificate for `key`: a CA's own without `issuer`, else a server's."""
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(key_usage(ca=issuer is None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if issuer:
        builder = builder.add_extension(server_names(), critical=False)
    return builder.sign(signer, hashes.SHA256())


def key_usage(*, ca: bool) -> x509.KeyUsage:
    """Python 3.13 and later refuse a CA that does not say it may sign."""
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def server_names() -> x509.SubjectAlternativeName:
    names = (x509.DNSName("localhost"), x509.DNSName("kubernetes.default.svc"))
    return x509.SubjectAlternativeName([*names, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
