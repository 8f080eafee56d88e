import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from emberq.errors import ConfigError
from emberq.nameserver import kv_store
from emberq.nameserver.kv_store import KeyValueStore, load_table
from emberq.nameserver.kv_table import KeyValueTable
from emberq.stored_file import backup_of

OFFICIAL_FILE = '{"configTable":{"n1":{"k1":"v1"}}}'


def put(key: str, value: str) -> Callable[[KeyValueTable], KeyValueTable]:
    return lambda table: table.with_value("n", key, value)


async def test_the_file_has_the_official_format(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"
    store = KeyValueStore(path, load_table(path))

    await store.change(lambda table: table.with_value("n1", "k1", "v1"))

    assert path.read_text() == OFFICIAL_FILE
    assert load_table(path).namespaces() == {"n1": {"k1": "v1"}}


async def test_other_alphabets_survive(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    store = KeyValueStore(path, KeyValueTable())

    await store.change(lambda table: table.with_value("ns ü", "kéy/€", 'v "q" \\ \t 😀'))

    assert load_table(path).get("ns ü", "kéy/€") == 'v "q" \\ \t 😀'


def test_without_a_file_the_table_is_empty(tmp_path: Path) -> None:
    assert load_table(tmp_path / "kvConfig.json").namespaces() == {}


async def test_a_damaged_file_gives_way_to_its_predecessor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kvConfig.json"
    store = KeyValueStore(path, KeyValueTable())
    await store.change(put("k", "1"))
    await store.change(put("k", "2"))
    path.write_text('{"configTable":{"n":{"k"')

    assert load_table(path).get("n", "k") == "1"
    assert f"kv_file_damaged path={path}" in caplog.text


@pytest.mark.parametrize("damage", [b"garbage", b"[]", b'{"configTable":[]}', b"\xff\xfe\x00"])
def test_two_damaged_files_are_an_error_that_names_both(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_bytes(damage)
    backup_of(path).write_bytes(damage)

    with pytest.raises(ConfigError) as caught:
        load_table(path)

    assert f"{path} is damaged: " in str(caught.value)
    assert f"{backup_of(path)} is damaged: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_file_is_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.touch()

    assert load_table(path).namespaces() == {}


def test_an_empty_file_gives_way_to_its_predecessor(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.touch()
    backup_of(path).write_text(OFFICIAL_FILE)

    assert load_table(path).namespaces() != {}


def test_a_damaged_file_without_predecessor_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("garbage")

    with pytest.raises(ConfigError, match="is damaged"):
        load_table(path)


def test_a_file_that_somebody_removed_is_not_replaced_by_its_predecessor(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    backup_of(path).write_text(OFFICIAL_FILE)

    assert load_table(path).namespaces() == {}


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}: Is a directory"):
        load_table(tmp_path)


async def test_a_change_that_cannot_be_stored_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = KeyValueStore(tmp_path / "file" / "below", KeyValueTable())

    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        await store.change(put("k", "1"))

    assert store.table.get("n", "k") is None


async def test_a_step_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    store = KeyValueStore(path, KeyValueTable())

    await store.change(lambda table: table.without("n", "k"))

    assert not path.exists()


async def test_changes_at_the_same_time_all_count(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    store = KeyValueStore(path, KeyValueTable())
    expected = {f"k{number}": str(number) for number in range(20)}

    await asyncio.gather(*(store.change(put(key, value)) for key, value in expected.items()))

    assert store.table.list("n") == expected
    assert load_table(path).list("n") == expected


async def test_a_change_counts_only_once_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = KeyValueStore(tmp_path / "kvConfig.json", KeyValueTable())
    seen_while_storing: list[str | None] = []

    def note(_: Path, content: bytes) -> None:
        assert content == b'{"configTable":{"n":{"k":"1"}}}'
        seen_while_storing.append(store.table.get("n", "k"))

    monkeypatch.setattr(kv_store, "replace_file", note)
    await store.change(put("k", "1"))

    assert seen_while_storing == [None]
    assert store.table.get("n", "k") == "1"
