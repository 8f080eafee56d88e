"""TLS settings in the official words, and contexts that follow their files."""

import os
import ssl
import sys
from pathlib import Path

import pytest

from emberq.errors import ConfigError
from emberq.remoting.tls import (
    RELOAD_CHECK_INTERVAL_S,
    ServerTls,
    TlsMode,
    TlsSettings,
    TlsSide,
    client_context,
    is_tls_key,
    settings_from,
)
from tests.support.certificates import Authority, Issued


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_check_interval(self) -> None:
        self.now += RELOAD_CHECK_INTERVAL_S


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def server_settings(issued: Issued, **side: object) -> TlsSettings:
    properties = {
        "tls.test.mode.enable": "false",
        "tls.server.certPath": str(issued.cert_path),
        "tls.server.keyPath": str(issued.key_path),
    }
    return settings_from(properties | {f"tls.server.{k}": str(v) for k, v in side.items()})


def touch(path: Path, content: bytes) -> None:
    """Replace a file so that its time differs, however coarse the file system's clock is."""
    stamp = path.stat().st_mtime_ns + 1_000_000_000
    path.write_bytes(content)
    os.utime(path, ns=(stamp, stamp))


def test_without_any_key_the_official_defaults_hold() -> None:
    settings = settings_from({})

    assert settings == TlsSettings()
    assert settings.mode is TlsMode.PERMISSIVE
    assert settings.is_test_mode
    assert not settings.is_client_enabled


def test_all_keys_are_read() -> None:
    settings = settings_from(
        {
            "tls.server.mode": " Enforcing ",
            "tls.test.mode.enable": "FALSE",
            "tls.server.need.client.auth": "Require",
            "tls.enable": "true",
            "tls.server.keyPath": "/s/key",
            "tls.server.keyPassword": "secret",
            "tls.server.certPath": "/s/cert",
            "tls.server.trustCertPath": "/s/trust",
            "tls.server.authClient": "true",
            "tls.client.keyPath": " ",
            "tls.client.keyPassword": "",
            "tls.client.certPath": "/c/cert",
            "tls.client.trustCertPath": "/c/trust",
            "tls.client.authServer": "True",
        }
    )

    assert settings == TlsSettings(
        mode=TlsMode.ENFORCING,
        is_test_mode=False,
        client_certificate="require",
        is_client_enabled=True,
        server=TlsSide(
            key_path=Path("/s/key"),
            key_password="secret",
            cert_path=Path("/s/cert"),
            trust_cert_path=Path("/s/trust"),
            is_peer_checked=True,
        ),
        client=TlsSide(
            cert_path=Path("/c/cert"), trust_cert_path=Path("/c/trust"), is_peer_checked=True
        ),
    )


@pytest.mark.parametrize(
    "properties", [{"tls.server.mode": "on"}, {"tls.server.need.client.auth": "yes"}]
)
def test_a_value_that_means_nothing_is_refused_with_the_choices(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"'(on|yes)': choose"):
        settings_from(properties)


def test_tls_keys_are_told_from_others() -> None:
    assert is_tls_key("tls.enable")
    assert not is_tls_key("listenPort")


def test_wrong_files_fail_the_start(authority: Authority, tmp_path: Path) -> None:
    issued = authority.issue("server")
    stranger = authority.issue("stranger")
    missing = Issued(tmp_path / "no.pem", issued.key_path)
    mixed = Issued(issued.cert_path, stranger.key_path)

    for wrong in (missing, mixed, Issued(issued.key_path, issued.cert_path)):
        with pytest.raises(ConfigError, match="server TLS files cannot be used"):
            ServerTls(server_settings(wrong))


@pytest.mark.parametrize("absent", ["certPath", "keyPath"])
def test_a_missing_path_is_named(authority: Authority, absent: str) -> None:
    with pytest.raises(ConfigError, match=rf"tls\.server\.{absent} is not set"):
        ServerTls(server_settings(authority.issue("server"), **{absent: ""}))


