import pytest

from emberq.errors import RecordError
from emberq.record.batch import BatchElement, encode_batch, encode_batch_element, iter_batch
from emberq.record.layout import PROPERTIES_SIZE_MAX
from emberq.record.properties import decode_properties
from tests.golden.record.vectors import OFFICIAL_4_9_7, OFFICIAL_4_9_8, OFFICIAL_5_5_0

HI = bytes.fromhex(OFFICIAL_4_9_8["batch-hi"])
HELLO = bytes.fromhex(OFFICIAL_4_9_8["batch-hello"])


def test_official_batch_elements_are_written_byte_for_byte() -> None:
    assert encode_batch_element(b"hi", b"WAIT\x01true\x02TAGS\x01TagA", 1) == HI
    assert encode_batch_element(b"hello", b"KEYS\x01k1\x02TAGS\x01TagA\x02") == HELLO


def test_a_batch_is_read_message_by_message() -> None:
    assert list(iter_batch(HI + HELLO)) == [
        BatchElement(b"hi", b"WAIT\x01true\x02TAGS\x01TagA", 1),
        BatchElement(b"hello", b"KEYS\x01k1\x02TAGS\x01TagA\x02", 0),
    ]
    assert list(iter_batch(b"")) == []


@pytest.mark.parametrize("vectors", [OFFICIAL_5_5_0, OFFICIAL_4_9_7], ids=["5.5.0", "4.9.7"])
def test_official_batches_are_read_and_written_alike(vectors: dict[str, str]) -> None:
    content = bytes.fromhex(vectors["batch"])

    first, second = iter_batch(content)

    assert (first.body, first.flag) == (b"hello", 5)
    assert decode_properties(first.properties) == {"KEYS": "k1", "WAIT": "true", "TAGS": "TagA"}
    assert second.body == b""
    assert decode_properties(second.properties)["n"] == "grün 世界 😀"
    assert encode_batch([first, second]) == content


def test_bodies_of_a_view_are_views() -> None:
    (element,) = iter_batch(memoryview(HI))

    assert isinstance(element.body, memoryview)
    assert element == BatchElement(b"hi", b"WAIT\x01true\x02TAGS\x01TagA", 1)


def test_every_truncation_of_a_batch_is_a_record_error() -> None:
    for size in range(1, len(HI)):
        with pytest.raises(RecordError, match="at 43"):
            list(iter_batch(HI + HI[:size]))


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, b"\x00\x00\x00\x2a"),
        (0, b"\x00\x00\x00\x2c"),
        (0, b"\x00\x00\x00\x00"),
        (0, b"\xff\xff\xff\xff"),
        (16, b"\xff\xff\xff\xff"),
        (16, b"\x7f\xff\xff\xff"),
        (22, b"\x00\x14"),
        (22, b"\xff\xff"),
    ],
)
def test_lengths_that_contradict_each_other_are_a_record_error(position: int, value: bytes) -> None:
    damaged = HI[:position] + value + HI[position + len(value) :]

    with pytest.raises(RecordError, match="at 0"):
        list(iter_batch(damaged + b"\x00"))


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RecordError, match="properties of 32768 bytes"):
        encode_batch_element(b"", bytes(PROPERTIES_SIZE_MAX + 1))
    with pytest.raises(RecordError, match="flag"):
        encode_batch_element(b"", b"", 1 << 31)
