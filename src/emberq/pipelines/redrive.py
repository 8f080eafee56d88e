"""Dead letters on their way back: which ones, and sending them so that none goes twice."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from emberq.errors import ConfigError
from emberq.pipelines.job import ReportTable, Say
from emberq.pipelines.kept_properties import kept_properties
from emberq.pipelines.redrive_ledger import PLACE, RedriveLedger
from emberq.pipelines.topic_look_up import KnownTopic, look_up_topics
from emberq.spark.sink_options import Delivered

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

REDRIVE_PROPERTY = "EMBERQ_REDRIVE_OF"
# Letters that are sent before the ledger is told of them: a failure repeats one such piece at most.
PIECE_LETTERS = 1_000
# The same where brokers leave out what they have.
ONCE_PIECE_LETTERS = 10_000


class Redrive(Struct, frozen=True):
    """What is to be sent: `keys` has a row for each letter that could be, in no order; the first
    `count` of them, by place, are sent."""

    keys: "DataFrame"
    count: int
    targets: dict[str, KnownTopic]
    homeless: dict[str, int]  # letters by topics that are not there, or take no messages
    sent_before: int  # letters that the ledger knows

    @property
    def is_once(self) -> bool:
        """Whether all brokers leave out what they have."""
        return all(target.is_once for target in self.targets.values())

    @property
    def piece_max(self) -> int:
        return ONCE_PIECE_LETTERS if self.is_once else PIECE_LETTERS

    def chosen(self) -> "DataFrame":
        return self.keys.orderBy(*PLACE).limit(self.count)

    def facts(self) -> dict[str, Any]:
        """Of plans and reports alike."""
        facts: dict[str, Any] = {}
        if self.sent_before:
            facts["sent back before"] = self.sent_before
        if self.count:
            facts["delivery"] = (
                "once per letter" if self.is_once else f"in pieces of {self.piece_max:,}"
            )
        if self.homeless:
            facts["left, without a topic to go to"] = sum(self.homeless.values())
        return facts

    def tables(self) -> list[ReportTable]:
        if not self.homeless:
            return []
        rows = [[topic, count] for topic, count in sorted(self.homeless.items())]
        title = "Topics that are not there, or take no messages"
        return [ReportTable(title=title, columns=["topic", "messages"], rows=rows)]


def letter_id() -> "Column":
    """What a dead letter is known by: where it lies, and since a topic may be deleted and made
    anew, when it was stored there and which message it is."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - an extra

    return f.concat_ws(":", *PLACE, f.unix_millis("storeTimestamp"), "uniqKey")


@contextmanager
def planned_redrive(
    session: "SparkSession",
    letters: "DataFrame",
    ledger: RedriveLedger,
    connection: Mapping[str, str],
    *,
    topics: Collection[str],
    to_topic: str,
    limit: int,
) -> Iterator[Redrive]:
    """Letters, all of these topics, that are not in the ledger, and where they can go.

    Raises:
        ConfigError: a letter does not say where it came from.
        TableError: the ledger cannot be read.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    target = f.lit(to_topic) if to_topic else f.col("originTopic")
    remembered = ledger.remembered(topics)
    waiting = (
        _not_sent(session, letters, *remembered)
        .select("id", *PLACE, target.alias("target"), "size")
        .cache()
    )
    try:
        counts = {row[0]: row[1] for row in waiting.groupBy("target").count().collect()}
        nameless = counts.pop(None, 0)
        if nameless:
            raise ConfigError(
                f"{nameless} dead letters do not say which topic they came from: give toTopic"
            )
        known = look_up_topics(session, connection, counts, asks_once=True)
        targets = {name: topic for name, topic in known.items() if topic.brokers}
        homeless = {name: count for name, count in counts.items() if name not in targets}
        not_sent = sum(counts.values())
        is_first_run = not any(table.num_rows for table in remembered)
        sent_before = 0 if is_first_run else letters.count() - not_sent
        total = not_sent - sum(homeless.values())
        keys = waiting.filter(~f.col("target").isin(*homeless)) if homeless else waiting
        yield Redrive(keys, min(limit or total, total), targets, homeless, sent_before)
    finally:
        waiting.unpersist()


def send_back(
    session: "SparkSession",
    letters: "DataFrame",
    redrive: Redrive,
    ledger: RedriveLedger,
    options: Mapping[str, str],
    say: Say,
) -> int:
    """Send letters piece by piece, each of which is in the ledger before the next one leaves."""
    ledger.check_writable()
    sent = 0
    rest = redrive.keys
    while sent < redrive.count:
        first = rest.orderBy(*PLACE).limit(min(redrive.piece_max, redrive.count - sent))
        piece = first.toArrow()
        if not piece.num_rows:
            break  # they expired, and what was kept of them is lost
        _send(session, letters, piece, redrive, options)
        ledger.add(piece)
        sent += piece.num_rows
        rest = redrive.keys.filter(_is_behind(piece))
        say(f"{sent:,} of {redrive.count:,} messages sent back")
    return sent


def _not_sent(
    session: "SparkSession", letters: "DataFrame", ids: pa.Table, places: pa.Table
) -> "DataFrame":
    if ids.num_rows:
        letters = letters.join(session.createDataFrame(ids), "id", "left_anti")
    if places.num_rows:
        letters = letters.join(session.createDataFrame(places), list(PLACE), "left_anti")
    return letters


def _is_behind(piece: pa.Table) -> "Column":
    """Of places in their order: behind the last one of a piece."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    last = piece.select(list(PLACE)).slice(piece.num_rows - 1).to_pylist()[0]
    kinds = {"queueId": "int", "queueOffset": "bigint"}
    place = [f.lit(last[name]).cast(kinds.get(name, "string")).alias(name) for name in PLACE]
    return f.struct(*PLACE) > f.struct(*place)


def _send(
    session: "SparkSession",
    letters: "DataFrame",
    piece: pa.Table,
    redrive: Redrive,
    options: Mapping[str, str],
) -> None:
    from pyspark.sql import functions as f  # noqa: PLC0415

    offsets = pc.min_max(piece["queueOffset"]).as_py()
    keys = session.createDataFrame(piece.select(["id", "target"]))
    # The range is for speed alone: what is cached is looked through by it.
    chosen = letters.filter(
        f.col("queueOffset").between(f.lit(offsets["min"]), f.lit(offsets["max"]))
    ).join(f.broadcast(keys), "id")
    messages = _as_messages(chosen)
    if not redrive.is_once:
        _write(messages, options)
        return
    by_brokers: dict[tuple[str, ...], list[str]] = {}
    for topic in piece["target"].unique().to_pylist():
        by_brokers.setdefault(redrive.targets[topic].brokers, []).append(topic)
    for brokers, topics in by_brokers.items():
        # Named, so that a task that is repeated waits for them: others do not know what they have.
        once = {"delivery": Delivered.IDEMPOTENT.value, "brokers": ",".join(brokers)}
        _write(messages.filter(f.col("topic").isin(*topics)), {**options, **once})


def _write(messages: "DataFrame", options: Mapping[str, str]) -> None:
    messages.write.format("rocketmq").options(**options).mode("append").save()


def _as_messages(letters: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f  # noqa: PLC0415

    own = f.map_from_arrays(f.array(f.lit(REDRIVE_PROPERTY)), f.array(f.col("originId")))
    kept = kept_properties(f.col("properties"), REDRIVE_PROPERTY)
    return letters.select(
        f.col("target").alias("topic"),
        "keys",
        "tags",
        "flag",
        "body",
        "id",
        f.map_concat(kept, own).alias("properties"),
    )
