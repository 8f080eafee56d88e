"""Certificates for tests, made on the spot: authorities, and what they sign."""

import datetime
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, as files."""

    cert_path: Path
    key_path: Path


class Authority:
    """Signs certificates; its own one is what the other side must trust."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.cert_path = directory / f"{name}.pem"
        certificate = _build(self._name, self._name, self._key.public_key(), is_authority=True)
        self.cert_path.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, *, file_name: str = "", key_password: str = "") -> Issued:
        """Write a new key and certificate, over those of the same file name."""
        key = ec.generate_private_key(ec.SECP256R1())
        issued = Issued(
            cert_path=self._directory / f"{file_name or name}.cert.pem",
            key_path=self._directory / f"{file_name or name}.key.pem",
        )
        certificate = _build(_name(name), self._name, key.public_key(), is_authority=False)
        issued.cert_path.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))
        issued.key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(key_password.encode())
                if key_password
                else serialization.NoEncryption(),
            )
        )
        return issued


def common_name(der: bytes | None) -> str:
    """Whom a certificate names."""
    assert der is not None
    (attribute,) = x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(
        NameOID.COMMON_NAME
    )
    return str(attribute.value)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _build(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
