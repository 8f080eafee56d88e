"""TLS settings in the official words, and contexts that follow their files."""

import logging
import ssl
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from emberq.errors import ConfigError

log = logging.getLogger(__name__)

SETTINGS_FILE_DEFAULT = Path("/etc/rocketmq/tls.properties")
# Certificate files are looked at when a peer begins TLS, but not more often than this.
RELOAD_CHECK_INTERVAL_S = 1.0
TLS_KEYS = (
    *("tls.config.file", "tls.enable", "tls.test.mode.enable"),
    *("tls.server.mode", "tls.server.need.client.auth", "tls.server.authClient"),
    *(f"tls.server.{name}" for name in ("keyPath", "keyPassword", "certPath", "trustCertPath")),
    *(f"tls.client.{name}" for name in ("keyPath", "keyPassword", "certPath", "trustCertPath")),
    "tls.client.authServer",
)
# Without a password OpenSSL would ask for one on the terminal when the key needs it.
_NO_PROMPT = ""


class TlsMode(StrEnum):
    """What a server's port takes: plain only, both, or TLS only."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class TlsSide(Struct, frozen=True, kw_only=True):
    """Files of one side, server or client."""

    key_path: Path | None = None
    key_password: str | None = None
    cert_path: Path | None = None
    trust_cert_path: Path | None = None
    is_peer_checked: bool = False  # tls.server.authClient, tls.client.authServer

    def files(self) -> list[Path]:
        paths = (self.key_path, self.cert_path, self.trust_cert_path)
        return [path for path in paths if path is not None]


class TlsSettings(Struct, frozen=True, kw_only=True):
    """The official defaults: both kinds on one port, a self-signed certificate, no checks."""

    mode: TlsMode = TlsMode.PERMISSIVE
    is_test_mode: bool = True
    client_certificate: str = "none"  # none, optional, require
    is_client_enabled: bool = False
    server: TlsSide = TlsSide()
    client: TlsSide = TlsSide()


def is_tls_key(name: str) -> bool:
    return name.startswith("tls.")


def settings_from(properties: Mapping[str, str]) -> TlsSettings:
    """Read the `tls.*` keys. Raises ConfigError for values that mean nothing."""
    mode_text = properties.get("tls.server.mode", TlsMode.PERMISSIVE).strip().lower()
    if mode_text not in list(TlsMode):
        raise ConfigError(
            f"tls.server.mode={mode_text!r}: choose disabled, permissive or enforcing"
        )
    certificate = properties.get("tls.server.need.client.auth", "none").strip().lower()
    if certificate not in ("none", "optional", "require"):
        raise ConfigError(
            f"tls.server.need.client.auth={certificate!r}: choose none, optional or require"
        )
    return TlsSettings(
        mode=TlsMode(mode_text),
        is_test_mode=_is_true(properties.get("tls.test.mode.enable", "true")),
        client_certificate=certificate,
        is_client_enabled=_is_true(properties.get("tls.enable", "false")),
        server=_side(properties, "tls.server.", "authClient"),
        client=_side(properties, "tls.client.", "authServer"),
    )


def _side(properties: Mapping[str, str], prefix: str, check_key: str) -> TlsSide:
    def path(name: str) -> Path | None:
        text = properties.get(prefix + name, "").strip()
        return Path(text) if text else None

    return TlsSide(
        key_path=path("keyPath"),
        key_password=properties.get(prefix + "keyPassword") or None,
        cert_path=path("certPath"),
        trust_cert_path=path("trustCertPath"),
        is_peer_checked=_is_true(properties.get(prefix + check_key, "false")),
    )


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


class ServerTls:
    """The server's TLS context, made on first use and made anew when its files change."""

    def __init__(self, settings: TlsSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.mode = settings.mode
        self._settings = settings
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._stamp: tuple[object, ...] = ()
        self._checked_at = 0.0
        if settings.mode is not TlsMode.DISABLED and not settings.is_test_mode:
            self.context()  # wrong files must fail the start, not the first client

    def context(self) -> ssl.SSLContext:
        """Raises ConfigError when no context can be made and there is no earlier one."""
        now = self._clock()
        if self._context is None:
            self._stamp = _stamp_of(self._settings.server.files())
            self._context = _server_context(self._settings)
            self._checked_at = now
        elif now - self._checked_at >= RELOAD_CHECK_INTERVAL_S:
            self._checked_at = now
            self._reload_if_changed()
        return self._context

    def _reload_if_changed(self) -> None:
        stamp = _stamp_of(self._settings.server.files())
        if stamp == self._stamp:
            return
        try:
            self._context = _server_context(self._settings)
        except ConfigError as error:
            # Key and certificate are rarely replaced in one instant: keep what works, look again.
            log.warning("tls_reload_failed reason=%s", error)
            return
        self._stamp = stamp
        log.info("tls_certificates_reloaded cert=%s", self._settings.server.cert_path)


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """What the official client builds: no check of names, of certificates only when told."""
    side = settings.client
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if settings.is_test_mode:
        return context
    try:
        if side.is_peer_checked:
            context.load_verify_locations(_needed(side.trust_cert_path, "tls.client.trustCertPath"))
            context.verify_mode = ssl.CERT_REQUIRED
        if side.cert_path is not None:
            context.load_cert_chain(side.cert_path, side.key_path, side.key_password or _NO_PROMPT)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"client TLS files cannot be used: {error}") from None
    return context


def _server_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    if settings.is_test_mode:
        from emberq.remoting.self_signed import load_self_signed  # noqa: PLC0415 - rarely needed

        load_self_signed(context)
        return context
    side = settings.server
    try:
        context.load_cert_chain(
            _needed(side.cert_path, "tls.server.certPath"),
            _needed(side.key_path, "tls.server.keyPath"),
            side.key_password or _NO_PROMPT,
        )
        if side.is_peer_checked:
            context.load_verify_locations(_needed(side.trust_cert_path, "tls.server.trustCertPath"))
            context.verify_mode = {
                "none": ssl.CERT_NONE,
                "optional": ssl.CERT_OPTIONAL,
                "require": ssl.CERT_REQUIRED,
            }[settings.client_certificate]
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"server TLS files cannot be used: {error}") from None
    return context


def _needed(path: Path | None, key: str) -> Path:
    if path is None:
        raise ConfigError(f"{key} is not set; tls.test.mode.enable=false needs it")
    return path


def _stamp_of(paths: list[Path]) -> tuple[object, ...]:
    stamps: list[object] = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(stamps)
