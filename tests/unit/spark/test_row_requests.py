"""Which messages of a queue share a request."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from emberq.client.core.message import Message
from emberq.record.batch import iter_batch
from emberq.spark.row_requests import requests_of

SIZE_MAX = 400
MESSAGES = st.lists(
    st.builds(
        Message,
        st.just("orders"),
        st.binary(min_size=1, max_size=SIZE_MAX),
        delay=st.sampled_from([None, None, None, 1]),
    )
)


def keys(count: int) -> Sequence[str]:
    return [f"{number:032}" for number in range(count)]


@given(MESSAGES)
def test_messages_keep_their_order_and_no_request_is_too_large(messages: list[Message]) -> None:
    sent: list[bytes] = []
    for request in requests_of(messages, keys, SIZE_MAX):
        if isinstance(request, Message):
            sent.append(request.body)
        else:
            assert 0 < len(request) <= SIZE_MAX
            sent += [bytes(element.body) for element in iter_batch(request)]

    assert sent == [message.body for message in messages]


def test_one_that_fits_only_without_its_properties_goes_alone() -> None:
    small, large, late = (
        Message("orders", b"x"),
        Message("orders", bytes(SIZE_MAX - 1)),
        Message("orders", b"x", delay=3),
    )

    requests = list(requests_of([small, small, large, late, small], keys, SIZE_MAX))

    assert [isinstance(each, Message) for each in requests] == [False, True, True, False]
    assert requests[1:3] == [large, late]
    assert isinstance(requests[0], bytes)
    assert len(list(iter_batch(requests[0]))) == 2
