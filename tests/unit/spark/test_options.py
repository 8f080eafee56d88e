"""Options become one checked value, or an error that says what is expected."""

import pickle
import re
from pathlib import Path

import pytest

from emberq.errors import ConfigError
from emberq.model.queue import MessageQueue
from emberq.spark.columns import CATALOGUE, check_schema, chosen_columns, ddl
from emberq.spark.option_table import CONNECTION, SINK, SOURCE, Option
from emberq.spark.options import parse_source, parse_stream
from emberq.spark.sink_options import SINK_COLUMNS, check_sink_columns, parse_sink

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "spark-options.md"


def test_names_are_in_any_case_and_the_defaults_are_those_of_the_page() -> None:
    options = parse_source({"SUBSCRIBE": "a, b,a", "NameServer": "h:1"})

    assert options.topics == ("a", "b")
    assert options.connection.name_server == "h:1"
    assert options.pull.bytes_max == 2 << 20
    assert options.partition.bytes_max == 256 << 20
    assert options.trigger.delay_max_s == 900
    assert (options.decode.batch_rows, options.decode.batch_bytes) == (10_000, 4 << 20)
    assert options.idle_poll_s == 0.2


def test_options_travel_to_tasks() -> None:
    text = '{"a": {"b": {"0": 7}}}'
    options = parse_source({"path": "a", "startingOffsets": text, "tags": "x || y"})

    assert pickle.loads(pickle.dumps(options)) == options
    assert options.start is not None
    assert options.start.offsets == {MessageQueue("b", 0, "a"): 7}
    assert options.decode.tags == ("x", "y")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "none of them"),
        ({"subscribe": "a", "assign": "{}"}, "subscribe and assign"),
        ({"assign": "{}"}, "names no queue"),
        ({"assign": '{"a": [1]}'}, "expected"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribePattern": "("}, "subscribePattern"),
        ({"subscribe": "a", "accessKey": "k"}, "belong together"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, "a number from 1 on"),
        ({"subscribe": "a", "maxTriggerDelay": "15"}, "a duration such as"),
        ({"subscribe": "a", "startingTimestamp": "soon"}, "ISO 8601"),
        ({"subscribe": "a", "startingOffsets": "{"}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"b": {"0": -3}}}'}, "no offset"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "expected latest or JSON"),
        ({"subscribe": "a", "startingOffsets": "latest", "startingTimestamp": "1"}, "exclude"),
        ({"subscribe": "a", "tls": "maybe"}, "one of true, false"),
        ({"subscribe": "a", "store": "d", "sqlFilter": "a"}, "works at a broker"),
        ({"subscribe": "a", "scan": "local", "sqlFilter": "a"}, "use scan=auto"),
        ({"subscribe": "a", "view": "offsets", "sqlFilter": "a"}, "the view offsets is of whole"),
        ({"subscribe": "a", "view": "groups", "tags": "a"}, "the view groups is of whole queues"),
        ({"subscribe": "a", "startingOffsets": "group"}, "needs consumerGroup"),
        ({"subscribe": "a", "tags": "||"}, "expected"),
        ({"subscribe": "a", "pul.maxBytes": "1"}, "did you mean pull.maxBytes"),
    ],
)
def test_what_makes_no_sense_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_source(given)


@pytest.mark.parametrize(
    "end",
    [
        {"endingOffsets": "latest"},
        {"endingTimestamp": "1700000000000"},
        {"option.endingoffsetsbytimestamp": '{"a": 5}'},
    ],
)
def test_streams_have_no_end(end: dict[str, str]) -> None:
    parse_source({"subscribe": "a", **end})

    with pytest.raises(ConfigError, match=r"^ending\w+: a stream has no end"):
        parse_stream({"subscribe": "a", **end})


@pytest.mark.parametrize(
    ("given", "scan"),
    [
        ({"scan": "auto"}, "auto"),
        ({"scan": "auto", "tags": "a"}, "auto"),
        ({"scan": "local", "tags": "a"}, "local"),
        ({"scan": "auto", "sqlFilter": "n > 1"}, "rpc"),
        ({"sqlFilter": "n > 1"}, "rpc"),
    ],
)
def test_files_are_read_unless_only_brokers_can_tell_what_is_wanted(
    given: dict[str, str], scan: str
) -> None:
    assert parse_source({"subscribe": "a", **given}).scan == scan


def test_all_tags_are_no_filter() -> None:
    options = parse_source({"subscribe": "a", "view": "offsets", "tags": "*"})

    assert (options.expression, options.decode.tags) == ("*", ())


def test_what_spark_adds_for_tables_is_no_error() -> None:
    parse_source({"subscribe": "a", "option.subscribe": "a", "owner": "me", "provider": "x"})


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_times_are_milliseconds_or_iso(text: str, time_ms: int) -> None:
    start = parse_source({"subscribe": "a", "startingTimestamp": text}).start

    assert start is not None
    assert start.time_ms == time_ms


