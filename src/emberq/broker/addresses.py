"""Which addresses a broker tells others to reach it by."""

import socket
from contextlib import suppress

from msgspec import Struct

from emberq.broker.config import HA_PORT_DISTANCE, BrokerConfig

LOOPBACK = "127.0.0.1"
# Nothing is sent there: to choose a route, the system only has to look at its tables.
_SOMEWHERE_ELSE = ("192.0.2.1", 9)
_ANY = ("", "0.0.0.0", "::")


class BrokerAddresses(Struct, frozen=True, kw_only=True):
    """What a broker registers under."""

    ip: str
    port: int
    ha_ip: str
    ha_port: int

    @property
    def main(self) -> str:
        return _address(self.ip, self.port)

    @property
    def ha(self) -> str:
        return _address(self.ha_ip, self.ha_port)


def announced_addresses(config: BrokerConfig, port: int) -> BrokerAddresses:
    """The configured addresses, or the one that others on the network see us by."""
    own = None
    if not (config.broker_ip1 and config.broker_ip2):
        own = config.bind_address if config.bind_address not in _ANY else local_address()
    return BrokerAddresses(
        ip=config.broker_ip1 or own or LOOPBACK,
        port=port,
        ha_ip=config.broker_ip2 or own or LOOPBACK,
        ha_port=config.ha_listen_port or port + HA_PORT_DISTANCE,
    )


def local_address() -> str:
    """The address of the interface towards the network, the loopback where there is none."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(_SOMEWHERE_ELSE)
        return str(probe.getsockname()[0])
    with suppress(OSError):
        return socket.gethostbyname(socket.gethostname())
    return LOOPBACK


def _address(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
