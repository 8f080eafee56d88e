"""How a client behaves; the official defaults where they are good."""

from msgspec import Struct

from emberq.errors import ConfigError

RECONNECT_PAUSE_FIRST_S = 0.1
RECONNECT_PAUSE_MAX_S = 5.0


class ClientSettings(Struct, frozen=True, kw_only=True):
    """Times are seconds."""

    route_refresh: float = 30.0
    heartbeat: float = 30.0
    persist_offsets: float = 5.0
    # For questions to name servers and brokers that are not messages.
    api_timeout: float = 3.0
    connect_timeout: float = 3.0
    # Where name servers are looked up when none is configured.
    discovery: float = 120.0
    # How long `close` waits for what is under way.
    close_timeout: float = 30.0
    # Brokers of 5.x get subscriptions when they change, not with every heartbeat.
    is_heartbeat_v2: bool = False

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not isinstance(value, bool) and not value > 0:
                raise ConfigError(f"{name}={value}: expected a time above 0 seconds")
