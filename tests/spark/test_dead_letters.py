"""Dead letters on their way back: each once, whatever fails, and nothing that a plan did not tell.

They are made as consumers make them: a message is given back to the broker and given up.
"""

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from emberq import Producer
from emberq.client.core.received import ReceivedMessage
from emberq.errors import ConfigError, EmberqError, TableError
from emberq.pipelines import redrive
from emberq.pipelines.dead_letters import DeadLetters
from emberq.pipelines.job import Report
from emberq.pipelines.redrive import REDRIVE_PROPERTY
from emberq.pipelines.redrive_ledger import RedriveLedger
from emberq.protocol.headers.send import ConsumerSendMessageBack
from emberq.spark.links import Link
from emberq.spark.options import ConnectionOptions
from emberq.store.view.directory import StoreView
from tests.spark.cluster import Topics, running_cluster, until
from tests.spark.two_brokers import TwoBrokers, running_two_brokers
from tests.support.topic_content import messages_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GIVE_UP = -1


def bodies(count: int, first: int = 0) -> list[bytes]:
    return [b"%03d" % number for number in range(first, first + count)]


def texts(count: int, first: int = 0) -> list[str]:
    return [body.decode() for body in bodies(count, first)]


def bury(topics: Topics, group: str, topic: str, letters: Sequence[bytes], **fields: Any) -> None:
    """Send messages to a topic, of which a group then gives up each."""
    topics.send(topic, letters, **fields)
    given_up = [each for each in flat(topics.cluster.name_server, topic) if each.body in letters]
    give_up(topics.cluster.name_server, group, given_up)


def give_up(name_server: str, group: str, messages: Sequence[ReceivedMessage]) -> None:
    give_back(name_server, group, messages, delay_level=GIVE_UP, max_reconsume_times=16)


def give_back(
    name_server: str,
    group: str,
    messages: Sequence[ReceivedMessage],
    *,
    delay_level: int,
    max_reconsume_times: int,
) -> None:
    with closing(Link(ConnectionOptions(name_server=name_server))) as link:

        async def give(message: ReceivedMessage) -> None:
            await link.know(message.queue)
            header = ConsumerSendMessageBack(
                commit_log_offset=message.record.log_offset,
                group=group,
                origin_message_id=message.message_id,
                origin_topic=message.topic,
                delay_level=delay_level,
                max_reconsume_times=max_reconsume_times,
            )
            await link.client.call_broker(message.queue.broker_name, header)

        for message in messages:
            link.run(lambda each=message: give(each), 5)  # type: ignore[misc] # a message


def flat(name_server: str, topic: str) -> list[ReceivedMessage]:
    return [message for own in messages_of(name_server, topic) for message in own]


def redriven(name_server: str, topic: str) -> list[ReceivedMessage]:
    return [each for each in flat(name_server, topic) if REDRIVE_PROPERTY in each.properties]


def sent_back(topics: Topics, topic: str) -> list[str]:
    return sorted(each.text() for each in redriven(topics.cluster.name_server, topic))


def rows_by_title(report: Report) -> dict[str, list[list[Any]]]:
    return {table.title: table.rows for table in report.tables}


def dlq(
    topics: Topics, group: str, ledger: Path | str | None = None, **options: Any
) -> DeadLetters:
    if ledger is not None:
        options |= {"redrive": True, "ledger": str(ledger)}
    return DeadLetters(groups=group, name_server=topics.cluster.name_server, **options)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def group(topics: Topics) -> str:
    return topics.name("-billing")


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """Of a broker that does not know what it has, as official ones."""
    home = tmp_path_factory.mktemp("forgetful")
    with (
        running_cluster(home, messageIndexEnable="false") as cluster,
        Producer("forgetful", name_server=cluster.name_server) as producer,
    ):
        yield Topics(cluster, producer, "forgetful")


# What is sent


