from pathlib import Path

import pytest

from emberq.protocol.codes import RequestCode, ResponseCode
from tests.unit.nameserver.serving import Serving

UPDATE = RequestCode.UPDATE_NAMESRV_CONFIG
GET = RequestCode.GET_NAMESRV_CONFIG


async def test_an_update_is_stored_shown_and_in_force(tmp_path: Path) -> None:
    serving = Serving(tmp_path)

    response = await serving.call(UPDATE, body=b"enableTopicList=false\r\nproductEnvName=pre")

    assert response.code == 0
    shown = (await serving.call(GET)).body.decode().splitlines()
    stored = (tmp_path / "namesrv.conf").read_text().splitlines()
    for lines in (shown, stored):
        assert {"enableTopicList=false", "productEnvName=pre"} <= set(lines)
    assert (await serving.call(RequestCode.GET_TOPICS_BY_CLUSTER)).remark == "disable"


@pytest.mark.parametrize(
    "key", ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome", "listenPort"]
)
async def test_black_listed_keys_and_all_beside_them_are_refused(tmp_path: Path, key: str) -> None:
    serving = Serving(tmp_path, config_black_list="configBlackList;listenPort")

    response = await serving.call(UPDATE, body=f"{key}=9\nproductEnvName=pre\n".encode())

    assert response.code == ResponseCode.NO_PERMISSION
    assert response.remark == "Can not update config in black list."
    assert serving.settings.config.product_env_name == "center"


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (b"listenPort=abc", "listenPort='abc': expected a whole number"),
        (b"productEnvName=x\norderMessageEnable=maybe", "expected true or false"),
        (b"enableControllerInNamesrv=true", "there is no controller"),
        (b"a=\\u12", "unreadable properties"),
    ],
)
async def test_values_that_mean_nothing_are_refused_as_a_whole(
    tmp_path: Path, body: bytes, remark: str
) -> None:
    serving = Serving(tmp_path)
    before = serving.settings.config

    response = await serving.call(UPDATE, body=body)

    assert response.code == ResponseCode.SYSTEM_ERROR
    assert remark in (response.remark or "")
    assert serving.settings.config is before
    assert not (tmp_path / "namesrv.conf").exists()


@pytest.mark.parametrize("body", [b"", b"\n \n", b"# comment\n", b"noSuchKey=1\n", b"garbage"])
async def test_nothing_of_ours_is_nothing_to_do(tmp_path: Path, body: bytes) -> None:
    serving = Serving(tmp_path)

    assert (await serving.call(UPDATE, body=body)).code == 0
    assert not (tmp_path / "namesrv.conf").exists()


async def test_an_update_that_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    serving = Serving(tmp_path, config_store_path=str(tmp_path / "file" / "below"))

    response = await serving.call(UPDATE, body=b"productEnvName=pre")

    assert response.code == ResponseCode.SYSTEM_ERROR
    assert (response.remark or "").startswith("the configuration could not be stored: ")
    assert serving.settings.config.product_env_name == "center"


async def test_half_a_character_does_not_break_what_is_shown(tmp_path: Path) -> None:
    serving = Serving(tmp_path)

    assert (await serving.call(UPDATE, body=b"productEnvName=\\ud83d")).code == 0

    assert b"productEnvName=" in (await serving.call(GET)).body
