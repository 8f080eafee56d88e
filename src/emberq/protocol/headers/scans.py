"""Reading whole queues: EmberQ's own requests. The formats are docs/formats/scan.md."""

from typing import ClassVar

from emberq.protocol.codes import EmberqCode
from emberq.protocol.header_fields import Header, Int32, Int64


class ScanPull(Header, frozen=True, kw_only=True):
    """Records of a range of one queue."""

    code: ClassVar = EmberqCode.SCAN_PULL
    topic: str
    queue_id: Int32
    offset: Int64
    end_offset: Int64
    max_bytes: Int32
    subscription: str | None = None
    expression_type: str | None = None


class ScanEntries(Header, frozen=True, kw_only=True):
    """Entries of a range of one queue."""

    code: ClassVar = EmberqCode.SCAN_ENTRIES
    topic: str
    queue_id: Int32
    offset: Int64
    max_count: Int32


class ScanResponse(Header, frozen=True, kw_only=True):
    """The answer to both."""

    code: ClassVar = EmberqCode.SCAN_PULL
    next_offset: Int64
    min_offset: Int64
    max_offset: Int64


class ScanHeads(Header, frozen=True, kw_only=True):
    code: ClassVar = EmberqCode.SCAN_HEADS


class ScanPin(Header, frozen=True, kw_only=True):
    code: ClassVar = EmberqCode.SCAN_PIN


class ScanCommit(Header, frozen=True, kw_only=True):
    code: ClassVar = EmberqCode.SCAN_COMMIT
