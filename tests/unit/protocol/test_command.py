"""Requests of ours and the answers that go back."""

from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.protocol.command import (
    LANGUAGE,
    ONEWAY_BIT,
    RESPONSE_BIT,
    Command,
    HeaderEncoding,
    answer,
    new_request,
)
from emberq.protocol.versions import CURRENT


def test_a_request_says_our_version_and_language() -> None:
    request = new_request(RequestCode.HEART_BEAT, {"a": "1"}, b"body")

    assert request == Command(
        code=34, fields={"a": "1"}, body=b"body", version=CURRENT, language=LANGUAGE
    )
    assert not request.is_response
    assert not request.is_oneway


def test_an_answer_repeats_opaque_and_encoding_and_nothing_else_of_its_request() -> None:
    request = Command(
        code=105,
        fields={"topic": "T1"},
        flag=ONEWAY_BIT,
        opaque=-7,
        remark="asked",
        version=317,
        language="GO",
        body=b"question",
        encoding=HeaderEncoding.BINARY,
    )

    assert answer(
        request, ResponseCode.TOPIC_NOT_EXIST, "no route", {"a": "1"}, b"body"
    ) == Command(
        code=17,
        fields={"a": "1"},
        flag=RESPONSE_BIT,
        opaque=-7,
        remark="no route",
        version=CURRENT,
        language=LANGUAGE,
        body=b"body",
        encoding=HeaderEncoding.BINARY,
    )


def test_codes_are_plain_numbers_whatever_they_were_given_as() -> None:
    assert type(new_request(RequestCode.HEART_BEAT).code) is int
    assert type(answer(Command(), ResponseCode.SYSTEM_BUSY).code) is int


def test_the_flag_bits_are_told_apart_and_others_ignored() -> None:
    both = Command(flag=RESPONSE_BIT | ONEWAY_BIT | 0x40)

    assert both.is_response
    assert both.is_oneway
    assert Command(flag=RESPONSE_BIT).is_response
    assert not Command(flag=RESPONSE_BIT).is_oneway
    assert not Command(flag=ONEWAY_BIT).is_response


def test_a_peer_that_says_nothing_about_itself_is_a_java_peer_of_version_zero() -> None:
    assert Command() == Command(code=0, language="JAVA", version=0, opaque=0, flag=0)
