"""The commands on store directories: what they print, and how they end."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from emberq.cli.main import emberq
from emberq.record.compression import compress
from emberq.record.system_flag import CompressionType, with_compression
from tests.support.store_builder import BORN_AT_MS, StoreBuilder, overwrite


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    builder = StoreBuilder(tmp_path / "store", segment_size=8192)
    for number in range(20):
        builder.add("orders", number % 2, b"order %d" % number, KEYS=f"k{number}", TAGS="new")
    return builder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(emberq, ["store", *map(str, arguments)])


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def damaged(builder: StoreBuilder) -> Path:
    root = builder.write()
    overwrite(root / "commitlog" / f"{0:020d}", builder.placed[3].log_offset, b"\xff" * 20)
    return root


def test_inspect_shows_tables_for_people(builder: StoreBuilder) -> None:
    result = run("inspect", builder.write())

    assert result.exit_code == 0
    for word in ("stopped cleanly", "Segments", "Queues (2 of 1 topic)", "Index files", "orders"):
        assert word in result.stdout
    assert "No damage found" in result.stdout


def test_inspect_gives_json_with_readable_times(builder: StoreBuilder) -> None:
    result = run("inspect", "--json", "--crc", builder.write())

    report = json.loads(result.stdout)
    assert report["records"] == 20
    assert report["isCrcChecked"] is True
    assert report["segments"][0]["firstStoredAtMs"] == BORN_AT_MS + 1
    assert report["segments"][0]["firstStoredAt"] == "2023-11-14T22:13:20.001Z"
    assert report["configFiles"] == []


def test_inspect_sums_up_the_configuration_files(builder: StoreBuilder) -> None:
    config = builder.write() / "config"
    config.mkdir()
    (config / "topics.json").write_text(
        '{"dataVersion":{"counter":4},"topicConfigTable":{"orders":{},"bills":{}}}'
    )
    (config / "consumerOffset.json").write_text('{"offsetTable":{"orders@billing":{0:12,1:7}}}')
    (config / "delayOffset.json").write_text("{damaged")

    result = run("inspect", builder.root)
    files = {
        file["name"]: file
        for file in json.loads(run("inspect", "--json", builder.root).stdout)["configFiles"]
    }

    assert "2 topics" in result.stdout
    assert files["topics.json"]["version"] == 4
    assert files["consumerOffset.json"]["count"] == 1
    assert "problem" in files["delayOffset.json"]


def test_inspect_of_a_damaged_store_says_where_and_exits_with_1(builder: StoreBuilder) -> None:
    result = run("inspect", damaged(builder))

    assert result.exit_code == 1
    assert "Problems" in result.stdout
    assert f"log {builder.placed[3].log_offset}" in result.stdout


def test_long_tables_end_at_the_limit(builder: StoreBuilder) -> None:
    for number in range(60):
        builder.add(f"topic-{number:02d}")
    root = builder.write()

    assert "… and 12 more" in run("inspect", root).stdout
    assert "… and 60 more" in run("inspect", "--limit", 2, root).stdout
    assert "topic-59" in run("inspect", "--limit", 0, root).stdout


def test_a_dumped_message_tells_everything_about_it(builder: StoreBuilder) -> None:
    (message,) = lines(run("dump", builder.write(), "--key", "k7"))

    assert message == {
        "topic": "orders",
        "queueId": 1,
        "queueOffset": 3,
        "logOffset": builder.placed[7].log_offset,
        "offsetId": f"0A00000200002A9F{builder.placed[7].log_offset:016X}",
        "uniqueKey": None,
        "keys": ["k7"],
        "tags": "new",
        "storedAt": "2023-11-14T22:13:20.008Z",
        "storedAtMs": BORN_AT_MS + 8,
        "storeHost": "10.0.0.2:10911",
        "bornAt": "2023-11-14T22:13:20.000Z",
        "bornAtMs": BORN_AT_MS,
        "bornHost": "10.0.0.1:50000",
        "flag": 0,
        "systemFlag": 0,
        "transaction": "none",
        "compression": None,
        "reconsumeTimes": 0,
        "preparedOffset": 0,
        "sizeBytes": builder.placed[7].size,
        "bodySizeBytes": 7,
        "bodyEncoding": "text",
        "body": "order 7",
        "properties": {"KEYS": "k7", "TAGS": "new"},
    }


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ([], 20),
        (["--topic", "orders", "--queue", "1"], 10),
        (["--queue", "0", "--from-offset", "2", "--to-offset", "4"], 3),
        (["--since", str(BORN_AT_MS + 19)], 2),
        (["--since", "2023-11-14T22:13:20.019Z", "--until", "2023-11-14T22:13:21Z"], 2),
        (["--until", "2023-11-14"], 0),
        (["--from-log", "--limit", "5"], 5),
        (["-n", "0"], 0),
    ],
)
def test_options_choose_messages(builder: StoreBuilder, options: list[str], count: int) -> None:
    assert len(lines(run("dump", builder.write(), *options))) == count


@pytest.mark.parametrize(
    ("form", "encoding", "body"),
    [
        ("auto", "base64", "/gA="),
        ("base64", "base64", "/gA="),
        ("text", "text", "\ufffd\0"),
        ("none", None, None),
    ],
)
def test_bodies_take_the_form_that_is_asked_for(
    tmp_path: Path, form: str, encoding: str | None, body: str | None
) -> None:
    builder = StoreBuilder(tmp_path)
    builder.add(body=b"\xfe\x00")

    (message,) = lines(run("dump", builder.write(), "--body", form))

    assert (message["bodyEncoding"], message["body"]) == (encoding, body)


def test_compressed_bodies_are_unpacked_on_request(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    body = compress(b"plain " * 100, CompressionType.ZLIB)
    builder.add(body=body, system_flag=with_compression(0, CompressionType.ZLIB))
    root = builder.write()

    (packed,) = lines(run("dump", root))
    (plain,) = lines(run("dump", root, "--decompress"))

    assert (packed["compression"], packed["bodyEncoding"]) == ("zlib", "base64")
    assert (plain["compression"], plain["body"]) == (None, "plain " * 100)


def test_a_body_that_cannot_be_unpacked_is_shown_as_it_is(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    builder.add(body=b"no zlib", system_flag=with_compression(0, CompressionType.ZLIB))

    result = run("dump", builder.write(), "--decompress")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["body"] == "no zlib"
    assert "stays compressed" in result.stderr


def test_messages_that_cannot_be_read_are_named_on_stderr(builder: StoreBuilder) -> None:
    result = run("dump", damaged(builder))

    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 19
    assert "orders/1 offset 1" in result.stderr


def test_verify_says_that_nothing_is_wrong(builder: StoreBuilder) -> None:
    result = run("verify", builder.write())

    assert result.exit_code == 0
    assert "Nothing is wrong." in result.stdout
    assert "20 records" in result.stdout


def test_verify_counts_and_shows_findings_and_exits_with_1(builder: StoreBuilder) -> None:
    root = damaged(builder)

    result = run("verify", root)
    outcome = json.loads(run("verify", "--json", "--limit", 1, root).stdout)

    assert result.exit_code == 1
    assert "message-lost" in result.stdout
    assert "orders/1 offset 1" in result.stdout
    assert outcome["findingCounts"] == {"log-damaged": 1, "message-lost": 1}
    assert [finding["kind"] for finding in outcome["findings"]] == ["log-damaged"]


def test_verify_knows_deleted_topics_from_topics_json(builder: StoreBuilder) -> None:
    builder.add("gone", 0)
    root = builder.write()
    (root / "consumequeue/gone/0" / f"{0:020d}").unlink()
    (root / "config").mkdir()
    (root / "config/topics.json").write_text('{"topicConfigTable":{"orders":{}}}')

    result = run("verify", root)

    assert result.exit_code == 0
    assert "records of deleted topics: 1" in result.stdout


@pytest.mark.parametrize("command", ["inspect", "dump", "verify"])
def test_an_unusable_directory_is_one_line_and_exit_code_2(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    for directory in (tmp_path, tmp_path / "file", tmp_path / "nowhere"):
        result = run(command, directory)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.startswith(f"emberq: {directory} ")
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "options", [["--since", "yesterday"], ["--queue", "x"], ["--body", "xml"], ["--limit", "-1"]]
)
def test_an_option_that_makes_no_sense_is_refused(
    builder: StoreBuilder, options: list[str]
) -> None:
    result = run("dump", builder.write(), *options)

    assert result.exit_code == 2
    assert "Invalid value" in result.stderr


def test_a_log_elsewhere_is_named_by_an_option(builder: StoreBuilder, tmp_path: Path) -> None:
    root = builder.write()
    (root / "commitlog").rename(tmp_path / "log")

    assert len(lines(run("dump", root, "--commit-log", tmp_path / "log"))) == 20
    assert run("dump", root, "--commit-log", tmp_path / "nowhere").exit_code == 2