def test_letters_whose_ledger_is_lost_with_the_driver_are_not_stored_again(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    topic = topics.make()
    bury(topics, group, topic, bodies(5))
    job = dlq(topics, group, ledger)

    first = job.run(spark)
    shutil.rmtree(ledger)
    again = job.run(spark)

    assert sent_back(topics, topic) == texts(5)
    assert (first.facts["sent back"], again.facts["sent back"]) == (5, 5)
    assert first.facts["delivery"] == "once per letter"


def test_a_failure_repeats_one_piece_at_most_where_brokers_do_not_know_what_they_have(
    spark: "SparkSession", forgetful: Topics, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = forgetful.make("-orders")
    bury(forgetful, "billing", topic, bodies(8))
    monkeypatch.setattr(redrive, "PIECE_LETTERS", 3)
    job = dlq(forgetful, "billing", ledger)
    add, calls = RedriveLedger.add, []

    def add_two(self: RedriveLedger, letters: pa.Table) -> None:
        calls.append(letters.num_rows)
        if len(calls) > 2:
            raise TableError("the disk is full")
        add(self, letters)

    with monkeypatch.context() as patch:
        patch.setattr(RedriveLedger, "add", add_two)
        with pytest.raises(TableError):
            job.run(spark)
    again, at_last = job.run(spark), job.run(spark)

    assert calls == [3, 3, 2]
    assert (again.facts["sent back"], at_last.facts["sent back"]) == (2, 0)
    assert again.facts["delivery"] == "in pieces of 3"
    found = Counter(sent_back(forgetful, topic))
    assert found == Counter(texts(8)) + Counter(texts(2, first=6))


def test_letters_whose_topic_is_gone_are_left_and_the_others_go(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    topic, gone = topics.make(), topics.make("-gone")
    bury(topics, group, gone, bodies(2, first=3))
    bury(topics, group, topic, bodies(3))
    topics.delete(gone)
    job = dlq(topics, group, ledger, limit=3)

    planned, report = job.plan(spark), job.run(spark)
    topics.make("-gone")
    later = job.run(spark)

    for each in (planned, report):
        assert not each.is_good
        assert each.facts["left, without a topic to go to"] == 2
        assert each.tables[-1].rows == [[gone, 2]]
    assert report.facts["sent back"] == 3
    assert sent_back(topics, topic) == texts(3)
    assert later.is_good
    assert "sent back before" not in report.facts
    assert (later.facts["sent back"], later.facts["sent back before"]) == (2, 3)
    assert sent_back(topics, gone) == texts(2, first=3)


def test_a_letter_that_dies_again_is_sent_back_again(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    topic = topics.make()
    bury(topics, group, topic, bodies(2))
    job = dlq(topics, group, ledger)
    job.run(spark)

    [again] = [each for each in redriven(topics.cluster.name_server, topic) if each.text() == "001"]
    give_up(topics.cluster.name_server, group, [again])
    report = job.run(spark)

    assert report.facts["sent back"] == 1
    assert sent_back(topics, topic) == ["000", "001", "001"]


def test_letters_come_back_as_they_were_but_for_their_ids(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    topic = topics.make()
    bury(topics, group, topic, bodies(1), tags="paid", keys="k-1", properties={"shop": "7"})
    [original] = flat(topics.cluster.name_server, topic)

    dlq(topics, group, ledger).run(spark)

    [letter] = redriven(topics.cluster.name_server, topic)
    assert (letter.tags, letter.keys, letter.properties["shop"]) == ("paid", ["k-1"], "7")
    assert letter.properties[REDRIVE_PROPERTY] == original.offset_message_id
    assert letter.message_id != original.message_id
    assert letter.reconsume_times == 0


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    with running_two_brokers(tmp_path_factory.mktemp("brokers")) as running:
        yield running


def test_letters_of_a_topic_on_two_brokers_go_back_once(
    spark: "SparkSession", brokers: TwoBrokers, ledger: Path
) -> None:
    topic, other = brokers.make("orders", queues=1), brokers.make("refunds", queues=1)
    with Producer("both", name_server=brokers.name_server) as producer:
        for name in (topic, other):
            queues = producer.queues(name)
            for number in range(10):
                producer.send(name, b"%d" % number, queue=queues[number % len(queues)])
    messages = [*flat(brokers.name_server, topic), *flat(brokers.name_server, other)]
    give_up(brokers.name_server, "billing", messages)
    job = DeadLetters(
        groups="billing", name_server=brokers.name_server, redrive=True, ledger=str(ledger)
    )

    first = job.run(spark)
    shutil.rmtree(ledger)
    job.run(spark)

    assert first.facts["sent back"] == 20
    for name in (topic, other):
        found = redriven(brokers.name_server, name)
        assert sorted(each.text() for each in found) == [str(number) for number in range(10)]


def test_flags_of_letters_come_back(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    topic = topics.make()
    bury(topics, group, topic, bodies(1), flag=7)
    bury(topics, group, topic, bodies(1, first=1))

    dlq(topics, group, ledger).run(spark)

    letters = redriven(topics.cluster.name_server, topic)
    assert {each.text(): each.flag for each in letters} == {"000": 7, "001": 0}


# What is remembered


def test_the_ledger_is_one_folder_whatever_spark_takes_its_path_for(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    topic = topics.make()
    bury(topics, group, topic, bodies(4))
    job = dlq(topics, group, ledger)
    spark.conf.set("fs.defaultFS", "viewfs://nowhere/")  # as on a cluster: not the driver's disk
    try:
        first, again = job.run(spark), job.run(spark)
    finally:
        spark.conf.unset("fs.defaultFS")

    assert (first.facts["sent back"], again.facts["sent back"]) == (4, 0)
    assert [path.suffix for path in ledger.iterdir()] == [".parquet"]


def test_a_ledger_may_lie_where_only_spark_reaches_it(
    spark: "SparkSession", topics: Topics, group: str, tmp_path: Path
) -> None:
    topic = topics.make()
    bury(topics, group, topic, bodies(4))
    shared = tmp_path / "shared"
    shared.mkdir()
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.ledgers.link./state", f"file://{shared}")
    job = dlq(topics, group, "viewfs://ledgers/state/billing")

    planned, first, again = job.plan(spark), job.run(spark), job.run(spark)

    assert planned.facts["would be sent back"] == 4
    assert (first.facts["sent back"], again.facts["sent back"]) == (4, 0)
    assert len(list((shared / "billing").glob("sent-*.parquet"))) == 1


def test_new_letters_at_the_places_of_old_ones_are_sent(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    topic = topics.make()
    bury(topics, group, topic, bodies(3))
    job = dlq(topics, group, ledger)
    job.run(spark)

    topics.delete(f"%DLQ%{group}")
    bury(topics, group, topic, bodies(2, first=3))
    report = job.run(spark)

    assert report.facts["sent back"] == 2
    assert sent_back(topics, topic) == texts(5)


def test_a_ledger_of_before_ids_still_counts(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    topic = topics.make()
    bury(topics, group, topic, bodies(4))
    places = "topic string, brokerName string, queueId int, queueOffset bigint"
    rows = [(f"%DLQ%{group}", "broker-a", 0, offset) for offset in (0, 1)]
    spark.createDataFrame(rows, places).coalesce(1).write.parquet(str(ledger))
    job = dlq(topics, group, ledger)

    first, again = job.run(spark), job.run(spark)

    assert (first.facts["sent back"], again.facts["sent back"]) == (2, 0)
    assert sent_back(topics, topic) == texts(2, first=2)


def test_nothing_is_sent_that_the_ledger_could_not_remember(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    topic = topics.make()
    bury(topics, group, topic, bodies(1))
    ledger.write_text("a file where a folder should be")

    with pytest.raises(TableError):
        dlq(topics, group, ledger).run(spark)

    assert sent_back(topics, topic) == []


# What a plan tells


def test_a_plan_tells_what_the_run_then_sends(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    topic = topics.make()
    bury(topics, group, topic, bodies(6))
    job = dlq(topics, group, ledger, where="string(body) != '001'", limit=3)

    planned, done, rest = job.plan(spark), job.run(spark), job.plan(spark)

    letters = {each.text(): each for each in flat(topics.cluster.name_server, f"%DLQ%{group}")}
    chosen = [letters[text] for text in ("000", "002", "003")]
    size = sum(each.record.size_bytes for each in chosen)
    assert (planned.facts["would be sent back"], planned.facts["bytes"]) == (3, size)
    assert planned.tables[0].rows == [[f"%DLQ%{group}", "broker-a", 0, 0, 4, 3, size]]
    assert done.facts["sent back"] == 3
    assert sent_back(topics, topic) == ["000", "002", "003"]
    assert rest.facts["would be sent back"] == 2


def test_a_plan_without_redrive_says_what_would_be_read(
    spark: "SparkSession", topics: Topics, group: str
) -> None:
    topic = topics.make()
    bury(topics, group, topic, bodies(6))

    report = dlq(topics, group).plan(spark)

    assert report.facts["messages"] == 6
    assert report.facts["bytes, about"] > 0
    assert "would be sent back" not in report.facts
    assert report.tables[0].rows[0][:6] == [f"%DLQ%{group}", "broker-a", 0, 0, 6, 6]


def test_a_plan_fails_where_the_run_would(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    dead = f"%DLQ%{group}"
    topics.producer.create_topic(dead, queues=1)
    topics.send(dead, bodies(2))  # from a topic that they do not name
    job = dlq(topics, group, ledger)

    for step in (job.plan, job.run):
        with pytest.raises(ConfigError, match="2 dead letters do not say which topic"):
            step(spark)


# What is shown


def test_a_group_without_dead_letters_has_none(
    spark: "SparkSession", topics: Topics, group: str, ledger: Path
) -> None:
    topic, healthy = topics.make(), topics.name("-healthy")
    bury(topics, group, topic, bodies(2), tags="a")

    both = dlq(topics, f"{group}, {healthy}").run(spark)
    one = dlq(topics, healthy, ledger, where="tags = 'a'")

    rows = [row[:4] for row in both.tables[0].rows]
    assert rows == [[group, topic, "a", 2], [healthy, None, None, 0]]
    assert both.facts["dead letters"] == 2
    assert one.plan(spark).facts["would be sent back"] == 0
    assert one.run(spark).facts["sent back"] == 0
    assert dlq(topics, healthy).plan(spark).facts["messages"] == 0


def test_letters_are_counted_by_the_attempts_at_them(
    spark: "SparkSession", topics: Topics, group: str
) -> None:
    """The first four are given up at once, the last two when they came twice and may no more."""
    topic = topics.make(queues=1)
    bury(topics, group, topic, bodies(4))
    topics.send(topic, bodies(2, first=4))
    address = topics.cluster.name_server
    give_back(address, group, flat(address, topic)[4:], delay_level=1, max_reconsume_times=1)
    retried = f"%RETRY%{group}"
    until(lambda: len(flat(address, retried)) == 2)
    give_back(address, group, flat(address, retried), delay_level=0, max_reconsume_times=1)

    report = dlq(topics, group).run(spark)
    given_up = dlq(topics, group, where="reconsumeTimes < 2").run(spark)

    tables = rows_by_title(report)
    assert tables["By group, topic and attempts"] == [[group, topic, 1, 4], [group, topic, 2, 2]]
    assert [row[2] for row in tables["By day and group"]] == [6]
    assert given_up.facts["dead letters"] == 4


def test_name_servers_that_do_not_answer_are_no_empty_group(spark: "SparkSession") -> None:
    job = DeadLetters(groups="billing", name_server="127.0.0.1:1", source={"retries": "0"})

    for step in (job.plan, job.run):
        with pytest.raises(EmberqError, match="no name server can be reached"):
            step(spark)


def test_a_store_directory_needs_no_name_server(
    spark: "SparkSession", topics: Topics, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(topics, group, topics.make(), bodies(3))
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    store = str(topics.cluster.broker.store)
    view = StoreView(Path(store))  # queues are written some time behind the log
    until(lambda: [queue.end_offset() for queue in view.queues(f"%DLQ%{group}")] == [3])

    report = DeadLetters(groups=f"{group},nobody", source={"store": store}).run(spark)

    assert report.facts["dead letters"] == 3


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_tokyo")
def test_times_are_those_of_utc_wherever_the_driver_is(
    spark: "SparkSession", topics: Topics, group: str
) -> None:
    bury(topics, group, topics.make(), bodies(1))

    tables = rows_by_title(dlq(topics, group).run(spark))

    [[*_, first, last]] = tables["By group, topic and tag"]
    [[day, _, _]] = tables["By day and group"]
    [[hour, _]] = tables["By hour"]
    assert first == last
    assert first.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - first) < timedelta(minutes=5)
    assert hour == first.replace(minute=0, second=0, microsecond=0)
    assert day == hour.replace(hour=0)
