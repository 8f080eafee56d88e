"""Every header is found by its code and has the fields of the official one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header, Int32, Int64, from_fields, to_fields
from emberq.protocol.headers.index import (
    indexed_codes,
    request_header_type,
    response_header_type,
)
from emberq.protocol.headers.send import SendMessage, SendMessageV2
from emberq.protocol.headers.subscription_groups import DeleteSubscriptionGroup

OFFICIAL = json.loads(
    (Path(__file__).parents[2] / "golden/protocol/official_headers.json").read_text()
)
LINES = ("4.9.7", "5.5.0")

JAVA_CLIENTS = {
    *(10, 11, 12, 14, 15, 17, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 46, 105),
    *(220, 221, 307, 309, 310, 320, 325, 326, 361, 370, 400, 200050, 200051, 200053, 200151),
}
GO_CLIENT = {
    *(105, 10, 320, 324, 34, 11, 14, 15, 29, 30, 36, 37, 38, 41, 42, 39, 40, 220, 221, 307, 309),
    *(326, 17, 201, 206, 215, 216),
}
TOOLS = {
    *(105, 106, 206, 100, 101, 102, 219, 205, 327, 216, 318, 319, 304, 224, 17, 21, 351, 215, 202),
    *(200, 201, 352, 207, 208, 203, 204, 328, 25, 26, 28, 222, 223, 300, 303, 305, 306, 307, 309),
    *(314, 315, 316, 317, 321, 329, 12, 33, 11, 14, 15, 29, 30, 31, 32, 34, 35, 310),
    *range(50, 55),
    *range(3001, 3011),
}
SLAVES = {21, 43, 45, 201, 402, 60, 61, 906, 1008}
NAME_SERVER = {
    *(100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318),
    *(319, 322, 327, 901, 904, 905),
}

KINDS: dict[Any, str] = {str: "string", bool: "boolean", Int32: "int32", Int64: "int64"}
KINDS |= {kind | None: name for kind, name in KINDS.items()}

# Official name → why ours has no such field.
NOT_TAKEN_OVER = {
    ("310", "bname"): "the short form has the broker's name as `n`",
}


def header_types() -> list[type[Header]]:
    found = [
        f(code) for code in indexed_codes() for f in (request_header_type, response_header_type)
    ]
    return sorted({t for t in found if t is not None}, key=lambda t: t.__name__)


def kinds_by_wire_name(header_type: type[Header]) -> dict[str, str]:
    return {f.encode_name: KINDS[f.type] for f in msgspec.structs.fields(header_type)}


@pytest.mark.parametrize("codes", [JAVA_CLIENTS, GO_CLIENT, TOOLS, SLAVES, NAME_SERVER])
def test_every_needed_code_is_indexed(codes: set[int]) -> None:
    assert codes <= indexed_codes()


def test_every_entry_of_the_index_resolves_to_a_header_of_its_code() -> None:
    for code in indexed_codes():
        request = request_header_type(code)
        assert request is None or request.code == code
        response = response_header_type(code)
        assert response is None or response_header_type(response.code) is response


def test_a_code_outside_the_index_has_no_headers() -> None:
    assert request_header_type(-5) is None
    assert response_header_type(RequestCode.GET_CLIENT_CONFIG) is None


def test_no_header_uses_a_wire_name_twice() -> None:
    for header_type in header_types():
        names = header_type.__struct_encode_fields__
        assert len(names) == len(set(names)), header_type


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("direction", ["requests", "responses"])
def test_official_fields_are_ours_with_the_same_type(line: str, direction: str) -> None:
    type_of = request_header_type if direction == "requests" else response_header_type
    for code, official in OFFICIAL[line][direction].items():
        if int(code) not in indexed_codes():
            continue
        header_type = type_of(int(code))
        assert header_type is not None, code
        ours = kinds_by_wire_name(header_type)
        theirs = {n: kind.removeprefix("required ") for n, kind in official.items()}
        expected = {n: k for n, k in theirs.items() if (code, n) not in NOT_TAKEN_OVER}
        assert {n: ours.get(n) for n in expected} == expected, header_type


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("direction", ["requests", "responses"])
def test_we_require_nothing_that_an_official_peer_may_leave_out(line: str, direction: str) -> None:
    type_of = request_header_type if direction == "requests" else response_header_type
    for code, official in OFFICIAL[line][direction].items():
        header_type = type_of(int(code))
        if header_type is None:
            continue
        ours = {f.encode_name for f in msgspec.structs.fields(header_type) if f.required}
        assert ours <= {n for n, kind in official.items() if kind.startswith("required")}


def test_both_forms_of_a_send_mean_the_same() -> None:
    letters: dict[str, str] = dict(zip("abcdefghijklmn", map(str, range(14)), strict=True))
    letters |= {"k": "true", "m": "false"}
    short = from_fields(SendMessageV2, letters)
    attributes = {name: getattr(short, name) for name in short.__struct_fields__}
    long = SendMessage(**attributes)
    assert to_fields(long) == {
        "producerGroup": "0",
        "topic": "1",
        "defaultTopic": "2",
        "defaultTopicQueueNums": "3",
        "queueId": "4",
        "sysFlag": "5",
        "bornTimestamp": "6",
        "flag": "7",
        "properties": "8",
        "reconsumeTimes": "9",
        "unitMode": "true",
        "maxReconsumeTimes": "11",
        "batch": "false",
        "bname": "13",
    }


@pytest.mark.parametrize("name", ["removeOffset", "cleanOffset"])
def test_the_offsets_of_a_deleted_group_go_by_either_name_of_the_flag(name: str) -> None:
    fields = {"groupName": "g"}
    assert not from_fields(DeleteSubscriptionGroup, fields).forgets_offsets
    assert from_fields(DeleteSubscriptionGroup, {**fields, name: "true"}).forgets_offsets


def test_the_index_imports_no_header_before_it_is_asked() -> None:
    program = (
        "import sys; import emberq.protocol.headers.index as index;"
        "loaded = [m for m in sys.modules if m.startswith('emberq.protocol.headers.')];"
        "assert loaded == ['emberq.protocol.headers.index'], loaded;"
        "index.request_header_type(101);"
        "assert 'emberq.protocol.headers.nameserver' in sys.modules;"
        "assert 'emberq.protocol.headers.send' not in sys.modules"
    )
    result: Any = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
