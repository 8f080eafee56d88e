"""What a slave and its master tell each other."""

from typing import ClassVar

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int64


class ExchangeBrokerHaInfo(Header, frozen=True, kw_only=True):
    """With addresses: take them. Without: a master answers with its own."""

    code: ClassVar = RequestCode.EXCHANGE_BROKER_HA_INFO
    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeBrokerHaInfoResponse(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.EXCHANGE_BROKER_HA_INFO
    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ResetMasterFlushOffset(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.RESET_MASTER_FLUSH_OFFSET
    master_flush_offset: Int64
