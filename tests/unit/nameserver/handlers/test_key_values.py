import json
from pathlib import Path

import pytest

from emberq.protocol.codes import RequestCode, ResponseCode
from tests.unit.nameserver.serving import Serving

PUT = RequestCode.PUT_KV_CONFIG
GET = RequestCode.GET_KV_CONFIG
DELETE = RequestCode.DELETE_KV_CONFIG
LIST = RequestCode.GET_KVLIST_BY_NAMESPACE
ENTRY = {"namespace": "n", "key": "k", "value": "v"}


async def test_a_value_is_stored_before_it_is_acknowledged(tmp_path: Path) -> None:
    serving = Serving(tmp_path)

    response = await serving.call(PUT, ENTRY)

    assert (response.code, response.fields) == (0, None)
    assert json.loads((tmp_path / "kvConfig.json").read_bytes()) == {
        "configTable": {"n": {"k": "v"}}
    }
    assert (await serving.call(GET, ENTRY)).fields == {"value": "v"}


async def test_an_absent_value_is_not_found(tmp_path: Path) -> None:
    response = await Serving(tmp_path).call(GET, {"namespace": "n"})

    assert response.code == ResponseCode.QUERY_NOT_FOUND
    assert response.remark == "No config item, Namespace: n Key: null"
    assert response.fields == {}


@pytest.mark.parametrize("missing", ["namespace", "key"])
async def test_a_value_needs_a_namespace_and_a_key(tmp_path: Path, missing: str) -> None:
    fields = {name: text for name, text in ENTRY.items() if name != missing}
    serving = Serving(tmp_path)

    response = await serving.call(PUT, fields)

    assert (response.code, response.remark) == (1, "namespace or key is null")
    assert (await serving.call(DELETE, fields)).code == 0


async def test_putting_no_value_takes_the_old_one_away(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    await serving.call(PUT, ENTRY)

    assert (await serving.call(PUT, {"namespace": "n", "key": "k"})).code == 0

    assert (await serving.call(GET, ENTRY)).code == ResponseCode.QUERY_NOT_FOUND


async def test_a_namespace_is_listed_even_when_it_was_emptied(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    unknown = await serving.call(LIST, {"namespace": "n"})
    assert (unknown.code, unknown.remark) == (22, "No config item, Namespace: n")

    await serving.call(PUT, ENTRY)
    assert (await serving.call(LIST, {"namespace": "n"})).body == b'{"table":{"k":"v"}}'

    await serving.call(DELETE, ENTRY)
    assert (await serving.call(LIST, {"namespace": "n"})).body == b'{"table":{}}'


@pytest.mark.parametrize("code", [PUT, DELETE])
async def test_what_cannot_be_stored_is_told_and_does_not_count(tmp_path: Path, code: int) -> None:
    serving = Serving(tmp_path)
    await serving.call(PUT, ENTRY)
    (tmp_path / "kvConfig.json.tmp").mkdir()

    response = await serving.call(code, {**ENTRY, "value": "other"})

    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == "the key-value table could not be stored: Is a directory"
    assert (await serving.call(GET, ENTRY)).fields == {"value": "v"}
