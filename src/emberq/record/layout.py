"""Where each field of a record lies, and every limit that follows from it.

The field tables are docs/formats/record.md and docs/formats/batch.md.
"""

from struct import Struct
from typing import TypeAlias

BytesLike: TypeAlias = bytes | bytearray | memoryview

MAGIC_V1 = 0xDAA320A7  # topic length in one byte
MAGIC_V2 = 0xDAA320AB  # topic length in two bytes; readers before 5.1.0 refuse it
MAGIC_BLANK = 0xCBD43194  # the rest of this log segment holds nothing

IPV4_HOST_SIZE = 8  # address, then the port as four bytes
IPV6_HOST_SIZE = 20

# Positions every record shares. The store timestamp follows the born host, whose size varies.
QUEUE_OFFSET_POSITION = 20
LOG_OFFSET_POSITION = 28
SYSTEM_FLAG_POSITION = 36
SYSTEM_FLAG_LOW_BYTE_POSITION = 39
BORN_HOST_POSITION = 48

SIZE_AND_MAGIC = Struct(">iI")
QUEUE_AND_LOG_OFFSET = Struct(">qq")
TIMESTAMP = Struct(">q")
LENGTH_16 = Struct(">h")

# Size, magic, body CRC, queue id, flag, queue offset, log offset, system flag, born timestamp,
# born host, store timestamp, store host, reconsume times, prepared offset, body length.
PREFIX_IPV4 = Struct(">iIIiiqqiq8sq8siqi")
PREFIX_BY_HOST_SIZES = {
    (born, store): Struct(f">iIIiiqqiq{born}sq{store}siqi")
    for born in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
    for store in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
}

# An inner message of a client batch: size, magic 0, CRC 0, flag, body length.
BATCH_PREFIX = Struct(">iIIii")
BATCH_ELEMENT_SIZE_MIN = BATCH_PREFIX.size + 2

TOPIC_SIZE_MAX_V1 = 127  # the length is a signed byte
TOPIC_SIZE_MAX = 255  # official brokers refuse more, although two bytes could say it
PROPERTIES_SIZE_MAX = 32_767  # the length is a signed 16-bit number
RECORD_SIZE_MAX = 2**31 - 1

BODY_SIZE_MAX_DEFAULT = 4 * 1024 * 1024  # a broker's `maxMessageSize`
RECORD_OVERHEAD_SIZE_MAX = 64 * 1024  # a whole record may exceed the body limit by this much
BLANK_SIZE_MIN = 8  # every segment keeps this much room to say that it ends
