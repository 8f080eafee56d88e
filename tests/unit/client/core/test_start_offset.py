"""Where a queue is begun."""

import pytest

from emberq.client.core.start_offset import NO_STORED_OFFSET, Start, start_of
from emberq.model.subscription import ConsumeFromWhere

LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
TIME = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP


@pytest.mark.parametrize(
    ("where", "is_retry_topic", "start"),
    [
        (LAST, False, Start.END),
        (LAST, True, Start.FIRST),
        (ConsumeFromWhere.CONSUME_FROM_MAX_OFFSET, False, Start.END),
        (FIRST, False, Start.FIRST),
        (FIRST, True, Start.FIRST),
        (TIME, False, Start.TIME),
        (TIME, True, Start.END),
    ],
)
def test_a_new_group_begins_where_it_was_told(
    where: ConsumeFromWhere, is_retry_topic: bool, start: Start
) -> None:
    assert start_of(NO_STORED_OFFSET, where, is_retry_topic=is_retry_topic) is start


@pytest.mark.parametrize("where", [LAST, FIRST, TIME])
def test_a_stored_offset_always_wins(where: ConsumeFromWhere) -> None:
    assert start_of(0, where, is_retry_topic=False) is Start.STORED
