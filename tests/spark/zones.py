"""Time zones of the driver, as tests need them."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

# Clocks are put back in this hour: in Berlin both are 02:30.
SUMMER, WINTER = (datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1))


@contextmanager
def driver_in(zone: str) -> Iterator[None]:
    """Run as on a machine of this zone; Spark's own processes stay where they are."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


def micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000
