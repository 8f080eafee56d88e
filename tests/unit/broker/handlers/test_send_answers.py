"""The template gives the bytes of the generic way."""

import pytest

from emberq.broker.handlers.send_answers import SendAnswers
from emberq.protocol.command import Command, answer
from emberq.protocol.frame import encode_frame
from emberq.record.host import PackedHost, pack_host
from tests.support.stores import HOST

REQUEST = Command(code=310, opaque=-7)


@pytest.mark.parametrize("region", ["DefaultRegion", "cn-1", 'a"b', "é", ""])
@pytest.mark.parametrize("key", ["7F0000010000927F", "é", 'a"', "a b", ""])
def test_a_single_message(region: str, key: str) -> None:
    answers = SendAnswers(HOST, region, is_trace_on=True)

    frame = answers.stored(REQUEST, 10, 3, 1 << 40, 0xABCDEF, key)

    fields = {
        "queueId": "3",
        "transactionId": key,
        "msgId": "0A01020300002A9F0000000000ABCDEF",
        "TRACE_ON": "true",
        "MSG_REGION": region,
        "queueOffset": str(1 << 40),
    }
    assert frame == encode_frame(answer(REQUEST, 10, None, fields))


@pytest.mark.parametrize("host", [HOST, pack_host("fe80::1", 10911)])
@pytest.mark.parametrize("key", [None, "U1"])
def test_a_batch(host: PackedHost, key: str | None) -> None:
    answers = SendAnswers(host, "R", is_trace_on=False)

    frame = answers.batch_stored(REQUEST, 0, 1, 2, (0, 1 << 33), key)

    ids = ",".join(f"{host.hex().upper()}{offset:016X}" for offset in (0, 1 << 33))
    fields = {
        "queueId": "1",
        **({} if key is None else {"transactionId": key}),
        "msgId": ids,
        "TRACE_ON": "false",
        "MSG_REGION": "R",
        "queueOffset": "2",
    }
    assert frame == encode_frame(answer(REQUEST, 0, None, fields))
