"""The short way from fields to values and the generic mapper agree on every input."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from emberq.broker.handlers.send_fields import read_send, shortened
from emberq.errors import ProtocolError
from emberq.protocol.header_fields import from_fields, to_fields
from emberq.protocol.headers.send import SendMessage, SendMessageV2

pytestmark = pytest.mark.property

NUMBERS = st.one_of(
    st.integers(-5, 2000).map(str),
    st.integers(-(2**33), 2**33).map(str),
    st.integers(-(2**65), 2**65).map(str),
    st.integers(0, 99).map("+{}".format),
    st.integers(0, 99).map("000{}".format),
    st.sampled_from(["", " 1", "1_0", "٣", "1.0", "1e3", "-", "+-1", "abc", "-0", "\ud800"]),
)
BOOLEANS = st.sampled_from(["true", "false", "TRUE", "True", "1", "", "yes"])
TEXTS = st.text(max_size=20)
PLAIN = {name: NUMBERS for name in "efghjl"} | {name: TEXTS for name in "abci"}
FIELDS = st.fixed_dictionaries(
    {}, optional={**PLAIN, "d": NUMBERS, "k": BOOLEANS, "m": BOOLEANS, "zz": TEXTS}
)
WHOLE = {name: "1" for name in "defghjl"} | {"a": "g", "b": "t", "c": "d", "i": "p", "m": "true"}
LONG = {
    "producerGroup": "g",
    "topic": "t",
    "defaultTopic": "d",
    **dict.fromkeys(("defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp", "flag"), "1"),
}
# Not read on the short way: a known topic needs no template, and nothing needs the group.
UNREAD = {"a": "", "c": "", "d": "0"}


@given(fields=FIELDS)
@example(fields=WHOLE)
@example(fields={**WHOLE, "e": "-1", "g": "-5"})
@example(fields={**WHOLE, "g": "9" * 19})
def test_both_readers_agree(fields: dict[str, str]) -> None:
    try:
        header = from_fields(SendMessageV2, {**UNREAD, **fields})
    except ProtocolError:
        with pytest.raises(ProtocolError):
            read_send(fields)
        return

    assert read_send(fields) == (
        header.topic,
        header.queue_id,
        header.system_flag,
        header.born_at_ms,
        header.flag,
        header.properties or "",
        header.reconsume_times or 0,
        header.is_batch,
    )


@given(fields=st.fixed_dictionaries(PLAIN).map(lambda plain: {**plain, "d": "1"}))
@example(fields=WHOLE)
def test_the_long_names_mean_the_same(fields: dict[str, str]) -> None:
    try:
        short = from_fields(SendMessageV2, fields)
    except ProtocolError:
        return
    long = SendMessage(
        **{
            name: getattr(short, name)
            for name in SendMessage.__struct_fields__
            if hasattr(short, name)
        }
    )

    assert read_send(shortened(to_fields(long))) == read_send(fields)


@given(text=NUMBERS)
def test_a_number_that_may_be_absent_counts_as_absent_in_the_long_form_only(text: str) -> None:
    fields = {**to_fields(from_fields(SendMessage, LONG)), "reconsumeTimes": text}
    header = from_fields(SendMessage, fields)

    assert read_send(shortened(fields))[6] == (header.reconsume_times or 0)
