"""Names of topics and groups that mean something to every broker."""

DEFAULT_TOPIC = "TBW102"  # the template of topics that a send creates
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OPERATION_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_HALF_OPERATION_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TRANSACTION_CHECK_MAX_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
TIMER_TOPIC = "rmq_sys_wheel_timer"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"
SYNC_MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
REPLY_TOPIC_SUFFIX = "REPLY_TOPIC"

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"

# What no user may create or delete, besides every name that begins with SYSTEM_TOPIC_PREFIX.
SYSTEM_TOPICS = frozenset(
    {
        DEFAULT_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        HALF_OPERATION_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_HALF_OPERATION_TOPIC,
        TRACE_TOPIC,
        TRANSACTION_CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    }
)

# Topics that only the broker itself writes.
FORBIDDEN_TO_SEND = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        HALF_OPERATION_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_HALF_OPERATION_TOPIC,
        TRANSACTION_CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)

SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
TOOLS_GROUP = "TOOLS_CONSUMER"
# Its offsets say how far half messages are settled.
TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"
# They exist on every broker before anybody asks for them.
BUILT_IN_GROUPS = (
    TOOLS_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)


def retry_topic(group: str) -> str:
    """Where a group's failed messages come back from."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Where messages end that a group failed to consume too often."""
    return DEAD_LETTER_PREFIX + group


def reply_topic(cluster: str) -> str:
    return f"{cluster}_{REPLY_TOPIC_SUFFIX}"


def is_system_topic(name: str) -> bool:
    """Whether a topic is the brokers' own, of any cluster."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def is_retry_topic(name: str) -> bool:
    return name.startswith(RETRY_PREFIX)


def is_dead_letter_topic(name: str) -> bool:
    return name.startswith(DEAD_LETTER_PREFIX)