def test_times_by_topic_and_by_queue() -> None:
    text = '{"a": 5, "b": {"k": {"0": 7}}}'
    start = parse_source({"subscribe": "a", "startingOffsetsByTimestamp": text}).start

    assert start is not None
    assert start.times_ms == {"a": 5, "b k/0": 7}


def test_columns_are_those_of_the_options() -> None:
    options = parse_source(
        {"subscribe": "a", "properties": "none", "includeBody": "false", "bodyAs": "string"}
    )
    names = [column.name for column in chosen_columns(options)]
    few = parse_source({"subscribe": "a", "columns": "MSGID, body", "bodyAs": "string"})

    assert "body" not in names
    assert "properties" not in names
    assert ddl(chosen_columns(few)) == "msgId string, body string"
    twice = parse_source({"subscribe": "a", "columns": "BODY, body"})
    assert ddl(chosen_columns(twice)) == "body binary"


def test_a_schema_chooses_columns_and_their_types() -> None:
    options = parse_source({"subscribe": "a"})

    chosen = check_schema([("body", "string"), ("queueId", "int")], options)

    assert ddl(chosen) == "body string, queueId int"
    with pytest.raises(ConfigError, match="column queueId is int, not string"):
        check_schema([("queueId", "string")], options)
    with pytest.raises(ConfigError, match="did you mean queueId"):
        check_schema([("queueID2", "int")], options)
    with pytest.raises(ConfigError, match="body and Body are the same column"):
        check_schema([("body", "binary"), ("Body", "string")], options)


def test_the_page_lists_every_option_with_its_default_and_no_other() -> None:
    row = re.compile(r"^\| `([\w.]+)` \| (?:`(.+?)`|–) \| (.+) \|$", re.MULTILINE)
    listed = [
        (name, default, meaning.replace("\\|", "|"))
        for name, default, meaning in row.findall(PAGE.read_text().partition("## Columns")[0])
    ]

    assert listed == [
        (each.name, each.default, each.meaning) for each in (*CONNECTION, *SOURCE, *SINK)
    ]


@pytest.mark.parametrize("option", [*CONNECTION, *SOURCE], ids=lambda each: each.name)
def test_a_default_of_the_page_is_what_the_source_takes(option: Option) -> None:
    needed = {"subscribe": "t"}
    if option.name.startswith("archive."):
        needed |= {"view": "archive", "archive.path": "/archive"}

    if option.default:
        assert parse_source({**needed, option.name: option.default}) == parse_source(needed)


@pytest.mark.parametrize("option", [*CONNECTION, *SINK], ids=lambda each: each.name)
def test_a_default_of_the_page_is_what_the_sink_takes(option: Option) -> None:
    if option.default:
        assert parse_sink({option.name: option.default}) == parse_sink({})


def test_the_page_lists_every_column() -> None:
    row = re.compile(r"^\| `(\w+)` \| `(\w+)` \| `(.+)` \| (yes|no) \|$", re.MULTILINE)

    assert row.findall(PAGE.read_text()) == [
        (view, column.name, column.type, "yes" if column.is_default else "no")
        for view, columns in CATALOGUE.items()
        for column in columns
    ]


def test_the_page_lists_every_column_of_the_sink() -> None:
    section = PAGE.read_text().partition("## Columns of the sink")[2]
    listed = {
        name: tuple(re.findall(r"`(.+?)`", kinds))
        for names, kinds in re.findall(r"^\| (`.+?) \| (`.+?) \|", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }

    assert listed == SINK_COLUMNS


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("body", "string"), ("value", "string")], "not both"),
        ([("body", "string")], "give the option topic"),
        (
            [
                *(("body", "string"), ("topic", "string")),
                *(("delayLevel", "int"), ("deliverAt", "timestamp")),
            ],
            "exclude each other",
        ),
    ],
)
def test_frames_that_cannot_be_sent_are_told(fields: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_sink_columns(fields, parse_sink({}))


def test_the_sink_takes_its_topic_from_both_places() -> None:
    assert parse_sink({"path": "a"}).topic == "a"
    with pytest.raises(ConfigError, match="different topics"):
        parse_sink({"path": "a", "topic": "b"})
    with pytest.raises(ConfigError, match="did you mean topic"):
        parse_sink({"topik": "b"})


def test_the_sink_sends_as_much_at_once_as_a_frame_has_room_for() -> None:
    assert parse_sink({}).send_max_bytes == 4 << 20
    assert parse_sink({"send.maxBytes": "15m"}).send_max_bytes == 15 << 20
    with pytest.raises(ConfigError, match=r"send\.maxBytes='16m': expected at most 15m"):
        parse_sink({"send.maxBytes": "16m"})
