"""Signatures agree with the official clients, whatever each of them leaves out."""

import pytest

from emberq.protocol.signature import content_to_sign, is_signature_valid, sign

SECRET = "secret01"


def signed(fields: dict[str, str], body: bytes = b"", *unsigned: str) -> dict[str, str]:
    return {**fields, "Signature": sign(content_to_sign(fields, body, unsigned), SECRET)}


@pytest.mark.parametrize(
    ("access_key", "topic", "secret", "content", "signature"),
    [
        ("appkey01", "T1", "secret01", b"appkey010T1hello", "JzjiYeKOgHkI/B1hy19oQHs/Ajs="),
        (
            "rocketmq2",
            "TopicTest",
            "12345678",
            b"rocketmq20TopicTesthello",
            "av6ifRlR0Kuh217rwHVyMZt8mg4=",
        ),
    ],
)
def test_known_requests_have_their_known_signatures(
    access_key: str, topic: str, secret: str, content: bytes, signature: str
) -> None:
    fields = {"topic": topic, "queueId": "0", "AccessKey": access_key}
    assert content_to_sign(fields, b"hello") == content
    assert sign(content, secret) == signature
    assert is_signature_valid({**fields, "Signature": signature}, b"hello", secret)


def test_names_are_ordered_as_java_orders_them() -> None:
    fields = {"b": "4", "a": "3", "Z": "2", "A": "1", "\uffff": "6", "\U00010000": "5"}
    assert content_to_sign(fields) == b"123456"


def test_the_signature_is_not_part_of_what_is_signed() -> None:
    fields = {"topic": "T"}
    assert content_to_sign(signed(fields)) == content_to_sign(fields)


@pytest.mark.parametrize(
    "unsigned",
    [
        (),
        ("_UNIQUE_KEY_QUERY",),
        ("SecurityToken",),
        ("__ZONE_NAME", "__ZONE_MODE"),
        ("__ZONE_NAME", "__ZONE_MODE", "_UNIQUE_KEY_QUERY", "SecurityToken"),
    ],
)
def test_fields_that_some_clients_do_not_sign_may_be_signed_or_not(unsigned: tuple[str]) -> None:
    fields = {
        "AccessKey": "k",
        "topic": "T",
        "SecurityToken": "token",
        "_UNIQUE_KEY_QUERY": "true",
        "__ZONE_NAME": "z",
        "__ZONE_MODE": "m",
    }
    assert is_signature_valid(signed(fields, b"body", *unsigned), b"body", SECRET)


@pytest.mark.parametrize("change", [{"topic": "U"}, {"AccessKey": "other"}, {"extra": "1"}])
def test_a_changed_field_breaks_the_signature(change: dict[str, str]) -> None:
    fields = signed({"AccessKey": "k", "topic": "T", "SecurityToken": "token"}, b"body")
    assert not is_signature_valid({**fields, **change}, b"body", SECRET)


def test_a_changed_body_or_another_secret_breaks_the_signature() -> None:
    fields = signed({"AccessKey": "k"}, b"body")
    assert not is_signature_valid(fields, b"bodY", SECRET)
    assert not is_signature_valid(fields, b"body", "secret02")


@pytest.mark.parametrize("signature", ["", "é", "\ud800", "AAAA"])
def test_a_signature_that_is_none_is_refused(signature: str) -> None:
    assert not is_signature_valid({"AccessKey": "k", "Signature": signature}, b"", SECRET)


def test_a_request_without_a_signature_is_refused() -> None:
    assert not is_signature_valid({"AccessKey": "k"}, b"", SECRET)
