"""Where queues are: at brokers, or in a store directory. Planner, views and tasks ask a place."""

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from emberq.client.core.scanned import QueueHead
from emberq.model.queue import MessageQueue
from emberq.spark.options import SourceOptions
from emberq.spark.planning import Partition, QueueSlice


class Place(Protocol):
    def queues(self) -> list[MessageQueue]:
        """All queues that the options ask for, found anew."""

    def heads(
        self, queues: Collection[MessageQueue], group: str | None = None
    ) -> dict[MessageQueue, QueueHead]:
        """Both ends; queues that are gone are left out."""

    def offsets_by_time(
        self, times_ms: Mapping[MessageQueue, int], *, is_end: bool = False
    ) -> dict[MessageQueue, int]:
        """The first messages stored at or after a time. Where messages beside it are missing, whose
        times nobody knows, a range from there, or up to there if it is an end, has all of them:
        who reads it tells that they are gone."""

    def earliest_times_ms(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        """When the first messages were stored."""

    def record_sizes(self, slices: Collection[QueueSlice]) -> list[float]:
        """About how many bytes a message of each range has, whatever stands behind the range; 0:
        none of it is left."""

    def contents(self, each: QueueSlice) -> Iterator[bytes]:
        """Records one after the other; those outside the range are the caller's to cut off."""

    def contents_in_turn(
        self, partition: Partition
    ) -> Iterator[tuple[QueueSlice, Iterator[bytes]]]:
        """The same for several ranges; all of one must be taken before the next is asked for."""

    def entries(self, each: QueueSlice) -> Iterator[tuple[int, bytes]]:
        """Queue entries in pieces, each with the offset of its first."""


def place_of(options: SourceOptions) -> Place:
    """Raises NoNameServer, StoreError."""
    if options.store is not None:
        from emberq.spark.store_place import StorePlace  # noqa: PLC0415 - most read from brokers

        return StorePlace(options)
    from emberq.spark.broker_place import BrokerPlace  # noqa: PLC0415

    return BrokerPlace(options)
