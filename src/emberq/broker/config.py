"""Settings of the broker: the official keys, and where they come from."""

import socket
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from emberq.broker.delay_levels import parse_delay_levels
from emberq.broker.official_keys import OFFICIAL_KEYS
from emberq.broker.order_locks import LIVE_MAX_MS_DEFAULT
from emberq.config_file import keys_of, read_settings, to_properties
from emberq.errors import ConfigError
from emberq.model.system_topics import TRACE_TOPIC
from emberq.remoting.addresses import split_address, split_list
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
from emberq.store.config import StoreConfig

VIP_PORT_DISTANCE = 2
HA_PORT_DISTANCE = 1
TIMER_LOG_FILE_SIZE_MIN = 4_096
REGISTER_PERIOD_MIN_MS = 10_000
REGISTER_PERIOD_MAX_MS = 60_000
DELAY_LEVELS_DEFAULT = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
ALWAYS_BLACK_LISTED = frozenset({"configBlackList", "brokerConfigPath", "rocketmqHome"})
# Seen in old guides; official brokers ignore it without a word.
MISSPELT_SEGMENT_KEY = "mapedFileSizeCommitLog"


class BrokerRole:
    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class BrokerConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """Keys of broker.conf beside those of the store. Times are milliseconds unless named otherwise.

    docs/reference/broker-configuration.md says what each one does and when a change counts.
    """

    allow_recall_when_broker_not_writeable: bool = True
    append_topic_for_timer_delete_key: bool = False
    auto_create_subscription_group: bool = True
    auto_create_topic_enable: bool = True
    auto_delete_unused_stats: bool = True
    bind_address: str = "0.0.0.0"
    broker_cluster_name: str = "DefaultCluster"
    broker_config_path: str = ""
    broker_fast_failure_enable: bool = True
    broker_id: int = 0
    broker_ip1: str = field(name="brokerIP1", default="")
    broker_ip2: str = field(name="brokerIP2", default="")
    broker_name: str = ""
    broker_permission: int = 6
    broker_role: str = BrokerRole.ASYNC_MASTER
    broker_topic_enable: bool = True
    channel_expired_timeout: int = 120_000
    cluster_topic_enable: bool = True
    compressed_register: bool = False
    config_black_list: str = "configBlackList;brokerConfigPath"
    consumer_fallbehind_threshold: int = 16 * 1024 * 1024 * 1024
    default_query_max_num: int = 32
    default_topic_queue_nums: int = 8
    disable_consume_if_consumer_read_slowly: bool = False
    enable_controller_mode: bool = False
    enable_d_leger_commit_log: bool = field(name="enableDLegerCommitLog", default=False)
    enable_detail_stat: bool = True
    enable_property_filter: bool = False
    filter_support_retry: bool = False
    flush_consumer_offset_interval: int = 5_000
    flush_delay_offset_interval: int = 10_000
    force_register: bool = True
    ha_listen_port: int = 0
    listen_port: int = 10_911
    lite_pull_message_enable: bool = True
    long_polling_enable: bool = True
    mapped_file_size_timer_log: int = 100 * 1024 * 1024
    max_filter_message_size: int = 16_000
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    max_transfer_count_on_message_in_memory: int = 32
    message_delay_level: str = DELAY_LEVELS_DEFAULT
    msg_trace_topic_name: str = TRACE_TOPIC
    namesrv_addr: str | None = None
    notify_consumer_ids_changed_enable: bool = True
    os_page_cache_busy_time_out_mills: int = 1_000
    real_time_notify_consumer_change: bool = True
    # A system property of official brokers, which have no key for it.
    rebalance_lock_max_live_time: int = field(
        name="rocketmq.broker.rebalance.lockMaxLiveTime", default=LIVE_MAX_MS_DEFAULT
    )
    recall_message_enable: bool = False
    region_id: str = "DefaultRegion"
    register_broker_timeout_mills: int = 24_000
    register_name_server_period: int = 30_000
    reject_pull_consumer_enable: bool = False
    reject_transaction_message: bool = False
    revive_queue_num: int = 8
    rocketmq_home: str | None = None
    server_channel_max_idle_time_seconds: int = 120
    server_load_balancer_enable: bool = True
    server_socket_backlog: int = 1024
    short_polling_time_mills: int = 1_000
    slave_read_enable: bool = False
    start_accept_send_request_time_stamp: int = 0
    store_reply_message_enable: bool = True
    subscription_expired_timeout: int = 600_000
    timer_congest_num_each_slot: int = 2**31 - 1
    timer_flush_interval_ms: int = 1_000
    timer_max_delay_sec: int = 3 * 24 * 3600
    timer_precision_ms: int = 1_000
    timer_roll_window_slot: int = 2 * 24 * 3600
    timer_wheel_enable: bool = True
    trace_on: bool = True
    trace_topic_enable: bool = False
    transaction_check_interval: int = 30_000
    transaction_check_max: int = 15
    transaction_metric_flush_interval: int = 10_000
    transaction_op_msg_max_size: int = 4096
    transaction_time_out: int = 6_000
    travel_cq_file_num_when_get_message: int = 1
    use_server_side_reset_offset: bool = True
    wait_time_mills_in_admin_broker_queue: int = 5_000
    wait_time_mills_in_heartbeat_queue: int = 31_000
    wait_time_mills_in_lite_pull_queue: int = 5_000
    wait_time_mills_in_pull_queue: int = 5_000
    wait_time_mills_in_send_queue: int = 200
    wait_time_mills_in_transaction_queue: int = 3_000
    write_buffer_high_water_mark: int = 0
    write_buffer_low_water_mark: int = 0

    @property
    def black_list(self) -> set[str]:
        """Keys that no request may change."""
        return {*ALWAYS_BLACK_LISTED, *filter(None, self.config_black_list.split(";"))}

    @property
    def name_servers(self) -> list[str]:
        """Addresses of all name servers, `host:port` each."""
        return list(dict.fromkeys(split_list(self.namesrv_addr or "")))

    @property
    def register_period_s(self) -> float:
        asked_ms = self.register_name_server_period
        return max(REGISTER_PERIOD_MIN_MS, min(asked_ms, REGISTER_PERIOD_MAX_MS)) / 1000

    @property
    def send_wait_max_ms(self) -> float | None:
        """How long a send may wait for its turn; None: for ever."""
        if not self.broker_fast_failure_enable:
            return None
        return float(self.wait_time_mills_in_send_queue)

    @property
    def transaction_wait_max_ms(self) -> float | None:
        """How long the end of a transaction may wait for its turn; None: for ever."""
        if not self.broker_fast_failure_enable:
            return None
        return float(self.wait_time_mills_in_transaction_queue)

    @property
    def admin_wait_max_ms(self) -> float | None:
        """How long a tool's request may wait for its turn; None: for ever."""
        if not self.broker_fast_failure_enable:
            return None
        return float(self.wait_time_mills_in_admin_broker_queue)

    def limits(self) -> RemotingLimits:
        return limits_from(
            backlog=self.server_socket_backlog,
            idle_max_s=self.server_channel_max_idle_time_seconds,
            high_water_mark=self.write_buffer_high_water_mark,
            low_water_mark=self.write_buffer_low_water_mark,
        )


