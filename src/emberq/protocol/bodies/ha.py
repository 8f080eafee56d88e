"""Replication as seen from outside: 907, 1007, 1008, and the timer figures a slave copies (61)."""

from msgspec import Struct, field

from emberq.model.data_version import DataVersion


class SlaveConnection(Struct, frozen=True, kw_only=True):
    """A slave that reads from this master."""

    address: str | None = field(name="addr", default=None)
    lag_bytes: int = field(name="diff", default=0)
    is_in_sync: bool = field(name="inSync", default=False)
    acknowledged_offset: int = field(name="slaveAckOffset", default=0)
    transfer_from_offset: int = field(name="transferFromWhere", default=0)
    transferred_bytes_per_second: int = field(name="transferredByteInSecond", default=0)


class MasterConnection(Struct, frozen=True, kw_only=True):
    """The connection of a slave to its master."""

    last_read_at_ms: int = field(name="lastReadTimestamp", default=0)
    last_write_at_ms: int = field(name="lastWriteTimestamp", default=0)
    master_address: str | None = field(name="masterAddr", default=None)
    master_flush_offset: int = field(name="masterFlushOffset", default=0)
    offset_max: int = field(name="maxOffset", default=0)
    transferred_bytes_per_second: int = field(name="transferredByteInSecond", default=0)


class HaStatus(Struct, frozen=True, kw_only=True):
    """The answer to 907."""

    to_master: MasterConnection = field(
        name="haClientRuntimeInfo", default_factory=MasterConnection
    )
    slaves: list[SlaveConnection] = field(name="haConnectionInfo", default_factory=list)
    in_sync_slave_count: int = field(name="inSyncSlaveNums", default=0)
    is_master: bool = field(name="master", default=False)
    master_offset_max: int = field(name="masterCommitLogMaxOffset", default=0)


class Epoch(Struct, frozen=True, kw_only=True):
    end_offset: int = field(name="endOffset", default=0)
    epoch: int = 0
    start_offset: int = field(name="startOffset", default=0)


class EpochCache(Struct, frozen=True, kw_only=True):
    """The answer to 1007."""

    broker_id: int = field(name="brokerId", default=0)
    broker_name: str | None = field(name="brokerName", default=None)
    cluster: str | None = field(name="clusterName", default=None)
    epochs: list[Epoch] | None = field(name="epochList", default=None)
    offset_max: int = field(name="maxOffset", default=0)


class SyncStateSet(Struct, frozen=True, kw_only=True):
    """The broker ids that are in sync (1008)."""

    broker_ids: list[int] = field(name="syncStateSet", default_factory=list)
    epoch: int = field(name="syncStateSetEpoch", default=0)


class TimerCount(Struct, frozen=True, kw_only=True):
    count: int = 0
    counted_at_ms: int = field(name="timeStamp", default=0)


class TimerMetrics(Struct, frozen=True, kw_only=True):
    """How many timed messages wait, by topic (61)."""

    data_version: DataVersion = field(name="dataVersion", default_factory=DataVersion)
    counts: dict[str, TimerCount] = field(name="timingCount", default_factory=dict)