def test_a_trust_file_is_needed_to_check_clients(authority: Authority) -> None:
    issued = authority.issue("server")

    with pytest.raises(ConfigError, match=r"tls\.server\.trustCertPath is not set"):
        ServerTls(server_settings(issued, authClient="true"))


def test_a_disabled_server_looks_at_no_file(tmp_path: Path) -> None:
    missing = Issued(tmp_path / "no.cert", tmp_path / "no.key")

    assert ServerTls(server_settings(missing, mode="disabled")).mode is TlsMode.DISABLED


def test_an_encrypted_key_opens_with_its_password_and_asks_nobody_without(
    authority: Authority,
) -> None:
    issued = authority.issue("server", key_password="secret")

    ServerTls(server_settings(issued, keyPassword="secret"))
    for wrong in ("", "wrong"):
        with pytest.raises(ConfigError):
            ServerTls(server_settings(issued, keyPassword=wrong))


@pytest.mark.parametrize(
    ("need", "expected"),
    [
        ("none", ssl.CERT_NONE),
        ("optional", ssl.CERT_OPTIONAL),
        ("require", ssl.CERT_REQUIRED),
    ],
)
def test_client_certificates_are_asked_for_as_told(
    authority: Authority, need: str, expected: ssl.VerifyMode
) -> None:
    settings = server_settings(
        authority.issue("server"),
        authClient="true",
        trustCertPath=authority.cert_path,
        **{"need.client.auth": need},
    )

    assert ServerTls(settings).context().verify_mode is expected


def test_the_context_stays_while_its_files_do(authority: Authority) -> None:
    clock = Clock()
    tls = ServerTls(server_settings(authority.issue("server")), clock)
    first = tls.context()

    clock.pass_check_interval()

    assert tls.context() is first


def test_changed_files_make_a_new_context_but_not_before_the_next_look(
    authority: Authority,
) -> None:
    clock = Clock()
    issued = authority.issue("server")
    tls = ServerTls(server_settings(issued), clock)
    first = tls.context()

    renewed = authority.issue("renewed")
    touch(issued.key_path, renewed.key_path.read_bytes())
    touch(issued.cert_path, renewed.cert_path.read_bytes())
    assert tls.context() is first

    clock.pass_check_interval()
    assert tls.context() is not first


def test_half_replaced_files_keep_the_old_context_until_they_fit(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    issued = authority.issue("server")
    tls = ServerTls(server_settings(issued), clock)
    first = tls.context()
    renewed = authority.issue("renewed")

    touch(issued.key_path, renewed.key_path.read_bytes())
    clock.pass_check_interval()
    assert tls.context() is first
    assert "tls_reload_failed" in caplog.text

    issued.cert_path.unlink()
    clock.pass_check_interval()
    assert tls.context() is first

    issued.cert_path.write_bytes(renewed.cert_path.read_bytes())
    clock.pass_check_interval()
    assert tls.context() is not first


def test_test_mode_makes_a_certificate_on_first_use() -> None:
    tls = ServerTls(TlsSettings())

    assert tls.context() is tls.context()


def test_without_cryptography_test_mode_says_how_to_get_a_certificate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)

    with pytest.raises(ConfigError, match=r"emberq\[tls\].+tls\.server\.certPath"):
        ServerTls(TlsSettings()).context()


def test_a_client_checks_the_server_only_when_told(authority: Authority) -> None:
    trusting = client_context(settings_from({"tls.test.mode.enable": "false"}))
    checking = client_context(
        settings_from(
            {
                "tls.test.mode.enable": "false",
                "tls.client.authServer": "true",
                "tls.client.trustCertPath": str(authority.cert_path),
            }
        )
    )

    assert client_context(TlsSettings()).verify_mode is ssl.CERT_NONE
    assert trusting.verify_mode is ssl.CERT_NONE
    assert checking.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    "properties",
    [
        {"tls.client.authServer": "true"},
        {"tls.client.authServer": "true", "tls.client.trustCertPath": "/no/file"},
        {"tls.client.certPath": "/no/file"},
    ],
)
def test_wrong_client_files_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        client_context(settings_from({"tls.test.mode.enable": "false"} | properties))
