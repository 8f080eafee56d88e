"""Configuration keys that name server and broker have in common: files, TLS, network limits."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from emberq.config_file import nearest
from emberq.errors import ConfigError, ProtocolError
from emberq.protocol.properties_text import read_properties
from emberq.remoting.limits import RemotingLimits
from emberq.remoting.tls import SETTINGS_FILE_DEFAULT, TlsSettings, is_tls_key, settings_from


def read_file(path: Path) -> dict[str, str]:
    """The pairs of a configuration file. Raises ConfigError, which names the file."""
    try:
        return read_properties(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except ProtocolError as error:
        raise ConfigError(f"{path}: {error}") from None


def tls_settings(properties: Mapping[str, str]) -> TlsSettings:
    """From the `tls.*` keys, and from the file that `tls.config.file` names, or the official
    place if there is one."""
    own = {name: text for name, text in properties.items() if is_tls_key(name)}
    named = own.get("tls.config.file")
    path = Path(named) if named else SETTINGS_FILE_DEFAULT
    stored = read_file(path) if named or path.exists() else {}
    return settings_from({**stored, **own})


def unknown_key_warning(name: str, known: Iterable[str]) -> str:
    hint = nearest(name, known)
    suffix = f"; did you mean {hint}?" if hint else ""
    return f"unknown key {name} has no effect{suffix}"


def limits_from(
    *, backlog: int, idle_max_s: int, high_water_mark: int, low_water_mark: int
) -> RemotingLimits:
    """The network limits that these keys ask for; 0 leaves the default."""
    limits = RemotingLimits(backlog=backlog, idle_max_s=float(idle_max_s))
    # Where only one of the marks is given, the other one's default makes room for it.
    high = high_water_mark or max(limits.write_buffer_high_bytes, low_water_mark)
    low = low_water_mark or min(limits.write_buffer_low_bytes, high)
    return replace(limits, write_buffer_high_bytes=high, write_buffer_low_bytes=low)


def check_port(key: str, port: int) -> None:
    if not 0 <= port <= 65_535:
        raise ConfigError(f"{key}={port}: expected 0 to 65535")


def check_positive(values: Mapping[str, int]) -> None:
    for key, value in values.items():
        if value <= 0:
            raise ConfigError(f"{key}={value}: expected a number above 0")


def check_water_marks(high: int, low: int) -> None:
    if min(high, low) < 0 or (high and low > high):
        raise ConfigError(
            f"writeBufferHighWaterMark={high}, writeBufferLowWaterMark={low}: "
            "expected 0 for the default, or a low mark that is not above the high one"
        )
