"""Settings of the name server: the official keys, and where they come from."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field

from emberq.config_file import keys_of, read_settings, to_properties
from emberq.errors import ConfigError
from emberq.remoting.limits import RemotingLimits
from emberq.remoting.server_keys import (
    check_port,
    check_positive,
    check_water_marks,
    limits_from,
    read_file,
    tls_settings,
    unknown_key_warning,
)
from emberq.remoting.tls import TLS_KEYS, TlsSettings, is_tls_key

# The first look for silent brokers comes early; see docs/compatibility.md for the second number.
FIRST_SCAN_DELAY_MAX_MS = 5_000
ALWAYS_BLACK_LISTED = frozenset(
    {"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"}
)


class NameServerConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """Every key that an official name server knows, in its words.

    Keys of thread pools, semaphores and native sockets are accepted and shown, but one event loop
    has no use for them: docs/reference/namesrv-configuration.md says which.
    """

    bind_address: str = "0.0.0.0"
    client_request_thread_pool_nums: int = 8
    client_request_thread_pool_queue_capacity: int = 50_000
    cluster_test: bool = False
    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"
    config_store_path: str = ""
    default_thread_pool_nums: int = 16
    default_thread_pool_queue_capacity: int = 10_000
    delete_topic_with_broker_registration: bool = False
    enable_all_topic_list: bool = True
    enable_controller_in_namesrv: bool = False
    enable_shutdown_gracefully: bool = False
    enable_topic_list: bool = True
    kv_config_path: str = ""
    listen_port: int = 9876
    need_wait_for_service: bool = False
    notify_min_broker_id_changed: bool = False
    order_message_enable: bool = False
    product_env_name: str = "center"
    return_order_topic_config_to_broker: bool = True
    rocketmq_home: str | None = None
    scan_not_active_broker_interval: int = 10_000
    server_async_semaphore_value: int = 64
    server_callback_executor_threads: int = 0
    server_channel_max_idle_time_seconds: int = 120
    server_netty_worker_group_enable: bool = True
    server_oneway_semaphore_value: int = 256
    server_pooled_byte_buf_allocator_enable: bool = True
    server_selector_threads: int = 3
    server_socket_backlog: int = 1024
    server_socket_rcv_buf_size: int = 0
    server_socket_snd_buf_size: int = 0
    server_worker_threads: int = 8
    shutdown_wait_time_seconds: int = 30
    support_acting_master: bool = False
    un_register_broker_queue_capacity: int = 3_000
    use_epoll_native_selector: bool = False
    wait_seconds_for_service: int = 45
    write_buffer_high_water_mark: int = 0
    write_buffer_low_water_mark: int = 0

    @property
    def black_list(self) -> set[str]:
        """Keys that no request may change."""
        return {*ALWAYS_BLACK_LISTED, *filter(None, self.config_black_list.split(";"))}

    def limits(self) -> RemotingLimits:
        return limits_from(
            backlog=self.server_socket_backlog,
            idle_max_s=self.server_channel_max_idle_time_seconds,
            high_water_mark=self.write_buffer_high_water_mark,
            low_water_mark=self.write_buffer_low_water_mark,
        )


class LoadedConfig(Struct, frozen=True, kw_only=True):
    config: NameServerConfig
    tls: TlsSettings
    # What the file says beside our own keys; it is still there after an update of the file.
    kept_properties: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def load(
    path: Path | None, overrides: Mapping[str, str], environment: Mapping[str, str]
) -> LoadedConfig:
    """The effective configuration: defaults, then the file, then the command line.

    Raises:
        ConfigError: a file that cannot be read, or a value that means nothing.
    """
    stored = read_file(path) if path is not None else {}
    properties = {**stored, **overrides}
    home = Path(environment.get("HOME", "")) if environment.get("HOME") else Path.home()
    defaults = {
        "kvConfigPath": str(home / "namesrv" / "kvConfig.json"),
        "configStorePath": str(
            path.absolute() if path else home / "namesrv" / "namesrv.properties"
        ),
    }
    if "ROCKETMQ_HOME" in environment:
        defaults["rocketmqHome"] = environment["ROCKETMQ_HOME"]
    own = {name: text for name, text in properties.items() if not is_tls_key(name)}
    if path is not None:
        own["configStorePath"] = defaults["configStorePath"]  # updates go where we read from
    config = read_settings(NameServerConfig, {**defaults, **own})
    _check(config)
    known = set(keys_of(NameServerConfig))
    return LoadedConfig(
        config=config,
        tls=tls_settings(properties),
        kept_properties={name: text for name, text in stored.items() if name not in known},
        warnings=unknown_key_warnings(properties, also_known=TLS_KEYS),
    )


def unknown_key_warnings(
    properties: Mapping[str, str], also_known: Iterable[str] = ()
) -> list[str]:
    known = [*keys_of(NameServerConfig), *also_known]
    return [unknown_key_warning(name, known) for name in sorted(properties.keys() - set(known))]


def updated(config: NameServerConfig, changes: Mapping[str, str]) -> NameServerConfig:
    """The configuration after an update; keys that are not ours are left out.

    Raises:
        ConfigError: a value that means nothing; nothing is changed.
    """
    merged = read_settings(NameServerConfig, {**to_properties(config), **changes})
    _check(merged)
    return merged


def _check(config: NameServerConfig) -> None:
    check_port("listenPort", config.listen_port)
    check_positive(
        {
            "scanNotActiveBrokerInterval": config.scan_not_active_broker_interval,
            "serverChannelMaxIdleTimeSeconds": config.server_channel_max_idle_time_seconds,
            "serverSocketBacklog": config.server_socket_backlog,
            "unRegisterBrokerQueueCapacity": config.un_register_broker_queue_capacity,
        }
    )
    check_water_marks(config.write_buffer_high_water_mark, config.write_buffer_low_water_mark)
    if config.enable_controller_in_namesrv:
        raise ConfigError("enableControllerInNamesrv=true: there is no controller in EmberQ yet")
