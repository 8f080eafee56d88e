"""The mapper reads what official peers send and writes what they expect."""

from typing import Any, ClassVar

import pytest
from msgspec import field

from emberq.errors import ProtocolError
from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32, Int64, from_fields, to_fields


class Sample(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.GET_MAX_OFFSET
    topic: str
    queue_id: Int32
    born_at_ms: Int64 = field(name="bornTimestamp")
    is_batch: bool = field(name="batch", default=False)
    is_logical: bool | None = field(name="lo", default=None)
    retry_count: Int32 | None = None
    crc32: Int32 = 7
    ratio: float | None = None


REQUIRED = {"topic": "T", "queueId": "3", "bornTimestamp": "1700000000000"}


def read(**fields: str) -> Sample:
    return from_fields(Sample, {**REQUIRED, **fields})


def test_fields_become_typed_values_under_readable_names() -> None:
    header = read(batch="true", lo="false", retryCount="-1", crc32="0", ratio="0.5")
    assert header == Sample(
        topic="T",
        queue_id=3,
        born_at_ms=1700000000000,
        is_batch=True,
        is_logical=False,
        retry_count=-1,
        crc32=0,
        ratio=0.5,
    )


def test_values_are_written_as_text_and_absent_ones_not_at_all() -> None:
    header = Sample(topic="", queue_id=-1, born_at_ms=2**63 - 1, is_batch=True)
    assert to_fields(header) == {
        "topic": "",
        "queueId": "-1",
        "bornTimestamp": "9223372036854775807",
        "batch": "true",
        "crc32": "7",
    }
    assert to_fields(Sample(topic="T", queue_id=0, born_at_ms=0))["batch"] == "false"


def test_unknown_fields_are_ignored() -> None:
    assert read(Signature="x", nonsense="1") == read()


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "tRuE"])
def test_true_in_any_case_is_true(text: str) -> None:
    assert read(batch=text).is_batch is True
    assert read(lo=text).is_logical is True


@pytest.mark.parametrize("text", ["false", "FALSE", "1", "0", "yes", "", "null", " true"])
def test_everything_else_is_false(text: str) -> None:
    assert read(batch=text).is_batch is False
    assert read(lo=text).is_logical is False


@pytest.mark.parametrize("text", ["x", "", "null", "2147483648", "-2147483649", "1_0", " 1", "٣"])
def test_an_optional_number_that_does_not_parse_counts_as_absent(text: str) -> None:
    header = read(retryCount=text, crc32=text)
    assert (header.retry_count, header.crc32) == (None, 7)


def test_an_optional_fraction_that_does_not_parse_counts_as_absent() -> None:
    assert read(ratio="half").ratio is None
    assert read(ratio="0.25", batch="neither").ratio == 0.25


@pytest.mark.parametrize(("text", "number"), [("+5", 5), ("-05", -5), ("007", 7), ("-0", 0)])
def test_numbers_may_have_signs_and_leading_zeros(text: str, number: int) -> None:
    assert read(queueId=text).queue_id == number


@pytest.mark.parametrize("name", list(REQUIRED))
def test_a_missing_required_field_is_named(name: str) -> None:
    fields = {key: value for key, value in REQUIRED.items() if key != name}
    with pytest.raises(ProtocolError, match=f"Sample: {name} is missing"):
        from_fields(Sample, fields)


@pytest.mark.parametrize("text", ["", "x", "null", "4294967296", "9" * 5000, "+", "-", "--1"])
def test_a_required_number_that_does_not_parse_is_named(text: str) -> None:
    with pytest.raises(ProtocolError, match="Sample: queueId is not a number in range"):
        read(queueId=text)


@pytest.mark.parametrize("text", ["5", "-0", "1.0", "1e3", "+7"])
def test_a_number_means_the_same_whatever_else_is_in_the_header(text: str) -> None:
    assert read(queueId=text) == read(queueId=text, batch="neither") == read(queueId=text, crc32="")


def test_lone_surrogates_are_text_like_any_other() -> None:
    assert read(topic="\ud800").topic == "\ud800"
    assert read(retryCount="\ud800").retry_count is None
    with pytest.raises(ProtocolError):
        read(queueId="\ud800")


def test_64_bits_are_read_whole() -> None:
    assert read(bornTimestamp="-9223372036854775808").born_at_ms == -(2**63)
    with pytest.raises(ProtocolError, match="bornTimestamp"):
        read(bornTimestamp="9223372036854775808")


def test_a_header_cannot_be_changed() -> None:
    header: Any = read()
    with pytest.raises(AttributeError):
        header.queue_id = 4
