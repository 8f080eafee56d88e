"""A broker's settings and its storage switches."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32, Int64


class GetBrokerConfigResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_BROKER_CONFIG
    # A data version as JSON text.
    version: str


class SetCommitLogReadMode(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.SET_COMMITLOG_READ_MODE
    # 0 normal, 1 random, as told to the kernel.
    read_ahead_mode: Int32 | None = field(name="READ_AHEAD_MODE", default=None)


class CheckRocksdbCqWriteProgress(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS
    topic: str
    check_store_time_ms: Int64 = field(name="checkStoreTime", default=0)


class ExportRocksdbConfigToJson(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON
    type_name: str | None = None
    # Any of topics, subscriptionGroups, consumerOffsets, joined by semicolons.
    config_type: str
