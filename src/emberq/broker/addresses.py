"""Which addresses a broker tells others to reach it by."""

from msgspec import Struct

from emberq.broker.config import HA_PORT_DISTANCE, BrokerConfig
from emberq.remoting.addresses import LOOPBACK, join_address, local_address

_ANY = ("", "0.0.0.0", "::")


class BrokerAddresses(Struct, frozen=True, kw_only=True):
    """What a broker registers under."""

    ip: str
    port: int
    ha_ip: str
    ha_port: int

    @property
    def main(self) -> str:
        return join_address(self.ip, self.port)

    @property
    def ha(self) -> str:
        return join_address(self.ha_ip, self.ha_port)


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
