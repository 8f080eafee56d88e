"""Which properties of a message that was read go into one that is sent."""

from typing import TYPE_CHECKING

from emberq.record.property_names import RESERVED
from emberq.spark.outgoing_rows import ID_PROPERTY, WRITE_PROPERTY

if TYPE_CHECKING:
    from pyspark.sql import Column

# Clients and brokers give them their meaning and refuse them from users, or the sink gives them to
# each message anew.
NOT_KEPT = frozenset({*RESERVED, ID_PROPERTY, WRITE_PROPERTY})


def kept_properties(properties: "Column", *without: str) -> "Column":
    """Those that may be sent, without some more; null stays null."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    left_out = sorted({*NOT_KEPT, *without})
    return f.map_filter(properties, lambda name, _: ~name.isin(*left_out))
