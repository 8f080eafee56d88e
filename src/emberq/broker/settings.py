"""The configuration in force, and its file."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from emberq.broker.config import BrokerConfig, updated
from emberq.config_file import to_file, to_properties
from emberq.protocol.properties_text import write_properties
from emberq.store.config import StoreConfig
from emberq.stored_file import replace_file

# A running broker keeps these; an update is stored and counts at the next start.
KEPT_UNTIL_RESTART = (
    *("bind_address", "broker_cluster_name", "broker_config_path", "broker_id", "broker_ip1"),
    *("broker_ip2", "broker_name", "broker_role", "ha_listen_port", "listen_port"),
    *("mapped_file_size_timer_log", "message_delay_level", "rocketmq_home"),
    *("timer_flush_interval_ms", "timer_precision_ms", "timer_roll_window_slot"),
    "timer_wheel_enable",
    *("server_channel_max_idle_time_seconds", "server_socket_backlog"),
    *("write_buffer_high_water_mark", "write_buffer_low_water_mark"),
)
# What an open store can follow at once.
STORE_KEYS_AT_ONCE = (
    *("clean_file_forcibly_enable", "clean_resource_interval", "delete_commit_log_files_interval"),
    *("delete_file_batch_max", "delete_when", "disk_max_used_space_ratio"),
    *("disk_space_clean_forcibly_ratio", "disk_space_warning_level_ratio", "file_reserved_time"),
    *("max_message_size", "max_msgs_num_batch", "sync_flush_timeout"),
)

ConfigListener = Callable[[BrokerConfig], None]


class Settings:
    """What handlers ask for the current value of a key; an update is stored before it counts."""

    def __init__(
        self,
        config: BrokerConfig,
        store: StoreConfig,
        kept_properties: Mapping[str, str] | None = None,
    ) -> None:
        self.config = config
        self.store = store
        self._stored = (config, store)  # what the next start will find
        self._kept_properties = dict(kept_properties or {})
        self._listeners: list[ConfigListener] = []
        self._changing = asyncio.Lock()

    def on_change(self, listener: ConfigListener) -> None:
        """Call `listener(config)` after every update; the store's part is then new as well."""
        self._listeners.append(listener)

    async def update(self, changes: dict[str, str]) -> None:
        """Raises ConfigError for values that mean nothing, OSError if they cannot be stored."""
        async with self._changing:
            config, store = stored = updated(*self._stored, changes)
            await asyncio.to_thread(
                replace_file, Path(config.broker_config_path), self._file(*stored)
            )
            self._stored = stored
            self.config = replace(
                config, **{name: getattr(self.config, name) for name in KEPT_UNTIL_RESTART}
            )
            self.store = replace(
                self.store, **{name: getattr(store, name) for name in STORE_KEYS_AT_ONCE}
            )
        for listener in self._listeners:
            listener(self.config)

    def text(self, in_force: Mapping[str, str] | None = None) -> bytes:
        """All our own keys, as stored, but for what the broker found out at its start. Others
        stay secret: a key's password is one."""
        config, store = self._stored
        own = {**to_properties(config), **to_properties(store)}
        return write_properties({**own, **(in_force or {})})

    def _file(self, config: BrokerConfig, store: StoreConfig) -> bytes:
        own = {**to_properties(config), **to_properties(store)}
        return to_file({**own, **self._kept_properties})