class LoadedConfig(Struct, frozen=True, kw_only=True):
    config: BrokerConfig
    store: StoreConfig
    tls: TlsSettings
    # What the file says beside our own keys; it is still there after an update of the file.
    kept_properties: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    # Official keys that mean nothing to EmberQ; no mistake, but worth a line.
    notes: list[str] = field(default_factory=list)


def load(
    path: Path | None, overrides: Mapping[str, str], environment: Mapping[str, str]
) -> LoadedConfig:
    """The effective configuration: defaults, then the file, then the command line.

    Raises:
        ConfigError: a file that cannot be read, or a value that means nothing.
    """
    stored = read_file(path) if path is not None else {}
    properties = {**stored, **overrides}
    own = {name: text for name, text in properties.items() if not is_tls_key(name)}
    for key, variable in (("namesrvAddr", "NAMESRV_ADDR"), ("rocketmqHome", "ROCKETMQ_HOME")):
        if environment.get(variable):
            own.setdefault(key, environment[variable])
    own.setdefault("brokerName", socket.gethostname() or "DEFAULT_BROKER")
    if MISSPELT_SEGMENT_KEY in own:
        own.setdefault("mappedFileSizeCommitLog", own[MISSPELT_SEGMENT_KEY])
    store = read_settings(StoreConfig, own)
    own["brokerConfigPath"] = str(
        path.absolute() if path else store.root / "config" / "broker.properties"
    )
    config = read_settings(BrokerConfig, own)
    check(config, store)
    known = {*keys_of(BrokerConfig), *keys_of(StoreConfig)}
    return LoadedConfig(
        config=config,
        store=store,
        tls=tls_settings(properties),
        kept_properties={name: text for name, text in stored.items() if name not in known},
        warnings=unknown_key_warnings(properties),
        notes=[
            f"key {name} is accepted and has no effect here"
            for name in sorted(OFFICIAL_KEYS.intersection(properties) - known)
        ],
    )


