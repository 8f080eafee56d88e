"""A recall handle is the official text, and nothing else is a recall handle."""

from base64 import urlsafe_b64encode

import pytest

from emberq.errors import ProtocolError
from emberq.protocol.recall_handle import NO_TIME, RecallHandle

HANDLE = RecallHandle(
    topic="T1",
    broker_name="brk-a",
    deliver_at_ms=1700000000001,
    message_id="0A0101070000000000000000",
)
TEXT = "djEgVDEgYnJrLWEgMTcwMDAwMDAwMDAwMSAwQTAxMDEwNzAwMDAwMDAwMDAwMDAwMDA="


def test_a_handle_has_the_official_text() -> None:
    assert HANDLE.encode() == TEXT
    assert RecallHandle.decode(TEXT) == HANDLE


def test_padding_may_be_missing() -> None:
    assert RecallHandle.decode(TEXT.rstrip("=")) == HANDLE


def test_the_alphabet_is_safe_in_urls() -> None:
    handle = RecallHandle(topic="ÿÿ>", broker_name="?~", deliver_at_ms=1, message_id="ÿ")
    assert not {"+", "/"} & set(handle.encode())
    assert RecallHandle.decode(handle.encode()) == handle


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"v1",
        b"v2 T1 brk-a 1 id",
        b"v1 T1 brk-a 1",
        b"\xff\xfe",
    ],
)
def test_another_content_is_a_protocol_error(content: bytes) -> None:
    with pytest.raises(ProtocolError):
        RecallHandle.decode(urlsafe_b64encode(content).decode())


@pytest.mark.parametrize("time", ["x", "-1", "9999999999999999999", "\u0663", ""])
def test_a_time_that_is_no_number_is_none(time: str) -> None:
    handle = urlsafe_b64encode(f"v1 T1 brk-a {time} id".encode()).decode()

    assert RecallHandle.decode(handle).deliver_at_ms == NO_TIME


def test_further_parts_are_passed_over() -> None:
    handle = urlsafe_b64encode(b"v1 T1 brk-a 7 id more").decode()

    assert RecallHandle.decode(handle).message_id == "id"


@pytest.mark.parametrize("text", ["a", "é", "\ud800", "!!!!", "=", "djEg VDEg"])
def test_text_that_is_not_base64_is_a_protocol_error(text: str) -> None:
    with pytest.raises(ProtocolError):
        RecallHandle.decode(text)
