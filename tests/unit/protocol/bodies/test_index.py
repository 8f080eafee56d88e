"""The index of bodies: everything resolves, and nothing that is needed is missing."""

import subprocess
import sys
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import fields

from emberq.protocol.bodies.index import (
    PROPERTIES_TEXT_CODES,
    RECORD_CODES,
    indexed_codes,
    request_body_type,
    response_body_type,
)
from emberq.protocol.bodies.registration import RegisterBrokerBody
from emberq.protocol.bodies.shape import is_struct, parts_of, without_none
from emberq.protocol.codes import RequestCode

# Codes of the must-have sets whose requests and answers both live in their headers alone.
WITHOUT_BODIES = {
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET,
    RequestCode.GET_EARLIEST_MSG_STORETIME,
    RequestCode.UNREGISTER_CLIENT,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.END_TRANSACTION,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
    RequestCode.DELETE_ACL_CONFIG,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    RequestCode.PUT_KV_CONFIG,
    RequestCode.GET_KV_CONFIG,
    RequestCode.DELETE_KV_CONFIG,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLONE_GROUP_OFFSET,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.RECALL_MESSAGE,
    RequestCode.EXCHANGE_BROKER_HA_INFO,
    RequestCode.ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    RequestCode.AUTH_DELETE_USER,
    RequestCode.AUTH_DELETE_ACL,
}
# Official clients, tools and slaves need these to work at all.
MUST_HAVE = {
    *(10, 11, 12, 14, 15, 17, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41),
    *(42, 43, 45, 46, 50, 51, 52, 53, 54, 60, 61, 100, 101, 102, 105, 106, 200, 201, 202, 203),
    *(204, 205, 206, 207, 208, 215, 216, 219, 220, 221, 222, 223, 224, 300, 303, 304, 305, 306),
    *(307, 309, 310, 314, 315, 316, 317, 318, 319, 320, 321, 324, 325, 326, 327, 328, 329, 351),
    *(352, 361, 370, 400, 402, 906, 1008, 200050, 200051, 200053, 200151),
    *range(3001, 3011),
}


@pytest.mark.parametrize("code", sorted(indexed_codes()))
def test_a_listed_body_resolves(code: int) -> None:
    types = (request_body_type(code), response_body_type(code))

    assert types != (None, None)
    for body_type in types:
        assert body_type is None or any(is_struct(part) for part in parts_of(body_type))


def test_every_code_of_the_must_have_sets_has_its_bodies() -> None:
    known = indexed_codes() | PROPERTIES_TEXT_CODES | RECORD_CODES | WITHOUT_BODIES

    assert MUST_HAVE - known == set()


def test_members_are_declared_in_the_order_they_are_written_which_is_alphabetical() -> None:
    for struct_type in all_struct_types():
        names = [member.encode_name for member in fields(struct_type)]
        assert names == sorted(names), struct_type


def test_an_optional_member_is_absent_by_default_because_absent_is_how_none_is_written() -> None:
    for struct_type in all_struct_types() - {RegisterBrokerBody}:
        for member in fields(struct_type):
            if without_none(member.type) is not member.type:
                assert member.default is None, (struct_type, member.name)


def test_an_unknown_code_has_no_bodies() -> None:
    assert request_body_type(424242) is None
    assert response_body_type(424242) is None


def test_the_index_imports_no_body_before_it_is_asked_for() -> None:
    script = (
        "import sys, emberq.protocol.bodies.index as index; "
        "index.response_body_type(105); "
        "print([m for m in sys.modules if m.startswith('emberq.protocol.bodies.')])"
    )

    output = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout

    assert "bodies.routes" in output
    assert "bodies.heartbeat" not in output


def all_struct_types() -> set[type[Struct]]:
    roots: list[Any] = [
        body_type
        for code in indexed_codes()
        for body_type in (request_body_type(code), response_body_type(code))
        if body_type is not None
    ]
    return {part for root in roots for part in parts_of(root) if is_struct(part)}