def unknown_key_warnings(properties: Mapping[str, str]) -> list[str]:
    known = {*keys_of(BrokerConfig), *keys_of(StoreConfig), *TLS_KEYS, *OFFICIAL_KEYS}
    warnings = []
    for name in sorted(properties.keys() - known):
        if name == MISSPELT_SEGMENT_KEY:
            warnings.append(f"key {name} is taken for mappedFileSizeCommitLog")
            continue
        warnings.append(unknown_key_warning(name, known))
    return warnings


def updated(
    config: BrokerConfig, store: StoreConfig, changes: Mapping[str, str]
) -> tuple[BrokerConfig, StoreConfig]:
    """Both parts after an update; keys that are not ours are left out.

    Raises:
        ConfigError: a value that means nothing; nothing is changed.
    """
    new_config = read_settings(BrokerConfig, {**to_properties(config), **changes})
    new_store = read_settings(StoreConfig, {**to_properties(store), **changes})
    check(new_config, new_store)
    return new_config, new_store


def check(config: BrokerConfig, store: StoreConfig) -> None:
    """Raises ConfigError for values that no broker can run with."""
    _check_modes(config)
    _check_numbers(config)
    parse_delay_levels(config.message_delay_level)
    for address in config.name_servers:
        if not 0 < split_address(address)[1] <= 65_535:
            raise ConfigError(f"namesrvAddr={config.namesrv_addr}: expected ports of 1 to 65535")
    if store.max_message_size <= 0:
        raise ConfigError(f"maxMessageSize={store.max_message_size}: expected a number above 0")


def _check_modes(config: BrokerConfig) -> None:
    if config.enable_d_leger_commit_log:
        raise ConfigError(
            "enableDLegerCommitLog=true: there is no automatic failover in EmberQ yet"
        )
    if config.enable_controller_mode:
        raise ConfigError("enableControllerMode=true: there is no controller in EmberQ yet")
    if config.broker_role not in (BrokerRole.ASYNC_MASTER, BrokerRole.SYNC_MASTER):
        if config.broker_role == BrokerRole.SLAVE:
            raise ConfigError("brokerRole=SLAVE: there is no replication in EmberQ yet")
        raise ConfigError(f"brokerRole={config.broker_role!r}: choose ASYNC_MASTER or SYNC_MASTER")
    for key, name in (
        ("brokerName", config.broker_name),
        ("brokerClusterName", config.broker_cluster_name),
    ):
        if not name.strip():
            raise ConfigError(f"{key} is empty")


def _check_numbers(config: BrokerConfig) -> None:
    check_port("listenPort", config.listen_port)
    check_port("haListenPort", config.ha_listen_port)
    if 0 < config.listen_port <= VIP_PORT_DISTANCE:
        raise ConfigError(f"listenPort={config.listen_port}: there is no port two below")
    if not 0 <= config.broker_permission <= 7:
        raise ConfigError(f"brokerPermission={config.broker_permission}: expected 0 to 7")
    check_positive(
        {
            "channelExpiredTimeout": config.channel_expired_timeout,
            "subscriptionExpiredTimeout": config.subscription_expired_timeout,
            "defaultTopicQueueNums": config.default_topic_queue_nums,
            "flushConsumerOffsetInterval": config.flush_consumer_offset_interval,
            "flushDelayOffsetInterval": config.flush_delay_offset_interval,
            "timerFlushIntervalMs": config.timer_flush_interval_ms,
            "maxTransferBytesOnMessageInDisk": config.max_transfer_bytes_on_message_in_disk,
            "maxTransferBytesOnMessageInMemory": config.max_transfer_bytes_on_message_in_memory,
            "maxTransferCountOnMessageInDisk": config.max_transfer_count_on_message_in_disk,
            "maxTransferCountOnMessageInMemory": config.max_transfer_count_on_message_in_memory,
            "registerBrokerTimeoutMills": config.register_broker_timeout_mills,
            "serverChannelMaxIdleTimeSeconds": config.server_channel_max_idle_time_seconds,
            "serverSocketBacklog": config.server_socket_backlog,
            "shortPollingTimeMills": config.short_polling_time_mills,
            "transactionCheckInterval": config.transaction_check_interval,
            "transactionMetricFlushInterval": config.transaction_metric_flush_interval,
            "transactionOpMsgMaxSize": config.transaction_op_msg_max_size,
            "transactionTimeOut": config.transaction_time_out,
        }
    )
    if config.mapped_file_size_timer_log < TIMER_LOG_FILE_SIZE_MIN:
        raise ConfigError(
            f"mappedFileSizeTimerLog={config.mapped_file_size_timer_log}: "
            f"expected {TIMER_LOG_FILE_SIZE_MIN} at least"
        )
    check_water_marks(config.write_buffer_high_water_mark, config.write_buffer_low_water_mark)
