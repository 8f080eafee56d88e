"""Both ways to make a send request make the same one."""

import pytest
from msgspec.structs import replace

from emberq.client.core.outgoing import Outgoing
from emberq.client.core.send_request import FRAMES_MAX, SendRequests
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command
from emberq.protocol.frame import encode_frame
from emberq.protocol.request_frame import FramedRequest

QUEUE = MessageQueue("broker-a", 3, "orders")
READY = Outgoing("orders", b"body", "KEYS\x01k\x02", "ID", 7, 1)


@pytest.fixture(autouse=True)
def _time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)


@pytest.mark.parametrize(
    ("ready", "code"),
    [
        (READY, RequestCode.SEND_MESSAGE_V2),
        (replace(READY, is_batch=True), RequestCode.SEND_BATCH_MESSAGE),
        (replace(READY, is_reply=True), RequestCode.SEND_REPLY_MESSAGE_V2),
        (
            replace(READY, topic="ns%orders", properties="名\x01“值”\x02"),
            RequestCode.SEND_MESSAGE_V2,
        ),
    ],
)
def test_a_framed_request_has_the_bytes_of_one_with_fields(
    ready: Outgoing, code: RequestCode
) -> None:
    requests = SendRequests("group", "TBW102", 4)

    framed = requests.framed(ready, QUEUE)

    assert isinstance(framed, FramedRequest)
    general = requests.with_fields(ready, QUEUE)
    assert general.code == framed.code == code
    assert framed.head() + framed.body == encode_frame(general)


def test_text_without_bytes_takes_the_other_way() -> None:
    requests = SendRequests("group", "TBW102", 4)

    request = requests.framed(replace(READY, properties="a\x01\ud800\x02"), QUEUE)

    assert isinstance(request, Command)
    assert b"?" in encode_frame(request)


def test_no_more_frames_are_kept_than_the_limit() -> None:
    requests = SendRequests("group", "TBW102", 4)

    for number in range(FRAMES_MAX + 10):
        requests.framed(replace(READY, topic=f"topic-{number}"), QUEUE)

    assert len(requests._frames) == 10
