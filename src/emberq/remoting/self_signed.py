"""A throw-away certificate for `tls.test.mode.enable=true`, the official default."""

import datetime
import os
import ssl
import tempfile
from pathlib import Path

from emberq.errors import ConfigError

_VALID_FOR = datetime.timedelta(days=365)


def load_self_signed(context: ssl.SSLContext) -> None:
    """Give `context` a fresh key and certificate. Raises ConfigError without `cryptography`."""
    try:
        from cryptography import x509  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
        from cryptography.x509.oid import NameOID  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            "TLS without certificate files needs a self-signed one: "
            'pip install "emberq[tls]", or set tls.test.mode.enable=false and '
            "tls.server.certPath, tls.server.keyPath"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "emberq.test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _VALID_FOR)
        .sign(key, hashes.SHA256())
    )
    text = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    # The ssl module reads chains from files only; the file lives for this one call.
    handle, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        context.load_cert_chain(path)
    finally:
        Path(path).unlink()
