"""Codes agree with the official lists and survive the binary header."""

import json
from pathlib import Path

import pytest

from emberq.protocol.codes import RequestCode, ResponseCode, unwrap_short_code

OFFICIAL = json.loads(
    (Path(__file__).parents[2] / "golden/protocol/official_headers.json").read_text()
)
ACL_ADMINISTRATION = {
    "UPDATE_AND_CREATE_ACL_CONFIG_FAILED": 209,
    "DELETE_ACL_CONFIG_FAILED": 210,
    "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED": 211,
}


@pytest.mark.parametrize("line", ["4.9.7", "5.5.0"])
def test_every_official_request_code_has_its_official_name(line: str) -> None:
    for name, code in OFFICIAL[line]["request_codes"].items():
        assert RequestCode[name] == code


@pytest.mark.parametrize("line", ["4.9.7", "5.5.0"])
def test_every_official_response_code_has_its_official_name(line: str) -> None:
    for name, code in OFFICIAL[line]["response_codes"].items():
        assert ResponseCode[name] == code


def test_no_two_request_codes_share_a_number() -> None:
    assert len(RequestCode.__members__) == len(set(RequestCode))


def test_only_acl_administration_shares_its_numbers_with_pop() -> None:
    aliases = {n: int(c) for n, c in ResponseCode.__members__.items() if n != c.name}
    assert aliases == ACL_ADMINISTRATION
    assert ResponseCode(209) is ResponseCode.POLLING_FULL


def test_pop_codes_that_lost_their_high_bits_are_recognised() -> None:
    cut = [*range(3442, 3449), 3543]
    assert [unwrap_short_code(code) for code in cut] == [*range(200050, 200057), 200151]
    assert unwrap_short_code(3462) == RequestCode.POP_LITE_MESSAGE


def test_codes_that_fit_are_left_alone() -> None:
    for code in RequestCode:
        assert unwrap_short_code(code) == code
    assert unwrap_short_code(32767) == 32767
    assert unwrap_short_code(-1) == -1
