"""TLS on the name server's port, with its official keys."""

from pathlib import Path

import pytest

from emberq.errors import ConfigError, RemotingError
from emberq.protocol.codes import RequestCode
from emberq.remoting.tls import TlsSettings, TlsSide, client_context
from emberq.testing.local_nameserver import connected
from tests.integration.nameserver.running import name_server

pytestmark = pytest.mark.integration

UNCHECKED = client_context(TlsSettings())


async def is_served(address: tuple[str, int], *, tls: bool) -> bool:
    try:
        async with connected(*address, tls=UNCHECKED if tls else None) as client:
            return (await client.call(RequestCode.GET_BROKER_CLUSTER_INFO)).code == 0
    except RemotingError:
        return False


@pytest.mark.parametrize(
    ("mode", "serves_plain", "serves_tls"),
    [("disabled", True, False), ("permissive", True, True), ("enforcing", False, True)],
)
async def test_the_mode_says_what_the_port_takes(
    tmp_path: Path, mode: str, serves_plain: bool, serves_tls: bool
) -> None:
    async with name_server(tmp_path, **{"tls.server.mode": mode}) as address:
        assert await is_served(address, tls=False) is serves_plain
        assert await is_served(address, tls=True) is serves_tls


async def test_a_certificate_of_our_own_is_shown_and_checked(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    write_certificate(certificate, key)
    checking = client_context(
        TlsSettings(
            is_test_mode=False, client=TlsSide(is_peer_checked=True, trust_cert_path=certificate)
        )
    )
    keys = {
        "tls.test.mode.enable": "false",
        "tls.server.certPath": str(certificate),
        "tls.server.keyPath": str(key),
    }

    async with (
        name_server(tmp_path, **keys) as address,
        connected(*address, tls=checking) as client,
    ):
        assert (await client.call(RequestCode.GET_BROKER_CLUSTER_INFO)).code == 0


async def test_files_that_are_not_there_fail_the_start(tmp_path: Path) -> None:
    keys = {"tls.test.mode.enable": "false", "tls.server.certPath": str(tmp_path / "none.pem")}

    with pytest.raises(ConfigError, match=r"tls\.server\.keyPath is not set"):
        async with name_server(tmp_path, **keys):
            pass


def write_certificate(certificate_path: Path, key_path: Path) -> None:
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "name server of a test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
