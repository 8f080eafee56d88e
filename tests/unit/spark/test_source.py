"""What Spark's calls make of options, without Spark."""

from typing import Any

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from emberq.errors import ConfigError
from emberq.spark.source import RocketmqSource

SCHEMA = StructType([StructField("queueOffset", LongType())])


def test_a_stream_with_an_end_is_refused_when_its_reader_is_made() -> None:
    given = {"subscribe": "a", "nameServer": "h:1", "endingOffsets": "latest"}

    RocketmqSource(given).reader(SCHEMA)
    with pytest.raises(ConfigError, match="endingOffsets: a stream has no end"):
        RocketmqSource(given).streamReader(SCHEMA)


def test_a_column_of_messages_may_be_null() -> None:
    schema = StructType([StructField("body", BinaryType(), nullable=False)])
    with pytest.raises(ConfigError, match="column body is NOT NULL in the schema"):
        RocketmqSource({"subscribe": "a", "nameServer": "h:1"}).reader(schema)


def table(**options: str) -> StructType:
    """Its columns as Spark keeps them."""
    given = {"nameServer": "h:1", **options}
    return RocketmqSource({f"option.{name}": text for name, text in given.items()}).schema()


def test_a_table_is_read_by_its_own_options_unless_a_query_names_its_topics() -> None:
    schema = table(subscribe="a")

    assert RocketmqSource({"maxrecordsperpartition": "7"})._given(schema) == {
        "option.nameServer": "h:1",
        "option.subscribe": "a",
        "maxrecordsperpartition": "7",
    }
    other = {"subscribe": "b", "nameServer": "h:2"}
    assert RocketmqSource(other)._given(schema) == other


def test_what_is_made_of_a_table_has_no_credentials() -> None:
    with pytest.raises(ConfigError, match="accessKey and secretKey are no options of a table"):
        table(subscribe="a", accessKey="k", secretKey="s")


def test_credentials_and_name_servers_come_from_the_drivers_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "h:9")
    monkeypatch.setenv("EMBERQ_ACCESS_KEY", "me")
    monkeypatch.setenv("EMBERQ_SECRET_KEY", "hush")

    body = StructType([StructField("body", StringType())])
    made: list[Any] = [
        RocketmqSource({"subscribe": "a"}).reader(SCHEMA),
        RocketmqSource({"topic": "a"}).writer(body, overwrite=False),
    ]

    for each in made:  # what travels to executors
        connection = each._options.connection
        assert (connection.name_server, connection.access_key) == ("h:9", "me")
        assert connection.secret_key == "hush"
    given = RocketmqSource({"subscribe": "a", "endpoints": "h:1"})._given(SCHEMA)
    assert "nameServer" not in given


@pytest.mark.parametrize("columns", ["", "queueOffset,body"])
def test_rows_of_one_table_are_not_taken_for_rows_of_another(columns: str) -> None:
    """Spark keeps the metadata of columns whose rows go on as they are."""
    read = table(subscribe="a", columns=columns)

    writer: Any = RocketmqSource({}).writer(read, overwrite=False)
    assert "queueOffset" in writer._left_out  # where a value is refused
    own = {"nameServer": "test:1", "topic": "b"}
    with pytest.raises(ConfigError, match="the sink knows no column"):
        RocketmqSource(own).writer(read, overwrite=False)


def test_an_insert_needs_a_column_that_tells_its_table() -> None:
    all_written = table(subscribe="a", columns="topic,keys,body")
    with pytest.raises(ConfigError, match="needs a column that says where a message stands"):
        RocketmqSource({}).writer(all_written, overwrite=False)

    nobodys = StructType(
        [StructField("body", StringType()), StructField("queueOffset", LongType())]
    )
    with pytest.raises(ConfigError, match="name the columns that rows have"):
        RocketmqSource({}).writer(nobodys, overwrite=False)
