"""Topics as tables of Spark's catalogue: read and written in SQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.cluster import Topics
from tests.spark.test_batch import load


@pytest.fixture
def table(spark: SparkSession, topics: Topics) -> Iterator[str]:
    """The name of a table, which is dropped if the test made one."""
    name = topics.name("_t").replace("-", "_")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def create(spark: SparkSession, topics: Topics, table: str, more: str = "", head: str = "") -> None:
    spark.sql(
        f"CREATE TABLE {table} {head} USING rocketmq OPTIONS "
        f"(nameServer '{topics.cluster.name_server}', bodyAs 'string', {more})"
    )


def test_a_topic_is_a_table(spark: SparkSession, topics: Topics, table: str) -> None:
    topic = topics.make()
    topics.send(topic, [b'{"price": 3}', b'{"price": 4}'])
    create(spark, topics, table, f"subscribe '{topic}'")

    for price in (
        "get_json_object(body, '$.price')",
        "from_json(body, 'price INT').price",
        "variant_get(parse_json(body), '$.price', 'int')",
    ):
        query = f"SELECT sum({price}) AS total FROM {table}"
        assert spark.sql(query).collect()[0].total == 7, price


def test_rows_are_inserted(spark: SparkSession, topics: Topics, table: str) -> None:
    topic = topics.make()
    create(spark, topics, table, f"subscribe '{topic}', tags 'a || b', delivery 'idempotent'")

    spark.sql(f"INSERT INTO {table} (body, tags, queueId) VALUES ('one', 'a', 1), ('two', 'b', 0)")
    spark.sql(f"INSERT INTO {table} (body, properties) SELECT 'no tag', map('n', '3')")
    spark.createDataFrame([("four", "a")], "body string, tags string").writeTo(table).append()
    found = spark.sql(f"SELECT body, tags, queueId FROM {table} ORDER BY body").collect()

    assert [tuple(row) for row in found if row.body != "four"] == [("one", "a", 1), ("two", "b", 0)]
    assert [row.tags for row in found if row.body == "four"] == ["a"]
    everything = load(spark, topics, topic).collect()
    assert {row.properties.get("n") for row in everything} == {None, "3"}
    assert len(everything) == 4


def test_an_insert_may_be_one_transaction(spark: SparkSession, topics: Topics, table: str) -> None:
    topic = topics.make()
    create(spark, topics, table, f"subscribe '{topic}', delivery 'transactional'")

    with pytest.raises(PySparkException, match="has no body"):
        spark.sql(f"INSERT INTO {table} (body) SELECT * FROM VALUES ('half'), (NULL)")
    spark.sql(f"INSERT INTO {table} (body) VALUES ('one'), ('two')")

    found = spark.sql(f"SELECT body FROM {table} ORDER BY body").collect()
    assert [row.body for row in found] == ["one", "two"]


def test_rows_choose_among_the_topics_of_a_table(
    spark: SparkSession, topics: Topics, table: str
) -> None:
    one, other = topics.make("one"), topics.make("other")
    create(spark, topics, table, f"subscribe '{one},{other}', topic '{other}'")

    spark.sql(f"INSERT INTO {table} (topic, body) VALUES ('{one}', 'named'), (NULL, 'free')")

    found = spark.sql(f"SELECT topic, body FROM {table} ORDER BY body DESC").collect()
    assert [tuple(row) for row in found] == [(one, "named"), (other, "free")]


def test_inserts_that_cannot_be_are_told_in_one_sentence(
    spark: SparkSession, topics: Topics, table: str
) -> None:
    topic = topics.make()
    create(spark, topics, table, f"subscribe '{topic}'")

    for statement, message in (
        (
            f"INSERT INTO {table} (body, queueOffset) VALUES ('x', 7)",
            "row 0 has a value in the column queueOffset, which is read only",
        ),
        (f"INSERT INTO {table} (tags) VALUES ('x')", "row 0 has no body"),
        (f"INSERT OVERWRITE {table} (body) VALUES ('x')", "cannot be overwritten"),
    ):
        with pytest.raises(PySparkException, match=message):
            spark.sql(statement)
    assert load(spark, topics, topic).count() == 0


def test_rows_of_one_table_go_to_the_other_and_nowhere_else(
    spark: SparkSession, topics: Topics, table: str
) -> None:
    one, other = topics.make("one"), topics.make("other")
    topics.send(one, [b"x"])
    create(spark, topics, table, f"subscribe '{other}', columns 'queueOffset,tags,body'")
    source = f"{table}_source"
    create(spark, topics, source, f"subscribe '{one}', columns 'queueOffset,tags,body'")
    try:
        with pytest.raises(PySparkException, match="the column queueOffset, which is read only"):
            spark.sql(f"INSERT INTO {table} SELECT * FROM {source}")
        spark.sql(f"INSERT INTO {table} (tags, body) SELECT tags, body FROM {source}")
    finally:
        spark.sql(f"DROP TABLE {source}")

    assert load(spark, topics, one).count() == 1
    assert load(spark, topics, other).count() == 1


def test_options_of_one_query_count_beside_those_of_the_table(
    spark: SparkSession, topics: Topics, table: str
) -> None:
    topic = topics.make(queues=1)
    create(spark, topics, table, f"subscribe '{topic}', delivery 'idempotent'")

    for _ in range(2):
        spark.sql(f"INSERT INTO {table} WITH (sinkId 'nightly') (body) VALUES ('a'), ('b')")

    assert spark.sql(f"SELECT * FROM {table}").count() == 2
    rows = spark.read.option("maxRecordsPerPartition", 1).table(table)
    assert rows.rdd.getNumPartitions() == 2


def test_a_table_of_places_cannot_be_written(
    spark: SparkSession, topics: Topics, table: str
) -> None:
    create(spark, topics, table, f"subscribe '{topics.make()}', view 'offsets'")

    with pytest.raises(PySparkException, match="view offsets cannot be written"):
        spark.sql(f"INSERT INTO {table} (topic) VALUES ('x')")


def test_what_spark_keeps_back_is_told(spark: SparkSession, topics: Topics, table: str) -> None:
    topic = topics.make()
    create(spark, topics, table, f"subscribe '{topic}'", "(body STRING)")
    with pytest.raises(PySparkException, match="create it without the list"):
        spark.sql(f"SELECT * FROM {table}").collect()


def test_a_stream_into_a_table_is_told(
    spark: SparkSession, topics: Topics, table: str, tmp_path: Path
) -> None:
    topic = topics.make()
    create(spark, topics, table, f"subscribe '{topic}'")
    stream = spark.readStream.format("rate").load().selectExpr("string(value) AS body")

    with pytest.raises(PySparkException, match="Spark keeps a table's options from toTable"):
        stream.writeStream.option("checkpointLocation", str(tmp_path)).toTable(
            table
        ).awaitTermination()
