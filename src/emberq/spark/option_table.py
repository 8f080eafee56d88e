"""Every option of the Spark source by name, with its default and its meaning. No values here.

docs/reference/spark-options.md is kept equal to these tables by a test.
"""

from msgspec import Struct


class Option(Struct, frozen=True, gc=False):
    """`default` is as a user would write it; empty: there is none."""

    name: str
    default: str
    meaning: str


CONNECTION = (
    Option("nameServer", "", "name servers, `host:port` separated by `;`; else NAMESRV_ADDR"),
    Option("endpoints", "", "another name of `nameServer`"),
    Option("accessKey", "", "credentials, with `secretKey`; else EMBERQ_ACCESS_KEY"),
    Option("secretKey", "", "credentials, with `accessKey`; else EMBERQ_SECRET_KEY"),
    Option("tls", "false", "encrypted connections"),
    Option("namespace", "", "is put in front of topics and groups"),
    Option("retries", "5", "how often a question to a broker is repeated after a failure"),
    Option(
        "brokerWaitMs",
        "60000",
        "how long what is under way waits for a broker that is away, beyond `retries`",
    ),
)

SOURCE = (
    Option("subscribe", "", 'topics, separated by commas; `load("a,b")` means the same'),
    Option("subscribePattern", "", "a regular expression that whole topic names match"),
    Option("assign", "", 'queues as JSON: `{"topic": {"broker-a": [0, 1]}}`'),
    Option("view", "messages", "`messages`, `index`, `offsets`, `groups` or `archive`"),
    Option(
        "startingOffsets",
        "",
        "`earliest`, `latest`, `group` or JSON; batch: earliest, stream: the group's offsets, "
        "else latest",
    ),
    Option("startingTimestamp", "", "messages stored from then on: milliseconds or ISO 8601"),
    Option("startingOffsetsByTimestamp", "", 'the same by topic and queue: `{"topic": MS}`'),
    Option(
        "startingOffsetsByTimestampStrategy",
        "latest",
        "where nothing is stored since: `latest` or `error`",
    ),
    Option("endingOffsets", "latest", "`latest` or JSON; batch only"),
    Option("endingTimestamp", "", "messages stored before then; batch only"),
    Option("endingOffsetsByTimestamp", "", "the same by topic and queue; batch only"),
    Option("consumerGroup", "", "whose offsets are started from and committed, and pin the start"),
    Option(
        "commitOffsets",
        "source",
        "`source`: one batch late; `listener`: by `emberq.spark.track`; `none`",
    ),
    Option("maxOffsetsPerTrigger", "", "at most so many messages per micro-batch"),
    Option("minOffsetsPerTrigger", "", "wait for so many messages, at most `maxTriggerDelay`"),
    Option("maxTriggerDelay", "15m", "how long `minOffsetsPerTrigger` may hold messages back"),
    Option("maxBytesPerTrigger", "", "at most about so many bytes per micro-batch"),
    Option("minPartitions", "", "cut ranges until there are so many tasks"),
    Option("maxRecordsPerPartition", "", "at most so many messages per task"),
    Option("maxBytesPerPartition", "256m", "at most about so many bytes per task"),
    Option("columns", "", "names separated by commas; `.schema(…)` means the same"),
    Option("properties", "map", "`map`, `string` (as stored) or `none`"),
    Option("includeBody", "true", "whether `body` is among the columns of a source without any"),
    Option("bodyAs", "binary", "`binary`, or `string`: null where it is not UTF-8"),
    Option("decompress", "true", "whether compressed bodies are unpacked"),
    Option("tags", "", "only messages with these tags: `a || b`"),
    Option("sqlFilter", "", "only messages for which this SQL92 expression over properties holds"),
    Option("failOnDataLoss", "true", "whether messages that are gone stop the query"),
    Option("scan", "rpc", "`rpc`; `local`: the broker's files; `auto`: local where they are here"),
    Option("store", "", "a store directory to read instead of a broker"),
    Option("pull.maxBytes", "2m", "bytes per pull"),
    Option("pull.prefetch", "2", "pulls that are fetched while others are decoded"),
    Option("pull.timeoutMs", "15000", "how long one pull may take"),
    Option("batchRows", "10000", "rows per Arrow batch"),
    Option(
        "batchBytes",
        "4m",
        "bytes of an Arrow batch at most, or one row; small ones are joined up to half of it",
    ),
    Option(
        "idlePollMs",
        "200",
        "how often an idle stream asks for new messages; official brokers more seldom",
    ),
    Option("decoder", "auto", "`auto` (compiled where that was built), `vector` or `scalar`"),
    Option(
        "arrowTransform",
        "",
        "`module:function` applied to each Arrow batch in the task; needs `.schema(…)`",
    ),
    Option("archive.path", "", "with `view=archive`: the folder that tasks write Parquet files to"),
    Option("archive.writer", "", "keeps files of two archives in one folder apart"),
    Option(
        "archive.partitionBy",
        "topic,date",
        "of `topic`, `brokerName`, `queueId`, `date`, `hour`; by store time, UTC",
    ),
    Option("archive.fileSize", "256m", "about how large files become"),
    Option("archive.compression", "zstd", "`zstd`, `snappy`, `gzip`, `lz4` or `none`"),
    Option(
        "archive.partitionColumns",
        "drop",
        "`keep`: files hold the columns that stand in their path as well",
    ),
)

SINK = (
    Option("topic", "", 'where rows without a `topic` go; `save("orders")` means the same'),
    Option("producerGroup", "emberq-spark", "the group of the producers in tasks"),
    Option("send.timeoutMs", "10000", "how long one request may take"),
    Option(
        "send.maxBytes",
        "4m",
        "bytes of a request, and of one row's body, at most; no more than the brokers' "
        "`maxMessageSize`",
    ),
    Option(
        "delivery",
        "at-least-once",
        "`at-least-once`, `idempotent`: once per id, or `transactional`: batches as a whole, once",
    ),
    Option(
        "sinkId",
        "",
        "batch, not at-least-once: a name of this write; repeated under it, it is written once",
    ),
    Option(
        "brokers",
        "",
        "not at-least-once: names of the topic's brokers, if there are several; writes wait for "
        "those that are away",
    ),
    Option("ids", "true", "whether each message carries the property `SPARK_ID`"),
)
